use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use clap::{Args, Parser};
use pgcalm_host::quantity::{COUNT, ROWS, number};
use pgcalm_volume::Volume;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::DEFAULT_DIR;
use crate::contestant::ServerSetting;
use crate::server::settings;
use crate::trouble::Scheduled;
use pgcalm_host::Failure;

/// What every scenario lets one choose.
#[derive(Debug, Clone, Args, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Common {
    /// Make the devices volumes that behave like a cloud's, with limits for reads and writes, instead of capping them by control
    /// groups: NAME[:KEY=VALUE,...], e.g. gp3, gp3:iops=6000,bandwidth=250MB, pd-balanced:size=200GB; `pgcalm lab list`
    /// tells the names, docs/guides/lab.md the keys. checkpoint and predict tell pg_calm the limits by its settings; caps
    /// of single instances (tenants, journal) stay.
    #[arg(long, value_name = "PROFILE")]
    #[serde(serialize_with = "as_text")]
    pub volume: Option<Volume>,
    /// A server setting for all servers; may be repeated.
    #[arg(long, value_name = "NAME=VALUE")]
    pub set: Vec<ServerSetting>,
    /// What happens to server, volume or host during a run, at a second of its measured part; may be repeated; `pgcalm lab
    /// list` tells what there is. checkpoint has it; all other scenarios refuse it.
    #[arg(long, value_name = "NAME[@SECOND]")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trouble: Vec<Scheduled>,
    /// Directory with the server programs [default: of the newest PostgreSQL installed].
    #[arg(long, value_name = "DIR")]
    #[serde(skip)]
    pub pg_bindir: Option<PathBuf>,
    /// Directory where pg_calm was built [default: the installed one].
    #[arg(long, value_name = "DIR")]
    #[serde(skip)]
    pub module_dir: Option<PathBuf>,
    /// Directory for devices, what is loaded and logs; needs room for all of them, on ext4 or XFS.
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DIR)]
    #[serde(skip)]
    pub dir: PathBuf,
    /// Keep the logs of servers and clients, in pgcalm-kept of --dir; `lab clean` removes them.
    #[serde(skip)]
    #[arg(long)]
    pub keep: bool,
}

impl Common {
    /// Fails if trouble is asked for, in the name of a scenario that can't have it.
    pub(crate) fn refuse_trouble(&self) -> Result<(), Failure> {
        match self.trouble.first() {
            None => Ok(()),
            Some(first) => {
                Err(Failure::Usage(format!("--trouble {first}: only lab run checkpoint has it: leave it out")))
            }
        }
    }

    /// These with settings of the scenario, before those that were asked for, which count.
    pub(crate) fn with<'a>(&self, own: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut common = self.clone();
        let own =
            own.into_iter().map(|(name, value)| ServerSetting { name: name.to_string(), value: value.to_string() });
        common.set.splice(0..0, own);
        common
    }

    /// Settings of a server: those of the scenario, over which go those that were asked for.
    pub(crate) fn over<N: ToString, V: ToString>(
        &self,
        own: impl IntoIterator<Item = (N, V)>,
    ) -> BTreeMap<String, String> {
        let mut all = settings(own);
        all.extend(self.set.iter().map(|s| (s.name.clone(), s.value.clone())));
        all
    }
}

/// What has no options: those of a scenario as they are if none is given.
#[derive(Debug, Parser)]
#[command(no_binary_name = true)]
struct Alone<T: Args> {
    #[command(flatten)]
    options: T,
}

/// The options of a scenario if none is given.
pub(crate) fn defaults<T: Args>() -> T {
    Alone::parse_from(std::iter::empty::<&str>()).options
}

/// The options that words of a command line come to.
#[cfg(test)]
pub(crate) fn parsed<T: Args>(words: &[&str]) -> Result<T, clap::Error> {
    Alone::try_parse_from(words).map(|alone| alone.options)
}

/// By name on the command line, as reports show them; without those that are not given and have no default.
pub(crate) fn named<T: Serialize>(options: &T) -> BTreeMap<String, Value> {
    // Fails on maps whose keys are no text; there are none.
    let mut named: BTreeMap<String, Value> =
        serde_json::to_value(options).and_then(serde_json::from_value).unwrap_or_default();
    named.retain(|_, value| !value.is_null());
    named
}

/// Fails unless `value` is one from `low` to `high`, naming the option.
pub(crate) fn range<T: PartialOrd + fmt::Display>(option: &str, value: T, low: T, high: T) -> Result<(), Failure> {
    // No number at all is not in a range, either.
    if !(&low..=&high).contains(&&value) {
        return Err(Failure::Usage(format!("--{option} {value}: use a value from {low} to {high}")));
    }
    Ok(())
}

/// Reads a number of rows.
pub(crate) fn rows<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    number(ROWS, text)
}

/// Reads any other number; scenarios have ranges of their own.
pub(crate) fn count<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    number(COUNT.within(0, u64::MAX, "from 0"), text)
}

/// As it is printed.
pub(crate) fn as_text<T: fmt::Display, S: Serializer>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => serializer.collect_str(value),
        None => serializer.serialize_none(),
    }
}

use std::collections::BTreeMap;
use std::ops::Deref;
use std::time::Duration;

use clap::Args;
use pgcalm_host::Failure;
use serde::Serialize;
use serde_json::Value;

use crate::options::{count, range};
use crate::{Limit, Seconds, contest, suite};

/// Stop or recovery, and a page cache filled again.
const ROUND: Duration = Duration::from_secs(15);

/// Everything that can be chosen: what a contest has, and how often what happens.
#[derive(Debug, Clone, Args, Serialize)]
// Its name is that of the contest's.
#[group(skip)]
#[command(mut_arg("contestants", |arg| arg.default_value("stock,pg_calm")))]
#[command(mut_arg("seconds", |arg| arg.default_value("30").help("Load of a round at most, beyond --warm-up; it is a random part of it.")))]
#[command(mut_arg("warm_up", |arg| arg.default_value("5").help("Load of a round at least, under the same caps.")))]
#[command(mut_arg("steady", |arg| arg.hide(true)))]
#[command(mut_arg("at_most", |arg| arg.hide(true)))]
#[command(mut_arg("repeat", |arg| arg.hide(true)))]
#[command(mut_arg("repeat_at_most", |arg| arg.hide(true)))]
#[command(mut_arg("drain", |arg| arg.hide(true)))]
#[serde(rename_all = "kebab-case")]
pub struct Options {
    /// Fast stops of each contestant.
    #[arg(long, value_name = "N", default_value = "4", value_parser = count::<u32>)]
    pub stops: u32,
    /// Crashes of each contestant.
    #[arg(long, value_name = "N", default_value = "4", value_parser = count::<u32>)]
    pub kills: u32,
    /// Seed of all random choices: which of them comes when.
    #[arg(long, value_name = "N", default_value = "1", value_parser = count::<u64>)]
    pub seed: u64,
    /// Run `pgcalm ready-to-stop --within 10s` under load before each stop.
    #[arg(long)]
    pub ready_to_stop: bool,
    /// Devices, load and contestants are those of scenario checkpoint.
    #[command(flatten)]
    #[serde(flatten)]
    pub contest: contest::Options,
}

/// What is asked of a contest can be asked of it.
impl Deref for Options {
    type Target = contest::Options;

    fn deref(&self) -> &contest::Options {
        &self.contest
    }
}

impl Options {
    /// Fails on values that can't work, naming the option.
    pub fn check(&self) -> Result<(), Failure> {
        let usage = |text: &str| Err(Failure::Usage(text.to_string()));
        self.contest.common.refuse_trouble()?;
        range("stops", self.stops, 0, 1000)?;
        range("kills", self.kills, 0, 1000)?;
        range("seconds", self.contest.seconds, Seconds(3), Seconds(3600))?;
        range("warm-up", self.contest.warm_up, Seconds(0), Seconds(3600))?;
        if self.stops + self.kills == 0 {
            return usage("--stops 0 --kills 0: nothing would be tried: give some of either");
        }
        if self.contest.steady || self.contest.repeat != 1 || self.contest.repeat_at_most.is_some() {
            return usage(
                "--steady, --repeat and --repeat-at-most: scenario stop-start has rounds: give --stops and --kills",
            );
        }
        if !self.contest.load.choice.is_pgbench() {
            return usage("--load: a program would not come back after a stop: use a load by pgbench");
        }
        if let Some(more) = self.contest.contestants.iter().find(|one| one.operations != 1) {
            return usage(&format!("--contestants {}: all have the same volumes here: leave it out", more.name));
        }
        self.contest.check()
    }

    /// By name on the command line, as the report shows them: what is in force.
    pub fn named(&self) -> BTreeMap<String, Value> {
        let mut named = self.contest.named();
        for without in ["drain", "repeat"] {
            named.remove(without);
        }
        named.extend([
            ("stops".to_string(), self.stops.into()),
            ("kills".to_string(), self.kills.into()),
            ("seed".to_string(), self.seed.into()),
            ("ready-to-stop".to_string(), self.ready_to_stop.into()),
        ]);
        named
    }

    /// The contest whose devices have room for all rounds of a contestant.
    pub fn contest(&self) -> contest::Options {
        let round = self.contest.warm_up.0 + self.contest.seconds.0;
        contest::Options {
            wal_size: Some(self.contest.wal_size()),
            seconds: Seconds((self.stops + self.kills) * round),
            warm_up: Seconds(0),
            drain: Limit(None),
            ..self.contest.clone()
        }
    }

    /// How long it takes, about.
    pub(crate) fn takes(&self) -> Duration {
        let rounds = self.stops + self.kills;
        let mut contest = self.contest();
        // The random part of a load is half of it in the mean.
        contest.seconds.0 -= rounds * self.contest.seconds.0 / 2;
        suite::estimate(&contest) + ROUND * rounds * self.contest.contestants.len() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::parsed;

    #[test]
    fn devices_have_room_for_all_rounds_and_what_is_in_force_is_named() {
        let options: Options = parsed(&["--stops", "2", "--kills", "1", "--seconds", "10", "--volume", "gp3"]).unwrap();
        options.check().unwrap();
        assert_eq!((options.contest().load_seconds(), options.contest().wal_size()), (45, options.contest.wal_size()));
        let named = options.named();
        assert_eq!((&named["kills"], &named["seconds"]), (&Value::from(1), &Value::from(10)));
        assert_eq!(named["contestants"], serde_json::json!(["stock", "pg_calm"]));
        assert!(!named.contains_key("drain") && !named.contains_key("contest"), "{named:?}");
    }

    #[test]
    fn what_can_not_work_is_refused() {
        for (words, part) in [
            (&["--stops", "0", "--kills", "0"][..], "--stops"),
            (&["--steady"], "--steady"),
            (&["--repeat", "2"], "--repeat"),
            (&["--load", "true"], "--load"),
            (&["--contestants", "stock-twice"], "stock-twice"),
            (&["--trouble", "slot"], "--trouble"),
            (&["--seconds", "2"], "--seconds"),
        ] {
            let refusal = parsed::<Options>(words).unwrap().check().unwrap_err().to_string();
            assert!(refusal.contains(part), "{refusal}");
        }
    }
}

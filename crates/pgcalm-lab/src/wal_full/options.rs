use std::collections::BTreeMap;

use clap::Args;
use serde::Serialize;
use serde_json::Value;

use crate::contestant::Contestant;
use crate::options::{CapWay, Common, VolumeLayout, declared, each_once, named, one_of, range, serialize_names};
use crate::trouble::{Scheduled, Trouble, WAL_KEPT};
use crate::wal_full::CONTESTANTS;
use crate::{Limit, Seconds, Size, contest};
use pgcalm_host::Failure;

/// Everything that can be chosen.
#[derive(Debug, Clone, Args, Serialize)]
#[command(mut_args(declared))]
#[serde(rename_all = "kebab-case")]
pub struct Options {
    /// What keeps WAL, separated by commas: archive-down, archive-slow, slot, logical-slot, slow-standby; `pgcalm lab list` tells
    /// of them among troubles.
    #[arg(long, value_name = "LIST", default_value = "archive-down,archive-slow,slot,logical-slot,slow-standby", value_delimiter = ',',
          value_parser = |name: &str| one_of(&WAL_KEPT, "kind", name), hide_possible_values = true)]
    #[serde(serialize_with = "serialize_names")]
    pub kind: Vec<&'static Trouble>,
    /// Who takes part, separated by commas: stock, shadow, on.
    #[arg(long, default_value = "stock,shadow,on",
          value_parser = |name: &str| one_of(&CONTESTANTS, "contestant", name), hide_possible_values = true)]
    #[serde(serialize_with = "serialize_names")]
    pub contestants: Vec<&'static Contestant>,
    /// Load of each run, at most. WAL is kept from second 20 on, or a quarter, until a minute before the end, or half of the rest.
    #[arg(long, default_value = "600")]
    pub seconds: Seconds,
    #[arg(long, default_value = "8")]
    pub(crate) clients: u32,
    #[arg(long, default_value = "8000000")]
    pub(crate) rows: u64,
    #[arg(long, default_value = "1GB")]
    pub(crate) shared_buffers: Size,
    /// Size of the WAL device, which has no caps without --volume; max_wal_size is a quarter of it.
    #[arg(long, default_value = "4GB")]
    pub wal_size: Size,
    /// What every scenario has.
    #[command(flatten)]
    #[serde(flatten)]
    pub common: Common,
}

impl Options {
    /// Fails on values that can't work, naming the option.
    pub fn check(&self) -> Result<(), Failure> {
        self.common.refuse_trouble()?;
        each_once("kind", &self.kind)?;
        each_once("contestants", &self.contestants)?;
        // Below, there is no time before, within or after.
        range("seconds", self.seconds, Seconds(20), Seconds(86_400))?;
        range("wal-size", self.wal_size, Size(256 << 20), Size(1 << 40))?;
        self.kind.iter().try_for_each(|kind| self.contest(kind).check())
    }

    /// By name on the command line, as the report shows them.
    pub(super) fn named(&self) -> BTreeMap<String, Value> {
        named(self)
    }

    /// All contestants with this kind of trouble.
    pub(super) fn contest(&self, kind: &'static Trouble) -> contest::Options {
        let max_wal_size = format!("{}MB", self.wal_size.bytes() >> 22);
        let mut common = self.common.with([
            // Commits must not wait for the WAL device, or they would pace the clients.
            ("synchronous_commit", "off"),
            ("max_wal_size", &max_wal_size),
            ("min_wal_size", "80MB"),
            ("autovacuum", "off"),
        ]);
        common.trouble = vec![Scheduled { trouble: kind, at: None }];
        contest::Options {
            contestants: self.contestants.clone(),
            rows: self.rows,
            shared_buffers: self.shared_buffers,
            cap: common.volume.is_none().then_some(CapWay::None),
            wal_size: Some(self.wal_size),
            clients: self.clients,
            seconds: self.seconds,
            // What was put off is none of the questions.
            drain: Limit(None),
            checkpoint_timeout: Seconds(300),
            layout: Some(VolumeLayout::Two),
            common,
            ..contest::Options::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::parsed;

    #[test]
    fn each_kind_is_a_contest_with_that_trouble() {
        let options: Options = parsed(&["--wal-size", "1GB", "--contestants", "on,stock"]).unwrap();
        options.check().unwrap();
        let kinds: Vec<&str> = options.kind.iter().map(|kind| kind.name).collect();
        assert_eq!(kinds, ["archive-down", "archive-slow", "slot", "logical-slot", "slow-standby"]);
        let contest = options.contest(options.kind[2]);
        assert_eq!(contest.troubles().map(|one| one.trouble.name).collect::<Vec<_>>(), ["slot"]);
        let settings = contest.server_settings(contest.contestants[0]);
        assert_eq!((&*settings["max_wal_size"], &*settings["pg_calm_guard.mode"]), ("256MB", "on"));
        assert!(!contest.contestants[1].module);
    }

    #[test]
    fn what_can_not_work_is_refused() {
        for (words, part) in [
            (&["--kind", "slot,slot"][..], "named twice"),
            (&["--contestants", "on,on"], "named twice"),
            (&["--seconds", "10"], "--seconds"),
            (&["--wal-size", "64MB"], "--wal-size"),
            (&["--trouble", "slot"], "only lab run checkpoint"),
        ] {
            let refusal = parsed::<Options>(words).unwrap().check().unwrap_err().to_string();
            assert!(refusal.contains(part), "{refusal}");
        }
        assert!(parsed::<Options>(&["--kind", "pg-dump"]).is_err());
    }
}

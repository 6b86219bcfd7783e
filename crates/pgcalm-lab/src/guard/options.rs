use std::collections::BTreeMap;

use clap::Args;
use serde::Serialize;
use serde_json::Value;

use crate::contestant::Contestant;
use crate::guard::case;
use crate::guard::case::{Case, Kind};
use crate::options::{
    CapWay, Common, VolumeLayout, Warm, count, declared_without_volume, each_once, named, range, serialize_names,
};
use crate::{Limit, Seconds, Size, contest};
use pgcalm_host::Failure;

/// The table of `idle`, which fits into shared buffers.
const IDLE_ROWS: u64 = 100_000;

/// Volume for WAL of `idle`, which does not come near to filling it.
const IDLE_WAL: Size = Size(1 << 30);

/// Load before each run of `idle`, which fills the buffers.
const IDLE_WARM_UP: Seconds = Seconds(5);

/// Everything that can be chosen about overload.
#[derive(Debug, Clone, Args, Serialize)]
#[command(mut_args(declared_without_volume))]
#[serde(rename_all = "kebab-case")]
pub struct Options {
    /// A small WAL volume: 4000000 rows, 256MB shared_buffers, 300 write operations per second, WAL on 512MB with max_wal_size
    /// of 128MB, 90 s of load from the first second on; other options still hold.
    #[serde(skip)]
    #[arg(long)]
    pub quick: bool,
    /// What is run, separated by commas; `pgcalm lab list` tells the cases. It fails if a server with the guard gives up, and
    /// if stock does not.
    #[arg(long, default_value = "governed,stock",
          default_value_if("quick", "true", "stock,governed"), value_parser = case::parse)]
    #[serde(serialize_with = "serialize_names")]
    pub cases: Vec<&'static Case>,
    /// Load of each run; of stock, at most.
    #[arg(long, default_value = "600", default_value_if("quick", "true", "90"))]
    pub seconds: Seconds,
    /// Seconds at the start that mean, worst and best second leave out: writers are not held until pages have gathered.
    #[arg(long, value_name = "S", default_value = "60", default_value_if("quick", "true", "0"))]
    pub skip: Seconds,
    #[arg(long, default_value = "8")]
    pub(crate) clients: u32,
    #[arg(long, default_value = "20000000", default_value_if("quick", "true", "4000000"))]
    pub(crate) rows: u64,
    #[arg(long, default_value = "1GB", default_value_if("quick", "true", "256MB"))]
    pub(crate) shared_buffers: Size,
    /// Write operations per second that the data device takes.
    #[arg(long, default_value = "800", default_value_if("quick", "true", "300"))]
    pub data_iops: Limit<u32>,
    /// Bytes per second that the data device takes.
    #[arg(long, default_value = "125MB", default_value_if("quick", "true", "none"))]
    pub data_bps: Limit<Size>,
    #[arg(long, default_value = "4GB", default_value_if("quick", "true", "512MB"))]
    pub(crate) wal_size: Size,
    #[arg(long, default_value = "2GB", default_value_if("quick", "true", "128MB"))]
    pub(crate) max_wal_size: Size,
    /// Transactions per second of the case paced, one run each.
    #[arg(long, value_name = "LIST", default_value = "600,800,1000,1200,1400,1600", value_delimiter = ',',
          value_parser = count::<u32>)]
    pub rates: Vec<u32>,
    /// Load of each run of the case paced.
    #[arg(long, value_name = "S", default_value = "150")]
    pub paced_seconds: Seconds,
    /// Pairs of runs of the case idle.
    #[arg(long, value_name = "N", default_value = "10", value_parser = count::<u32>)]
    pub pairs: u32,
    /// Load of each run of a pair, after 5 s that do not count.
    #[arg(long, value_name = "S", default_value = "15")]
    pub idle_seconds: Seconds,
    /// What every scenario has.
    #[command(flatten)]
    #[serde(flatten)]
    pub common: Common,
}

impl Options {
    /// Fails on values that can't work, naming the option.
    pub fn check(&self) -> Result<(), Failure> {
        self.common.refuse_trouble()?;
        each_once("cases", &self.cases)?;
        range("pairs", self.pairs, 1, 100)?;
        for rate in &self.rates {
            range("rates", *rate, 1, 1_000_000)?;
        }
        range("max-wal-size", self.max_wal_size, Size(32 << 20), self.wal_size)?;
        let kinds = self.kinds();
        let shortest = [(Kind::Overload, self.seconds), (Kind::Paced, self.paced_seconds)]
            .into_iter()
            .filter(|(kind, _)| kinds.contains(kind))
            .map(|(_, seconds)| seconds.0)
            .min();
        if let Some(shortest) = shortest {
            range("skip", self.skip, Seconds(0), Seconds(shortest.saturating_sub(1)))?;
        }
        for (option, seconds) in [("paced-seconds", self.paced_seconds), ("idle-seconds", self.idle_seconds)] {
            range(option, seconds, Seconds(3), Seconds(86_400))?;
        }
        self.overload().check()
    }

    /// By name on the command line, as the report shows them: what is in force.
    pub(super) fn named(&self) -> BTreeMap<String, Value> {
        let kinds = self.kinds();
        let without = |kind| !kinds.contains(&kind);
        let mut named = named(self);
        for (is_unused, options) in [
            (self.common.volume.is_some(), ["data-iops", "data-bps"]),
            (without(Kind::Paced), ["rates", "paced-seconds"]),
            (without(Kind::Idle), ["pairs", "idle-seconds"]),
        ] {
            if is_unused {
                named.retain(|name, _| !options.contains(&name.as_str()));
            }
        }
        named
    }

    /// Kinds of cases, in the order in which they were first named.
    pub(super) fn kinds(&self) -> Vec<Kind> {
        let mut kinds = Vec::new();
        for case in &self.cases {
            if !kinds.contains(&case.kind) {
                kinds.push(case.kind);
            }
        }
        kinds
    }

    fn contestants(&self, kind: Kind) -> Vec<&'static Contestant> {
        self.cases.iter().filter(|case| case.kind == kind).flat_map(|case| case.contestants).collect()
    }

    /// All cases of overload.
    pub(super) fn overload(&self) -> contest::Options {
        contest::Options {
            contestants: self.contestants(Kind::Overload),
            ..self.contest(self.wal_size, self.max_wal_size)
        }
    }

    /// The case of this rate.
    pub(super) fn paced(&self, rate: u32) -> contest::Options {
        contest::Options {
            contestants: self.contestants(Kind::Paced),
            seconds: self.paced_seconds,
            rate: Limit(Some(rate)),
            ..self.contest(self.wal_size, self.max_wal_size)
        }
    }

    /// A pair of idle runs. Who is first changes from pair to pair.
    pub(super) fn idle(&self, number: u32) -> contest::Options {
        let mut contestants = self.contestants(Kind::Idle);
        if number.is_multiple_of(2) {
            contestants.reverse();
        }
        let max_wal_size = self.max_wal_size.min(Size(IDLE_WAL.bytes() / 2));
        let mut options = contest::Options {
            contestants,
            rows: IDLE_ROWS,
            warm_up: IDLE_WARM_UP,
            seconds: self.idle_seconds,
            cap: Some(CapWay::None),
            ..self.contest(IDLE_WAL, max_wal_size)
        };
        options.common.volume = None;
        options
    }

    /// What all parts have in common.
    fn contest(&self, wal_size: Size, max_wal_size: Size) -> contest::Options {
        let max_wal_size = format!("{}MB", max_wal_size.bytes() >> 20);
        let own = [
            // Commits must not wait for the WAL device, or they would pace the clients.
            ("synchronous_commit", "off"),
            ("max_wal_size", &max_wal_size),
            ("min_wal_size", "80MB"),
            ("autovacuum", "off"),
        ];
        contest::Options {
            rows: self.rows,
            shared_buffers: self.shared_buffers,
            data_iops: self.data_iops,
            data_bps: self.data_bps,
            wal_iops: Limit(None),
            wal_size: Some(wal_size),
            clients: self.clients,
            seconds: self.seconds,
            // What was put off is none of the questions.
            drain: Limit(None),
            checkpoint_timeout: Seconds(300),
            // As a restore or a base backup leaves it.
            warm: Warm::Sequential,
            layout: Some(VolumeLayout::Two),
            common: self.common.with(own),
            ..contest::Options::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::parsed;

    fn options(words: &[&str]) -> Options {
        parsed(words).unwrap()
    }

    fn names(options: &contest::Options) -> Vec<&str> {
        options.contestants.iter().map(|one| one.name).collect()
    }

    #[test]
    fn each_kind_becomes_a_contest_of_its_own() {
        let all = options(&["--cases", "stock,paced,governed,idle", "--rates", "700"]);
        all.check().unwrap();
        assert_eq!(all.kinds(), [Kind::Overload, Kind::Paced, Kind::Idle]);
        assert_eq!(names(&all.overload()), ["stock", "governed"]);
        assert_eq!(all.paced(700).rate, Limit(Some(700)));
        assert_eq!(names(&all.paced(700)), ["paced"]);
        assert_eq!(names(&all.idle(1)), ["off", "on"]);
        assert_eq!(names(&all.idle(2)), ["on", "off"]);
        let idle = all.idle(1);
        assert_eq!(idle.cap, Some(CapWay::None));
        // Below what there is of a device for it.
        assert_eq!(idle.server_settings(idle.contestants[0])["max_wal_size"], "512MB");
    }

    #[test]
    fn what_is_asked_for_goes_over_what_the_scenario_sets() {
        let quick = options(&["--quick", "--set", "synchronous_commit=on"]);
        quick.check().unwrap();
        let contest = quick.overload();
        assert_eq!(names(&contest), ["stock", "governed"]);
        let settings = contest.server_settings(contest.contestants[1]);
        assert_eq!(settings["synchronous_commit"], "on");
        assert_eq!(settings["max_wal_size"], "128MB");
        assert_eq!(settings["pg_calm_guard.exempt_superusers"], "off");
        assert!(!contest.contestants[0].module);
    }

    #[test]
    fn what_can_not_work_is_refused() {
        for (words, part) in [
            (&["--cases", "stock,stock"][..], "named twice"),
            (&["--rates", "0"], "--rates"),
            (&["--skip", "600"], "--skip"),
            (&["--cases", "stock,paced", "--skip", "150"], "--skip"),
            (&["--max-wal-size", "8GB"], "--max-wal-size"),
            (&["--pairs", "0"], "--pairs"),
            (&["--idle-seconds", "1"], "--idle-seconds"),
            (&["--clients", "0"], "--clients"),
        ] {
            let refusal = options(words).check().unwrap_err().to_string();
            assert!(refusal.contains(part), "{refusal}");
        }
        assert!(parsed::<Options>(&["--cases", "nobody"]).is_err());
        options(&["--cases", "idle", "--seconds", "3"]).check().unwrap();
    }

    #[test]
    fn what_is_in_force_is_named() {
        let named = options(&[]).named();
        assert_eq!(named["data-iops"], 800);
        assert!(!named.contains_key("rates"), "{named:?}");
        assert_eq!(options(&["--cases", "idle"]).named()["pairs"], 10);
        let volume = options(&["--volume", "gp3"]);
        volume.check().unwrap();
        assert!(!volume.named().contains_key("data-iops"));
        assert!(volume.idle(1).common.volume.is_none());
    }
}

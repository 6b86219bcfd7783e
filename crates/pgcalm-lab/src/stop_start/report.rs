//! How right estimates were, as data: the document that `pgcalm lab run stop-start --json` writes. Units are in the field names.

mod view;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::predict::report::{error, median_error};
use crate::report::Host;

/// A difference that is none, in seconds: nobody plans with less, and of a stop that takes a moment no ratio says anything.
pub(super) const SMALL_S: f64 = 1.0;

/// What `ready-to-stop` is to reach, in seconds.
pub(super) const WITHIN_S: f64 = 10.0;

/// Stops and crashes under load: the document written by `pgcalm lab run stop-start --json`, and by a suite of such rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Report {
    /// Always `stop-start`.
    pub scenario: String,
    /// Where the run happened; of a suite its first row.
    pub host: Host,
    /// Every option of the run with the value in force, by its command-line name without the dashes; of a suite those that all rows
    /// share.
    pub settings: BTreeMap<String, serde_json::Value>,
    /// Heading of a suite; empty of a single run.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// What a suite is for; empty of a single run.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// In the order in which they were run.
    pub contestants: Vec<Contestant>,
}

/// A server and its rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Contestant {
    /// Title of the suite's row; empty of a single run.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub row: String,
    /// As on the command line.
    pub name: String,
    /// Who that is, in one sentence.
    pub description: String,
    /// The settings in which its server differs from stock.
    pub server_settings: BTreeMap<String, String>,
    /// Transactions per second, mean of all full seconds under load.
    pub tps: f64,
    /// How right the estimates of stops were.
    pub stops: Accuracy,
    /// How right those of recovery were.
    pub kills: Accuracy,
    /// In the order in which they were played.
    pub rounds: Vec<Round>,
}

/// What ends a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A fast stop.
    Stop,
    /// A crash of server and file system.
    Kill,
}

/// Load, its end, and the start after it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Round {
    /// What ended the load: `stop` or `kill`.
    pub kind: Kind,
    /// How long the load had lasted.
    pub load_s: f64,
    /// What pgcalm told just before, by pg_calm where that knows; null if nobody knew.
    pub told: Option<Estimate>,
    /// What it would have told without the module; null likewise.
    pub without_module: Option<Estimate>,
    /// Whether pg_calm said just before that its target would be met; null without one.
    pub target_met: Option<bool>,
    /// How long it took: a stop from the signal to the postmaster's end, recovery from the start to the first connection.
    pub took_s: f64,
    /// Redo alone, as the server's log tells; null if there was none.
    pub redo_s: Option<f64>,
    /// How long the start after a stop took; null after a crash, where that is `took_s`.
    pub start_s: Option<f64>,
    /// What `ready-to-stop` did before; null if it was not asked for.
    pub ready: Option<Ready>,
}

/// How long something would take.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Estimate {
    /// Seconds; the middle, where a range was told.
    pub seconds: f64,
    /// How it was come by: `measured` by pg_calm; of a stop `from caps` or `upper bound`, of recovery by the rate of the `last
    /// recovery` in the server's log, or a `range` of rates.
    pub basis: String,
}

/// What `pgcalm ready-to-stop --within 10s` did under load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Ready {
    /// Whether it said so.
    pub ready: bool,
    /// How long it worked.
    pub waited_s: f64,
    /// What a stop would take, as it said at its end.
    pub said_s: f64,
    /// Median of transactions per second while it worked; null if that was no full second.
    pub tps_median: Option<f64>,
    /// The worst second of these; null likewise.
    pub tps_worst: Option<f64>,
}

/// How right estimates were. The middle of a range counts, and a difference of one second is none.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Accuracy {
    /// Rounds of this kind.
    pub rounds: u32,
    /// Those in which there was an estimate.
    pub told: u32,
    /// Median of their errors without sign, in percent of what it took; null without any.
    pub median_error_percent: Option<f64>,
    /// How many times too long or too short the worst was, of those more than a second off; null if none was.
    pub worst_ratio: Option<f64>,
    /// How many were off by no more than two times, or one second.
    pub within_twice: u32,
    /// What it is to take at most: pg_calm.stop_target or pg_calm.recovery_target; null if off.
    pub target_s: Option<f64>,
    /// How many took no longer than that; null without a target.
    pub within_target: Option<u32>,
    /// How many took longer, as pg_calm had said; null likewise.
    pub beyond_as_said: Option<u32>,
}

pgcalm_host::names! { pub fn name(Kind): Stop "stop", Kill "recovery" }

impl Estimate {
    /// One, or the middle of a range.
    pub(super) fn new([least, most]: [f64; 2], basis: &str) -> Self {
        Self { seconds: (least + most) / 2.0, basis: basis.to_string() }
    }
}

impl Round {
    pub(super) fn told(&self) -> Option<f64> {
        self.told.as_ref().map(|told| told.seconds)
    }

    pub(super) fn without_module(&self) -> Option<f64> {
        self.without_module.as_ref().map(|told| told.seconds)
    }
}

impl Ready {
    /// The worst second as a part of the median.
    pub fn worst(&self) -> Option<f64> {
        self.tps_worst.zip(self.tps_median).map(|(worst, median)| worst / median.max(1.0))
    }
}

impl Accuracy {
    /// Of the rounds of this kind, by one of their estimates.
    pub(super) fn of<'a>(
        rounds: impl IntoIterator<Item = &'a Round>,
        kind: Kind,
        estimate: fn(&Round) -> Option<f64>,
        target_s: Option<f64>,
    ) -> Self {
        let rounds: Vec<&Round> = rounds.into_iter().filter(|round| round.kind == kind).collect();
        let told: Vec<(f64, f64)> = rounds.iter().filter_map(|round| Some((estimate(round)?, round.took_s))).collect();
        let errors = told.iter().map(|(told, took)| error(*told, *took));
        let ratios = told.iter().filter(|(told, took)| (told - took).abs() > SMALL_S).map(|(told, took)| {
            // Nothing at all is told, too, and a ratio to it is none.
            let (told, took) = (told.max(0.01), took.max(0.01));
            (told / took).max(took / told)
        });
        let far = ratios.clone().filter(|ratio| *ratio > 2.0).count();
        let count = |holds: &dyn Fn(&Round) -> bool| rounds.iter().filter(|round| holds(round)).count() as u32;
        Self {
            rounds: rounds.len() as u32,
            told: told.len() as u32,
            median_error_percent: Some(median_error(errors) * 100.0).filter(|_| !told.is_empty()),
            worst_ratio: ratios.reduce(f64::max),
            within_twice: (told.len() - far) as u32,
            target_s,
            within_target: target_s.map(|target| count(&|round| round.took_s <= target)),
            beyond_as_said: target_s
                .map(|target| count(&|round| round.took_s > target && round.target_met == Some(false))),
        }
    }
}

impl Report {
    /// All rows of a suite, which have titles, as one report; none without rows.
    pub fn of_suite(title: &str, about: &str, rows: Vec<(String, Self)>) -> Option<Self> {
        let mut rows = rows.into_iter();
        let named = |(row, mut report): (String, Self)| {
            report.contestants.iter_mut().for_each(|contestant| contestant.row.clone_from(&row));
            report
        };
        let mut all = named(rows.next()?);
        for report in rows.map(named) {
            all.settings.retain(|name, value| report.settings.get(name) == Some(value));
            all.contestants.extend(report.contestants);
        }
        (all.title, all.about) = (title.to_string(), about.to_string());
        Some(all)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn round(kind: Kind, told: [f64; 2], took_s: f64) -> Round {
        let estimate = Some(Estimate::new(told, "measured"));
        let without_module = Some(Estimate::new([40.0; 2], "from caps"));
        let ready = None;
        let target_met = Some(took_s < 11.0);
        Round {
            kind,
            load_s: 9.0,
            told: estimate,
            without_module,
            target_met,
            took_s,
            redo_s: None,
            start_s: None,
            ready,
        }
    }

    pub(crate) fn report() -> Report {
        let rounds = vec![
            round(Kind::Stop, [9.0; 2], 10.0),
            round(Kind::Kill, [10.0, 30.0], 10.0),
            round(Kind::Stop, [3.0; 2], 12.0),
            // Ten times too short, which is nothing.
            round(Kind::Stop, [0.1; 2], 1.0),
        ];
        let contestant = |name: &str, tps| Contestant {
            row: String::new(),
            name: name.to_string(),
            description: String::new(),
            server_settings: BTreeMap::new(),
            tps,
            stops: Accuracy::of(&rounds, Kind::Stop, Round::told, Some(10.0)),
            kills: Accuracy::of(&rounds, Kind::Kill, Round::told, None),
            rounds: rounds.clone(),
        };
        Report {
            scenario: crate::stop_start::HELP.name.to_string(),
            host: Host::of_a_test("volume"),
            settings: BTreeMap::from([("clients".into(), 8.into()), ("rows".into(), 1000.into())]),
            title: String::new(),
            about: String::new(),
            contestants: vec![contestant("pg_calm", 1000.0), contestant("pg_calm+pg_calm.stop_target=10", 980.0)],
        }
    }

    #[test]
    fn errors_know_no_sign_a_range_counts_by_its_middle_and_a_second_is_nothing() {
        let contestant = report().contestants.remove(0);
        let stops = &contestant.stops;
        assert_eq!((stops.rounds, stops.told, stops.within_twice, stops.within_target), (3, 3, 2, Some(2)));
        assert_eq!(stops.beyond_as_said, Some(1));
        assert!((stops.median_error_percent.unwrap() - 75.0).abs() < 1e-9, "{stops:?}");
        assert_eq!(stops.worst_ratio, Some(4.0));
        let kills = &contestant.kills;
        assert_eq!((kills.median_error_percent, kills.worst_ratio, kills.within_twice), (Some(100.0), Some(2.0), 1));
        assert_eq!((kills.target_s, kills.within_target), (None, None));
        let mut rounds = contestant.rounds;
        rounds[1].told = None;
        let unknown = Accuracy::of(&rounds, Kind::Kill, Round::told, None);
        assert_eq!(
            (unknown.rounds, unknown.told, unknown.median_error_percent, unknown.worst_ratio),
            (1, 0, None, None)
        );
        // Nothing is told as something, and seldom right.
        rounds[0].told = Some(Estimate::new([0.0; 2], "measured"));
        assert!(Accuracy::of(&rounds[..1], Kind::Stop, Round::told, None).worst_ratio.unwrap() > 100.0);
    }

    #[test]
    fn rows_of_a_suite_become_one_report_with_what_they_share() {
        let mut other = report();
        other.settings.insert("rows".into(), 2000.into());
        let suite = Report::of_suite("Stops", "Why.", vec![("one".into(), report()), ("two".into(), other)]).unwrap();
        assert_eq!(suite.settings.keys().collect::<Vec<_>>(), ["clients"]);
        let rows: Vec<&str> = suite.contestants.iter().map(|contestant| contestant.row.as_str()).collect();
        assert_eq!(rows, ["one", "one", "two", "two"]);
        assert_eq!(Report::of_suite("", "", Vec::new()), None);
    }
}

//! The result of the rehearsal, as data: the document that `pgcalm lab run wal-full --json` writes. Units are in the field names.

mod view;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::contest::report as model;
use crate::contest::report::{Run, is_zero};
use crate::guard::report::{deviation, mean};
use crate::report::Host;
use crate::wal_full::{SHADOW, STOCK};

/// Seconds before it is full by which a warning is always early enough.
const EARLY_S: f64 = 900.0;

/// Part of the time that there was by which it is early enough where that is less.
const EARLY_SHARE: f64 = 0.5;

/// The largest coefficient of variation of an even rate.
const EVEN: f64 = 0.2;

/// Part of the rate before that counts as the full one.
const FULL_RATE: f64 = 0.9;

/// Seconds of which the mean counts for that.
const FULL_RATE_S: usize = 3;

/// Seconds from the cause's end in which it has to be reached.
const RECOVERED_S: f64 = 10.0;

/// Seconds after the first wait for the guard in which its rate settles; it smooths over three.
const SETTLED_S: usize = 5;

/// Part of the time before the cause that is no rate yet.
const LEAD: f64 = 0.25;

/// WAL that fills its volume: the document written by `pgcalm lab run wal-full --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Report {
    /// Always `wal-full`.
    pub scenario: String,
    /// Where the run happened.
    #[cfg_attr(test, schemars(with = "BTreeMap<String, serde_json::Value>"))]
    pub host: Host,
    /// Every option of the run with the value in force, by its command-line name without the dashes.
    pub settings: BTreeMap<String, serde_json::Value>,
    /// Kind by kind, in the order in which they were run.
    pub cases: Vec<Case>,
}

/// A server of which WAL was kept. Seconds are counted from when that began, if nothing else is said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Case {
    /// What kept WAL: `archive-down`, `archive-slow`, `slot`, `logical-slot` or `slow-standby`.
    pub kind: String,
    /// Who: `stock`, `shadow` or `on`.
    pub contestant: String,
    /// Who that is, in one sentence.
    pub description: String,
    /// The settings in which its server differs from stock.
    pub server_settings: BTreeMap<String, String>,
    /// Second of the run in which WAL began to be kept; null if it did not come to that.
    pub begun_s: Option<f64>,
    /// When that ended; null if the server had given up before.
    pub lasted_s: Option<f64>,
    /// When the server ended with a PANIC; null if it did not.
    pub died_s: Option<f64>,
    /// When the guard refused all writers; null if it did not.
    pub refused_s: Option<f64>,
    /// Seconds from its end until the server took connections again, given room at once; null if it did not end, or did not come
    /// back.
    pub up_again_s: Option<f64>,
    /// The guard's first warning; null if there was none.
    pub warning: Option<Warning>,
    /// Mean of transactions per second before, but for the first quarter of that time.
    pub tps_before: f64,
    /// The worst second from then to the end of the run, or of the server.
    pub tps_worst: f64,
    /// Seconds without a transaction in that time.
    pub seconds_zero: u32,
    /// Mean of transactions per second from five seconds after the first wait for the guard to the end of the cause; null if
    /// nobody waited.
    pub tps_slowed: Option<f64>,
    /// Their coefficient of variation; null likewise.
    pub variation: Option<f64>,
    /// Seconds from the end of the cause until three seconds come to 90 % of the rate before; null if they did not.
    pub full_rate_s: Option<f64>,
    /// Runs that were made before this one and do not count, since the machine held up the emulated volume.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub held_up_runs: u32,
    /// What it did, as a run of scenario checkpoint.
    #[cfg_attr(test, schemars(with = "BTreeMap<String, serde_json::Value>"))]
    pub run: Run,
}

/// The guard's first warning that the volume of WAL will be full.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Warning {
    /// When it came, seconds.
    pub after_s: f64,
    /// How full the volume was, segments for later not counted.
    pub full_percent: f64,
    /// What was left until it is full, as the guard said.
    pub left_s: f64,
}

/// Something that has to be so.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// What.
    pub must: &'static str,
    /// How it was.
    pub was: String,
    /// Whether that is so.
    pub met: bool,
}

impl Case {
    /// From a contestant's only run; `wal_size` is that of its volume in bytes.
    pub(super) fn of(kind: &str, mut contestant: model::Contestant, wal_size: u64) -> Option<Self> {
        let run = contestant.runs.pop()?;
        let trouble = run.troubles.first();
        let begun_s = trouble.and_then(|trouble| trouble.from_s);
        let begun = begun_s.unwrap_or(run.series.tps.len() as f64);
        let ended_s = trouble.and_then(|trouble| trouble.until_s);
        let failed = |refused: bool| {
            let failure = run.server_failure.as_ref();
            failure.filter(|failure| failure.message.contains("refuses writers") == refused)
        };
        let tps = &run.series.tps;
        let end = run.server_failure.as_ref().map_or(tps.len(), |failure| (failure.at_s as usize).min(tps.len()));
        let at = |second: f64| (second.max(0.0).ceil() as usize).min(end);
        let before = &tps[at(begun * LEAD)..at(begun)];
        let tps_before = mean(before);
        let since = &tps[at(begun)..end];
        let slowed = ended_s.and_then(|ended| {
            // The second in which it ended is a free one in part.
            let last = at(ended.floor());
            Some(&tps[(first_hold(&run, at(begun))? + SETTLED_S).min(last)..last])
        });
        let slowed = slowed.filter(|slowed| !slowed.is_empty());
        let full_rate_s = ended_s.and_then(|ended| {
            let mut seconds = tps[at(ended)..end].windows(FULL_RATE_S);
            let found = seconds.position(|few| mean(few) >= FULL_RATE * tps_before)?;
            Some((at(ended) + found) as f64 - ended)
        });
        Some(Self {
            kind: kind.to_string(),
            contestant: contestant.name,
            description: contestant.description,
            server_settings: contestant.server_settings,
            begun_s,
            lasted_s: ended_s.map(|ended| ended - begun),
            died_s: failed(false).map(|failure| failure.at_s - begun),
            refused_s: failed(true).map(|failure| failure.at_s - begun),
            up_again_s: failed(false).and_then(|failure| failure.up_again_s),
            warning: warning(&run, begun, wal_size),
            tps_before,
            tps_worst: since.iter().copied().reduce(f64::min).unwrap_or(0.0),
            seconds_zero: since.iter().filter(|tps| **tps == 0.0).count() as u32,
            tps_slowed: slowed.map(mean),
            variation: slowed.map(|slowed| deviation(slowed) / mean(slowed).max(f64::MIN_POSITIVE)),
            full_rate_s,
            held_up_runs: contestant.held_up_runs,
            run,
        })
    }

    /// When it died of the cause, and not before.
    fn died_of_it(&self) -> Option<f64> {
        self.died_s.filter(|died| *died > 0.0)
    }

    /// What has to be so, and whether it is; `stock_died` is when stock died of the same.
    fn rules(&self, stock_died: Option<f64>) -> Vec<Rule> {
        let seconds = |value: Option<f64>| value.map_or("never".to_string(), |s| format!("after {s:.0} s"));
        let gave_up = match self.refused_s {
            Some(_) => format!("refused {}", seconds(self.refused_s)),
            None => seconds(self.died_s),
        };
        if self.contestant == STOCK {
            let must = "stock dies, or the others prove nothing";
            return vec![Rule { must, was: gave_up, met: self.died_of_it().is_some() }];
        }
        let (early, was) = match &self.warning {
            None => (false, "none".to_string()),
            Some(warning) => {
                // Its own death tells better than what was foreseen. A server that is held has none: stock's stands for
                // it, for a forecast can't be judged by itself.
                let foreseen = warning.after_s + warning.left_s;
                let full = self.died_s.unwrap_or(stock_died.map_or(foreseen, |died| died.min(foreseen)));
                let left = full - warning.after_s;
                let early = left >= EARLY_S.min(full * EARLY_SHARE);
                (early, format!("{left:.0} s before, of {full:.0} s"))
            }
        };
        let mut rules =
            vec![Rule { must: "warns 15 minutes, or half of the time, before it is full", was, met: early }];
        if self.contestant == SHADOW {
            return rules;
        }
        rules.extend([
            Rule {
                must: "no PANIC, nor all writers refused",
                was: gave_up,
                met: self.died_s.is_none() && self.refused_s.is_none(),
            },
            Rule { must: "no second at zero", was: self.seconds_zero.to_string(), met: self.seconds_zero == 0 },
            Rule {
                must: "variation of TPS while slowed at most 0.2",
                was: self.variation.map_or("not slowed".to_string(), |variation| format!("{variation:.2}")),
                // What stock dies of is not lived through without being slowed, or it is not the guard that held.
                met: self.variation.map_or(stock_died.is_none(), |variation| variation <= EVEN),
            },
            Rule {
                must: "full rate within 10 s of the end of the cause",
                was: seconds(self.full_rate_s),
                met: self.full_rate_s.is_some_and(|s| s <= RECOVERED_S),
            },
        ]);
        rules
    }
}

impl Report {
    /// What has to be so, case by case, and whether it is.
    pub fn rules(&self) -> Vec<(&Case, Rule)> {
        let stock_died = |kind: &str| {
            let stock = self.cases.iter().find(|case| case.kind == kind && case.contestant == STOCK);
            stock.and_then(Case::died_of_it)
        };
        let of_case = self.cases.iter().map(|case| (case, case.rules(stock_died(&case.kind))));
        of_case.flat_map(|(case, rules)| rules.into_iter().map(move |rule| (case, rule))).collect()
    }

    /// Why the run counts as failed; `None` if all is as it must be.
    pub fn failure(&self) -> Option<String> {
        let missed: Vec<String> = self
            .rules()
            .into_iter()
            .filter(|(_, rule)| !rule.met)
            .map(|(case, rule)| format!("{} {}: {}: {}", case.kind, case.contestant, rule.must, rule.was))
            .collect();
        (!missed.is_empty()).then(|| missed.join("; "))
    }
}

/// A number of the guard's input of WAL space, second by second.
fn input<'a>(run: &'a Run, column: &str) -> &'a [Option<f64>] {
    run.series.server.module.get(&format!("guard_wal_space_{column}")).map_or(&[], Vec::as_slice)
}

/// The second from which on sessions wait for WAL space.
fn first_hold(run: &Run, from: usize) -> Option<usize> {
    let holds = input(run, "holds").get(from..)?;
    let first = holds.iter().flatten().next()?;
    Some(from + holds.iter().position(|now| now.is_some_and(|now| now > *first))?)
}

fn warning(run: &Run, begun: f64, wal_size: u64) -> Option<Warning> {
    let (second, left_s) = input(run, "full_in_s")
        .iter()
        .enumerate()
        // One before the cause would be of something else.
        .skip(begun as usize)
        .find_map(|(second, left)| Some((second, (*left)?)))?;
    let free = (*input(run, "value").get(second)?)?;
    Some(Warning {
        // Answers are of the end of a second.
        after_s: (second + 1) as f64 - begun,
        full_percent: 100.0 * (1.0 - free / wal_size as f64),
        left_s,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;
    use crate::wal_full::GUARD_ON;

    /// Ten seconds before, ten seconds with the cause, slowed from the third on, and five after it.
    fn contestant(name: &str, slowed: f64, after: f64, failure: serde_json::Value) -> model::Contestant {
        let tps = [vec![100.0; 12], vec![slowed; 8], vec![after; 5]].concat();
        let holds: Vec<f64> = (0..25).map(|second| f64::from((second - 12).max(0))).collect();
        let full_in: Vec<Option<f64>> = (0..25).map(|second| (second >= 14).then_some(5.0)).collect();
        serde_json::from_value(json!({
            "name": name, "description": "", "server_settings": {},
            "runs": [{
                "tps_mean": 0.0, "tps_median": 0.0, "tps_min": 0.0, "tps_p5": 0.0,
                "seconds_below_half_median": 0, "seconds_zero": 0, "checkpoints": [],
                "server_failure": failure,
                "troubles": [{"name": "slot", "from_s": 10.0,
                              "until_s": if failure.is_null() { json!(20.0) } else { json!(null) }}],
                "series": {
                    "tps": tps, "latency_p50_ms": [], "latency_p99_ms": [], "latency_max_ms": [],
                    "dirty_mib": [], "writeback_mib": [], "data_write_ops": [], "data_write_mib": [],
                    "data_read_ops": [], "wal_write_ops": [], "wal_write_mib": [], "blocked_processes": [],
                    "server": {"module": if name == STOCK { json!({}) } else { json!({
                        "guard_wal_space_holds": holds,
                        "guard_wal_space_full_in_s": full_in,
                        "guard_wal_space_value": vec![25.0; 25],
                    })}},
                },
            }],
        }))
        .unwrap()
    }

    fn panic(at_s: f64) -> serde_json::Value {
        json!({"at_s": at_s, "message": "No space left on device", "up_again_s": 2.0})
    }

    pub(crate) fn report() -> Report {
        let null = serde_json::Value::Null;
        Report {
            scenario: crate::wal_full::HELP.name.into(),
            host: Host::of_a_test("none"),
            settings: BTreeMap::from([("wal-size".into(), "4GB".into())]),
            cases: [
                contestant(STOCK, 100.0, 0.0, panic(20.0)),
                contestant(SHADOW, 100.0, 0.0, panic(20.0)),
                contestant(GUARD_ON, 10.0, 100.0, null),
            ]
            .into_iter()
            .filter_map(|one| Case::of("slot", one, 100))
            .collect(),
        }
    }

    #[test]
    fn figures_are_those_of_the_cause() {
        let report = report();
        let [stock, shadow, on] = &report.cases[..] else { panic!("three cases") };
        assert_eq!((stock.died_s, stock.up_again_s, stock.warning), (Some(10.0), Some(2.0), None));
        assert_eq!(shadow.warning, Some(Warning { after_s: 5.0, full_percent: 75.0, left_s: 5.0 }));
        assert_eq!((on.died_s, on.lasted_s, on.tps_before), (None, Some(10.0), 100.0));
        assert_eq!((on.tps_worst, on.seconds_zero), (10.0, 0));
        assert_eq!((on.tps_slowed, on.variation, on.full_rate_s), (Some(10.0), Some(0.0), Some(0.0)));
        assert_eq!(report.failure(), None);
    }

    #[test]
    fn the_second_in_which_the_cause_ends_is_not_slowed() {
        let null = serde_json::Value::Null;
        let mut contestant = contestant(GUARD_ON, 10.0, 100.0, null);
        contestant.runs[0].troubles[0].until_s = Some(20.4);
        contestant.held_up_runs = 2;
        let case = Case::of("slot", contestant, 100).unwrap();
        assert_eq!(case.held_up_runs, 2);
        assert_eq!((case.tps_slowed, case.variation), (Some(10.0), Some(0.0)));
    }

    #[test]
    fn the_guard_is_judged_by_what_became_of_stock() {
        let missed = |stock_died: f64, change: fn(&mut Case)| {
            let mut report = report();
            report.cases[0].died_s = Some(stock_died);
            change(&mut report.cases[2]);
            report.failure()
        };
        assert_eq!(missed(10.0, |_| {}), None);
        // It foresaw a moment at which stock had long been dead.
        let late = missed(6.0, |_| {}).unwrap();
        assert_eq!(late, "slot on: warns 15 minutes, or half of the time, before it is full: 1 s before, of 6 s");
        let unheld = missed(10.0, |on| (on.tps_slowed, on.variation) = (None, None)).unwrap();
        assert_eq!(unheld, "slot on: variation of TPS while slowed at most 0.2: not slowed");
        // Where stock died of something else, nobody knows.
        let before = missed(-2.0, |on| (on.tps_slowed, on.variation) = (None, None)).unwrap();
        assert_eq!(before, "slot stock: stock dies, or the others prove nothing: after -2 s");
    }

    #[test]
    fn what_is_missed_is_named() {
        let missed = |one| {
            let case = Case::of("slot", one, 100).unwrap();
            let missed: Vec<&str> = case.rules(None).iter().filter(|rule| !rule.met).map(|rule| rule.must).collect();
            missed.join(", ")
        };
        let null = serde_json::Value::Null;
        assert_eq!(missed(contestant(STOCK, 100.0, 0.0, null.clone())), "stock dies, or the others prove nothing");
        // It died sooner than was foreseen.
        assert!(missed(contestant(SHADOW, 100.0, 0.0, panic(19.0))).starts_with("warns"));
        let refused = json!({"at_s": 20.0, "message": "x: the guard refuses writers"});
        assert_eq!(
            missed(contestant(GUARD_ON, 10.0, 0.0, refused)),
            "no PANIC, nor all writers refused, full rate within 10 s of the end of the cause"
        );
        assert_eq!(
            missed(contestant(GUARD_ON, 0.0, 80.0, null.clone())),
            "no second at zero, full rate within 10 s of the end of the cause"
        );
        let mut uneven = contestant(GUARD_ON, 10.0, 100.0, null);
        uneven.runs[0].series.tps[18] = 20.0;
        assert_eq!(missed(uneven), "variation of TPS while slowed at most 0.2");
    }
}

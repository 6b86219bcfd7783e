//! The result of overload, as data: the document that `pgcalm lab run guard --json` writes. Units are in the field names.

mod view;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::contest::report::{Run, is_zero};
use crate::report::Host;

/// Overload, paced clients, and the guard without anything to do: the document written by `pgcalm lab run guard --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Report {
    /// Always `guard`.
    pub scenario: String,
    /// Where the run happened.
    #[cfg_attr(test, schemars(with = "BTreeMap<String, serde_json::Value>"))]
    pub host: Host,
    /// Every option of the run with the value in force, by its command-line name without the dashes.
    pub settings: BTreeMap<String, serde_json::Value>,
    /// Seconds at the start of a run that mean, worst and best second leave out.
    pub skip_s: u32,
    /// Runs under caps, in the order in which they were made; empty if none was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cases: Vec<Case>,
    /// Runs without caps; absent if they were not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<Idle>,
}

/// A server under load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Case {
    /// As on the command line, e.g. `governed`.
    pub name: String,
    /// What it is, in one sentence.
    pub description: String,
    /// Transactions per second that clients kept to; null if they were as fast as they could.
    pub rate: Option<u32>,
    /// The settings in which its server differs from stock.
    pub server_settings: BTreeMap<String, String>,
    /// Runs that were made before this one and do not count, since the machine held up the emulated volume.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub held_up_runs: u32,
    /// What it did, as a run of scenario checkpoint.
    #[cfg_attr(test, schemars(with = "BTreeMap<String, serde_json::Value>"))]
    pub run: Run,
}

/// The same load with the guard off and on in turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Idle {
    /// Neighbours in time.
    pub pairs: Vec<Pair>,
}

/// A run without and one with the guard.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Pair {
    /// Transactions per second, off.
    pub off_tps: f64,
    /// Transactions per second, on.
    pub on_tps: f64,
    /// Waits of sessions for the guard, on; null if it did not tell.
    pub holds: Option<f64>,
}

/// How even a run was after its first seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Evenness {
    /// Mean of transactions per second.
    pub mean: f64,
    /// Worst second.
    pub worst: f64,
    /// Best second.
    pub best: f64,
    /// Standard deviation as a part of the mean.
    pub variation: f64,
}

/// What pairs come to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// Median of on to off.
    pub median: f64,
    /// Mean.
    pub mean: f64,
    /// Standard error of the mean.
    pub error: f64,
    /// Smallest.
    pub low: f64,
    /// Largest.
    pub high: f64,
}

impl Case {
    /// How even it was up to the server's end; `None` if it did not last that long.
    pub fn evenness(&self, skip_s: u32) -> Option<Evenness> {
        let tps = self.tps().get(skip_s as usize..)?;
        if tps.is_empty() {
            return None;
        }
        let mean = mean(tps);
        Some(Evenness {
            mean,
            worst: tps.iter().copied().fold(f64::INFINITY, f64::min),
            best: tps.iter().copied().fold(0.0, f64::max),
            variation: if mean > 0.0 { deviation(tps) / mean } else { 0.0 },
        })
    }

    /// Transactions of each second up to the server's end.
    pub fn tps(&self) -> &[f64] {
        let all = &self.run.series.tps;
        let end = match &self.run.server_failure {
            Some(failure) => (failure.at_s as usize).min(all.len()),
            None => all.len(),
        };
        &all[..end]
    }

    /// Seconds without a transaction.
    pub fn zero(&self) -> usize {
        self.tps().iter().filter(|tps| **tps == 0.0).count()
    }

    /// Whether it is the server that has to give up under overload.
    fn is_stock(&self) -> bool {
        self.rate.is_none() && self.server_settings.is_empty()
    }
}

impl Idle {
    /// On to off.
    pub fn ratio(&self) -> Option<Ratio> {
        let mut ratios: Vec<f64> =
            self.pairs.iter().filter(|pair| pair.off_tps > 0.0).map(|pair| pair.on_tps / pair.off_tps).collect();
        ratios.sort_by(f64::total_cmp);
        let (low, high) = (*ratios.first()?, *ratios.last()?);
        let middle = ratios.len() / 2;
        let below = if ratios.len().is_multiple_of(2) { middle - 1 } else { middle };
        Some(Ratio {
            median: (ratios[below] + ratios[middle]) / 2.0,
            mean: mean(&ratios),
            error: deviation(&ratios) / (ratios.len() as f64).sqrt(),
            low,
            high,
        })
    }
}

impl Report {
    /// Why the run counts as failed; `None` if all is as it must be.
    pub fn failure(&self) -> Option<String> {
        for case in &self.cases {
            match &case.run.server_failure {
                Some(failure) if !case.is_stock() && case.rate.is_none() => {
                    return Some(format!(
                        "{}: the server gave up after {:.0} s: {}",
                        case.name, failure.at_s, failure.message
                    ));
                }
                None if case.is_stock() => {
                    return Some(format!(
                        "{}: the server got through, so it was no overload, and the other cases prove nothing: give more \
                         --clients or --seconds, less --data-iops or --wal-size",
                        case.name
                    ));
                }
                _ => {}
            }
        }
        None
    }
}

/// Waits of sessions for the guard, for whatever reason, at the end of a run; `None` if it did not tell.
pub fn holds(run: &Run) -> Option<f64> {
    let counts: Vec<f64> = run
        .series
        .server
        .module
        .iter()
        .filter(|(name, _)| name.starts_with("guard_") && name.ends_with("_holds"))
        .filter_map(|(_, values)| values.iter().rev().find_map(|value| *value))
        .collect();
    (!counts.is_empty()).then(|| counts.iter().sum())
}

pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

pub(crate) fn deviation(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / values.len().max(1) as f64).sqrt()
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;
    use crate::contest::report::ServerFailure;

    /// A run with these transactions per second.
    fn run(tps: &[f64]) -> Run {
        serde_json::from_value(json!({
            "tps_mean": 0.0, "tps_median": 0.0, "tps_min": 0.0, "tps_p5": 0.0,
            "seconds_below_half_median": 0, "seconds_zero": 0,
            "checkpoints": [],
            "wal_free_min_mib": 125.0,
            "series": {
                "tps": tps, "latency_p50_ms": [], "latency_p99_ms": [], "latency_max_ms": [],
                "dirty_mib": [], "writeback_mib": [], "data_write_ops": [], "data_write_mib": [],
                "data_read_ops": [], "wal_write_ops": [], "wal_write_mib": [], "blocked_processes": [],
                "server": {"module": {
                    "guard_wal_space_holds": [0.0, 7.0, null],
                    "guard_lag_holds": [1.0, 3.0, null],
                    "guard_lag_value": [9.0, 9.0, 9.0],
                }},
            },
        }))
        .unwrap()
    }

    fn case(name: &str, settings: &[(&str, &str)], tps: &[f64]) -> Case {
        Case {
            name: name.into(),
            description: String::new(),
            rate: None,
            server_settings: crate::server::settings(settings.iter().copied()),
            held_up_runs: 0,
            run: run(tps),
        }
    }

    fn gives_up(mut case: Case, at_s: f64) -> Case {
        case.run.server_failure =
            Some(ServerFailure { at_s, message: "No space left on device".into(), up_again_s: None });
        case
    }

    pub(crate) fn report() -> Report {
        let governed = [("pg_calm_guard.wal_space", "-1")];
        Report {
            scenario: crate::guard::HELP.name.into(),
            host: Host::of_a_test("cgroup-v1-root"),
            settings: BTreeMap::from([("clients".into(), 8.into())]),
            skip_s: 1,
            cases: vec![
                gives_up(case("stock", &[], &[9.0, 8.0, 4.0, 0.0, 0.0]), 3.0),
                case("governed", &governed, &[9.0, 3.0, 5.0, 0.0, 4.0]),
            ],
            idle: Some(Idle {
                pairs: [(100.0, 90.0), (100.0, 110.0), (200.0, 200.0)]
                    .map(|(off_tps, on_tps)| Pair { off_tps, on_tps, holds: Some(0.0) })
                    .to_vec(),
            }),
        }
    }

    #[test]
    fn seconds_after_the_servers_end_and_those_left_out_do_not_count() {
        let report = report();
        let [stock, governed] = &report.cases[..] else { panic!("two cases") };
        let even = stock.evenness(1).unwrap();
        assert_eq!((even.mean, even.worst, even.best), (6.0, 4.0, 8.0));
        assert_eq!(stock.zero(), 0);
        assert_eq!(stock.evenness(3), None);
        assert_eq!(governed.zero(), 1);
        let even = governed.evenness(1).unwrap();
        assert_eq!((even.mean, even.worst, even.best), (3.0, 0.0, 5.0));
        assert!((even.variation - 3.5_f64.sqrt() / 3.0).abs() < 1e-9);
    }

    #[test]
    fn the_last_answer_tells_how_often_sessions_were_held() {
        assert_eq!(holds(&report().cases[0].run), Some(10.0));
    }

    #[test]
    fn pairs_come_to_the_median_of_their_ratios() {
        let ratio = report().idle.unwrap().ratio().unwrap();
        assert_eq!((ratio.median, ratio.low, ratio.high), (1.0, 0.9, 1.1));
        assert!((ratio.mean - 1.0).abs() < 1e-9);
        let mut two = report().idle.unwrap();
        two.pairs.truncate(2);
        assert!((two.ratio().unwrap().median - 1.0).abs() < 1e-9);
        two.pairs.clear();
        assert_eq!(two.ratio(), None);
    }

    #[test]
    fn stock_must_give_up_and_the_governed_must_not() {
        assert_eq!(report().failure(), None);
        let mut report = report();
        report.cases[0].run.server_failure = None;
        assert!(report.failure().unwrap().contains("prove nothing"));
        // With a rate it may get through or not.
        report.cases[0].rate = Some(600);
        assert_eq!(report.failure(), None);
        let governed = report.cases.remove(1);
        report.cases.push(gives_up(governed, 2.0));
        let failure = report.failure().unwrap();
        assert!(failure.starts_with("governed: the server gave up after 2 s"), "{failure}");
    }
}

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::{Context, bail};
use hdrhistogram::Histogram;

use crate::report::Latency;
use crate::shared_file;

/// Latencies in microseconds, to three digits.
pub(crate) type Micros = Histogram<u64>;

/// All transactions of a load: of pgbench's, from its per-transaction logs.
#[derive(Debug)]
pub(crate) struct Transactions {
    /// Over the whole run.
    pub all: Micros,
    /// By the second of the epoch in which they ended.
    pub by_second: BTreeMap<i64, Micros>,
    /// How late those began that had a time to begin at, likewise; empty without a rate.
    pub late: BTreeMap<i64, Late>,
    /// When the first of them began, in seconds of the epoch.
    pub started: f64,
    /// Who told of them.
    pub source: Source,
}

/// Who told of transactions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Source {
    /// pgbench, of each of them.
    Pgbench,
    /// The server, of their numbers; no latency of a single one is known.
    Server {
        /// When they ended, in seconds of the epoch.
        ended: f64,
        /// Mean latency, those that only read included.
        mean_ms: f64,
        /// The longest time that one was seen under way.
        oldest_ms: f64,
    },
}

/// How late transactions began that had a time to begin at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Late {
    /// How many there were.
    pub number: u64,
    /// Of all of them.
    pub sum_us: u64,
    /// The latest.
    pub max_us: u64,
}

impl Late {
    fn add(&mut self, other: Self) {
        self.number += other.number;
        self.sum_us += other.sum_us;
        self.max_us = self.max_us.max(other.max_us);
    }
}

/// One line: a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Line {
    latency_us: u64,
    end_second: i64,
    end_us: u32,
    /// With a rate alone.
    late_us: Option<u64>,
}

impl Transactions {
    /// Reads the logs `prefix.PID` and `prefix.PID.N` in `directory`.
    pub(crate) fn read(directory: &Path, prefix: &str) -> anyhow::Result<Self> {
        let mut transactions = Self {
            all: histogram()?,
            by_second: BTreeMap::new(),
            late: BTreeMap::new(),
            started: f64::INFINITY,
            source: Source::Pgbench,
        };
        for entry in fs::read_dir(directory).with_context(|| format!("read {}", directory.display()))? {
            let path = entry?.path();
            let ours = path
                .file_name()
                .and_then(|name| name.to_str())
                .and_then(|name| name.strip_prefix(prefix))
                .is_some_and(|rest| rest.starts_with('.'));
            if ours {
                let file = shared_file::open_for_reading(&path)?;
                transactions.add(BufReader::new(file)).with_context(|| format!("read {}", path.display()))?;
            }
        }
        if transactions.all.is_empty() {
            bail!("pgbench ended no transaction at all");
        }
        Ok(transactions)
    }

    /// Without those that ended in the first `seconds`: the rest begin after that.
    pub(crate) fn after(self, seconds: u32) -> anyhow::Result<Self> {
        if seconds == 0 {
            return Ok(self);
        }
        let started = self.started + f64::from(seconds);
        let mut by_second = self.by_second;
        let by_second = by_second.split_off(&(started.ceil() as i64));
        let mut late = self.late;
        let late = late.split_off(&(started.ceil() as i64));
        let mut all = histogram()?;
        for of_second in by_second.values() {
            all.add(of_second)?;
        }
        Ok(Self { all, by_second, late, started, source: self.source })
    }

    /// Transactions of which only the number is known, by the second of the epoch in which they ended. Each counts with the
    /// mean latency.
    pub(crate) fn counted(
        counts: impl IntoIterator<Item = (i64, u64)>,
        started: f64,
        source: Source,
    ) -> anyhow::Result<Self> {
        let mut transactions =
            Self { all: histogram()?, by_second: BTreeMap::new(), late: BTreeMap::new(), started, source };
        let latency_us = match source {
            Source::Server { mean_ms, .. } => (mean_ms * 1e3) as u64,
            Source::Pgbench => 0,
        };
        for (second, number) in counts {
            let of_second = match transactions.by_second.entry(second) {
                std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
                std::collections::btree_map::Entry::Vacant(entry) => entry.insert(histogram()?),
            };
            of_second.saturating_record_n(latency_us, number);
            transactions.all.saturating_record_n(latency_us, number);
        }
        Ok(transactions)
    }

    /// Latencies of those that ended in second `first` of the epoch or later.
    pub(crate) fn ended_from(&self, first: i64) -> anyhow::Result<Micros> {
        let mut latencies = histogram()?;
        for (_, of_second) in self.by_second.range(first..) {
            latencies.add(of_second)?;
        }
        Ok(latencies)
    }

    /// Adds those of another run of pgbench at the same time; they begin when the later of both does.
    pub(crate) fn merge(&mut self, other: Self) -> anyhow::Result<()> {
        self.all.add(&other.all)?;
        for (second, histogram) in other.by_second {
            match self.by_second.entry(second) {
                std::collections::btree_map::Entry::Occupied(entry) => {
                    entry.into_mut().add(&histogram)?;
                }
                std::collections::btree_map::Entry::Vacant(entry) => {
                    entry.insert(histogram);
                }
            }
        }
        for (second, late) in other.late {
            self.late.entry(second).or_default().add(late);
        }
        self.started = self.started.max(other.started);
        Ok(())
    }

    fn add(&mut self, mut reader: impl BufRead) -> anyhow::Result<()> {
        let mut text = String::new();
        while reader.read_line(&mut text)? > 0 {
            if was_given_up(&text) {
                text.clear();
                continue;
            }
            let line =
                parse_line(&text).with_context(|| format!("not a line of a pgbench log: {:?}", text.trim_end()))?;
            self.all.saturating_record(line.latency_us);
            let second = match self.by_second.entry(line.end_second) {
                std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
                std::collections::btree_map::Entry::Vacant(entry) => entry.insert(histogram()?),
            };
            second.saturating_record(line.latency_us);
            if let Some(late_us) = line.late_us {
                self.late.entry(line.end_second).or_default().add(Late { number: 1, sum_us: late_us, max_us: late_us });
            }
            let end = line.end_second as f64 + f64::from(line.end_us) / 1e6;
            self.started = self.started.min(end - line.latency_us as f64 / 1e6);
            text.clear();
        }
        Ok(())
    }
}

impl Transactions {
    /// How late all of them began together; `None` if none had a time to begin at.
    pub(crate) fn late(&self) -> Option<Late> {
        let mut all = Late::default();
        for late in self.late.values() {
            all.add(*late);
        }
        (all.number > 0).then_some(all)
    }

    /// Those that ended in some seconds of the epoch, together.
    pub(crate) fn within(&self, seconds: std::ops::RangeInclusive<i64>) -> anyhow::Result<Micros> {
        let mut all = histogram()?;
        for second in self.by_second.range(seconds).map(|(_, second)| second) {
            all.add(second)?;
        }
        Ok(all)
    }
}

fn histogram() -> anyhow::Result<Micros> {
    // Up to an hour; memory follows the largest value recorded.
    let mut histogram = Histogram::new_with_bounds(1, 3_600_000_000, 3)?;
    histogram.auto(true);
    Ok(histogram)
}

/// The figures of a report from a histogram.
pub(crate) fn latency(histogram: &Micros) -> Latency {
    Latency {
        p50: quantile_ms(histogram, 0.5),
        p99: quantile_ms(histogram, 0.99),
        p999: quantile_ms(histogram, 0.999),
        max: histogram.max() as f64 / 1e3,
    }
}

/// A quantile in milliseconds.
pub(crate) fn quantile_ms(histogram: &Micros, quantile: f64) -> f64 {
    histogram.value_at_quantile(quantile) as f64 / 1e3
}

/// Rolled back by a deadlock or a serialization failure (from version 15 pgbench goes on then), or skipped.
fn was_given_up(line: &str) -> bool {
    let time = line.split_ascii_whitespace().nth(2);
    line.ends_with('\n') && time.is_some_and(|time| ["failed", "skipped", "serialization", "deadlock"].contains(&time))
}

fn parse_line(line: &str) -> Option<Line> {
    // client_id transaction_no time script_no time_epoch time_us, with --rate the schedule's lag, with --max-tries, which the lab has
    // not, the retries.
    let mut fields = line.split_ascii_whitespace().skip(2);
    let latency_us = fields.next()?.parse().ok()?;
    let mut fields = fields.skip(1);
    Some(Line {
        latency_us,
        end_second: fields.next()?.parse().ok()?,
        end_us: fields.next()?.parse().ok()?,
        late_us: fields.next().and_then(|late| late.parse().ok()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
0 1 1500 0 1763698500 900000
1 1 500 0 1763698501 100
0 2 2500 0 1763698501 999999
0 3 4000000 0 1763698505 999999
";

    #[test]
    fn transactions_are_counted_in_the_second_in_which_they_end() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("tx.99"), LOG).unwrap();
        fs::write(dir.path().join("tx.99.1"), "2 1 700 0 1763698501 5\n").unwrap();
        fs::write(dir.path().join("txother"), "not a log").unwrap();
        let transactions = Transactions::read(dir.path(), "tx").unwrap();
        let counts: Vec<(i64, u64)> =
            transactions.by_second.iter().map(|(second, histogram)| (*second, histogram.len())).collect();
        assert_eq!(counts, [(1_763_698_500, 1), (1_763_698_501, 3), (1_763_698_505, 1)]);
        assert!((transactions.started - 1_763_698_500.898_5).abs() < 1e-3);
        let late = transactions.ended_from(1_763_698_502).unwrap();
        assert_eq!(late.len(), 1);
        let latency = latency(&transactions.all);
        assert!((latency.p50 - 1.5).abs() < 0.01, "{latency:?}");
        assert!((latency.max - 4000.0).abs() < 10.0, "{latency:?}");
    }

    #[test]
    fn runs_are_merged_from_the_start_of_the_last() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("tx.1"), LOG).unwrap();
        fs::write(dir.path().join("late.1"), "0 1 700 0 1763698505 5\n").unwrap();
        let read = |prefix| Transactions::read(dir.path(), prefix).unwrap();
        let (mut merged, late) = (read("tx"), read("late"));
        let started = late.started;
        merged.merge(late).unwrap();
        assert_eq!(merged.all.len(), 5);
        assert_eq!(merged.by_second[&1_763_698_505].len(), 2);
        assert_eq!(merged.started, started);
    }

    #[test]
    fn what_ended_before_a_time_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("tx.1"), LOG).unwrap();
        let all = Transactions::read(dir.path(), "tx").unwrap();
        let (started, number) = (all.started, all.all.len());
        let later = all.after(2).unwrap();
        assert_eq!(later.started, started + 2.0);
        assert!(later.all.len() < number, "{}", later.all.len());
        assert!(!later.all.is_empty());
        let kept: u64 = later.by_second.values().map(Histogram::len).sum();
        assert_eq!(later.all.len(), kept);
        let first = *later.by_second.keys().next().unwrap();
        assert!(first as f64 >= later.started, "{first}");
    }

    #[test]
    fn transactions_that_were_given_up_do_not_count() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("tx.1"), format!("{LOG}1 5 failed 0 1763698501 100\n1 6 skipped 0 1763698501 100\n"))
            .unwrap();
        assert_eq!(Transactions::read(dir.path(), "tx").unwrap().all.len(), 4);
    }

    #[test]
    fn how_late_transactions_began_is_there_with_a_rate_alone() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(
            dir.path().join("tx.1"),
            "0 1 1500 0 1763698500 900000 400\n0 2 2500 0 1763698503 0 1600\n0 3 700 0 1763698503 5 100\n",
        )
        .unwrap();
        fs::write(dir.path().join("other.1"), LOG).unwrap();
        let read = |prefix| Transactions::read(dir.path(), prefix).unwrap();
        let late = |number, sum_us, max_us| Some(Late { number, sum_us, max_us });
        assert_eq!(read("tx").late(), late(3, 2100, 1600));
        assert_eq!(read("tx").after(1).unwrap().late(), late(2, 1700, 1600));
        let mut merged = read("tx");
        merged.merge(read("tx")).unwrap();
        assert_eq!(merged.late(), late(6, 4200, 1600));
        assert_eq!(read("other").late(), None);
    }

    #[test]
    fn a_run_without_transactions_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Transactions::read(dir.path(), "tx").is_err());
    }

    #[test]
    fn a_line_that_is_cut_off_is_an_error_that_shows_it() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("tx.1"), "0 1 15").unwrap();
        let error = Transactions::read(dir.path(), "tx").unwrap_err();
        assert!(format!("{error:#}").contains("0 1 15"), "{error:#}");
    }
}

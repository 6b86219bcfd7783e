//! What is usual for a server: medians over the last minutes, which single seconds do not move.
//!
//! A server may stall for most of the time, and would then be found usual. So seconds in which sessions waited long for each
//! commit do not count where the server's best seconds made many more.

use std::collections::VecDeque;

use pgcalm_monitor::model::WaitCause;

use crate::second::Second;

/// Good seconds that count as what is usual.
const SPAN: usize = 300;

/// Fewer tell nothing.
const LEAST: usize = 20;

/// Fewer good ones beside those that stall tell nothing: a burst at the beginning.
const LEAST_GOOD: usize = 5;

/// Seconds that tell what a server does that was idle before.
const MOMENT: usize = 60;

/// Seconds that a commit waits: so long, users notice it.
const LONG_WAIT: f64 = 0.1;

/// Of the commits of the best seconds, which are a tenth of all: who makes fewer and waits long stalls.
const PART_OF_BEST: f64 = 0.3;

/// The same of few sessions, each of which waits less: so long a wait, and so few commits.
const SOME_WAIT: f64 = 0.02;
const SMALL_PART_OF_BEST: f64 = 0.1;

/// Transactions that write less than this part of what the best seconds' write are others: reports.
const ALIKE: f64 = 0.25;

/// Bytes of a full-page image.
const PAGE: f64 = 8192.0;

/// Makes the median of absolute deviations that which a normal distribution has as standard deviation.
const MAD_TO_DEVIATION: f64 = 1.4826;

/// The good seconds of the last minutes.
#[derive(Debug, Clone, Default)]
pub struct Baseline {
    seconds: VecDeque<Seen>,
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    commits: f64,
    active: f64,
    slow: f64,
    logins: f64,
    answer: f64,
    asleep: f64,
    /// Seconds that each commit waits.
    wait: f64,
    wal: f64,
    /// The same without full-page images; of compressed ones too little.
    changes: f64,
}

/// What is usual.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usual {
    /// Commits per second.
    pub commits: f64,
    /// How far these are usually off, as a standard deviation.
    pub commits_deviation: f64,
    /// Sessions that run a statement.
    pub active: f64,
    /// Sessions whose statement has run for more than a second.
    pub slow: f64,
    /// Sessions begun per second.
    pub logins: f64,
    /// How long the server's answer to the recorder takes, in seconds.
    pub answer: f64,
    /// Processes that serve users and have slept uninterruptibly for half a second.
    pub asleep: f64,
}

impl Baseline {
    /// Adds a good second.
    pub fn push(&mut self, second: &Second) {
        let Some(commits) = second.commits_to_judge() else { return };
        self.seconds.push_back(Seen {
            commits,
            active: second.active as f64,
            slow: second.slow as f64,
            logins: second.logins,
            answer: second.answer_seconds,
            asleep: second.looks.users as f64,
            wait: wait(second, commits),
            wal: second.wal_bytes,
            changes: (second.wal_bytes - second.page_images * PAGE).max(0.0),
        });
        if self.seconds.len() > SPAN {
            self.seconds.pop_front();
        }
    }

    /// Forgets all, as after a stall that became the usual.
    pub fn clear(&mut self) {
        self.seconds.clear();
    }

    /// What is usual; `None` before there were enough seconds.
    pub fn usual(&self) -> Option<Usual> {
        if self.seconds.len() < LEAST {
            return None;
        }
        let usual = usual_of(self.seconds.iter().collect());
        // Of a server that was idle until a moment ago, what is usual at this load.
        let busy: Vec<&Seen> = self.seconds.iter().rev().take(MOMENT).filter(|seen| seen.active > 0.0).collect();
        if usual.active >= 1.0 || busy.len() < LEAST {
            return Some(usual);
        }
        Some(usual_of(busy)).filter(|now| now.active >= 2.0).or(Some(usual))
    }
}

/// Medians of those that do not stall.
fn usual_of(seen: Vec<&Seen>) -> Usual {
    let best = quantile(seen.iter().map(|one| one.commits).collect(), 0.9);
    let of_best =
        |field: fn(&Seen) -> f64| median(seen.iter().filter(|one| one.commits >= best).map(|one| field(one)).collect());
    let (wal, changes) = (of_best(|one| one.wal), of_best(|one| one.changes));
    // A report writes less for each commit, and COPY more altogether. A stalled server does what it did, and less of it.
    let alike = |one: &Seen| one.wal >= ALIKE * changes * one.commits / best && one.changes <= PART_OF_BEST * wal;
    let stalls = |one: &Seen| {
        (one.wait >= LONG_WAIT && one.commits < PART_OF_BEST * best
            || one.wait >= SOME_WAIT && one.commits < SMALL_PART_OF_BEST * best)
            && alike(one)
    };
    let mut good: Vec<&Seen> = seen.iter().copied().filter(|one| !stalls(one)).collect();
    if good.len() < LEAST_GOOD {
        good = seen;
    }
    let of = |field: fn(&Seen) -> f64| median(good.iter().map(|one| field(one)).collect());
    let commits = of(|one| one.commits);
    let off = median(good.iter().map(|one| (one.commits - commits).abs()).collect());
    Usual {
        commits,
        commits_deviation: off * MAD_TO_DEVIATION,
        active: of(|one| one.active),
        slow: of(|one| one.slow),
        logins: of(|one| one.logins),
        answer: of(|one| one.answer),
        // In few seconds, and yet as usual.
        asleep: quantile(good.iter().map(|one| one.asleep).collect(), 0.9),
    }
}

/// Seconds that each commit waits, by Little's law: as many sessions as wait per commit. 0 where few of them wait; who waits for
/// another's row says nothing of the server.
fn wait(second: &Second, commits: f64) -> f64 {
    let held = second.held().saturating_sub(second.waiting(WaitCause::Lock)) as f64;
    if second.active >= 2 && held >= 0.5 * second.active as f64 { held / commits } else { 0.0 }
}

/// The middle one; 0 of none.
pub fn median(values: Vec<f64>) -> f64 {
    quantile(values, 0.5)
}

fn quantile(mut values: Vec<f64>, part: f64) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    let at = (values.len() as f64 * part) as usize;
    let (_, value, _) = values.select_nth_unstable_by(at, f64::total_cmp);
    *value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_seconds_do_not_move_what_is_usual_and_the_last_minutes_do() {
        let mut baseline = Baseline::default();
        let second = |commits| Second { commits: Some(commits), active: 3, ..Second::default() };
        for _ in 0..LEAST - 1 {
            baseline.push(&second(100.0));
        }
        assert_eq!(baseline.usual(), None);
        baseline.push(&Second::default());
        assert_eq!(baseline.usual(), None, "without a rate it tells nothing");
        for commits in [90.0, 110.0, 90.0, 110.0, 90.0, 110.0, 90.0, 110.0, 1.0, 900.0] {
            baseline.push(&second(commits));
        }
        let usual = baseline.usual().unwrap();
        assert_eq!((usual.commits, usual.active), (100.0, 3.0));
        assert!(usual.commits_deviation < 20.0, "{usual:?}");
        for _ in 0..SPAN {
            baseline.push(&second(40.0));
        }
        assert_eq!(baseline.usual().unwrap().commits, 40.0);
        baseline.clear();
        assert_eq!(baseline.usual(), None);
    }
}

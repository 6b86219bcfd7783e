//! What is usual for a server: medians over the last minutes, which single seconds do not move.

use std::collections::VecDeque;

use crate::second::Second;

/// Good seconds that count as what is usual.
const SPAN: usize = 300;

/// Fewer tell nothing.
const LEAST: usize = 20;

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
        let of = |field: fn(&Seen) -> f64| median(self.seconds.iter().map(field).collect());
        let commits = of(|seen| seen.commits);
        let off = median(self.seconds.iter().map(|seen| (seen.commits - commits).abs()).collect());
        Some(Usual {
            commits,
            commits_deviation: off * MAD_TO_DEVIATION,
            active: of(|seen| seen.active),
            slow: of(|seen| seen.slow),
            logins: of(|seen| seen.logins),
            answer: of(|seen| seen.answer),
            // In few seconds, and yet as usual.
            asleep: quantile(self.seconds.iter().map(|seen| seen.asleep).collect(), 0.9),
        })
    }
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

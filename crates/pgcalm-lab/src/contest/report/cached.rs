use pgcalm_render::number::printable;

use crate::contest::report::{Cached, Contestant};

/// How the page cache held the tables, in the last run of a contestant.
pub(super) fn line(contestant: &Contestant) -> Option<String> {
    let run = contestant.runs.last()?;
    let at = |cached: Cached| {
        format!("{:.0} % cached, {:.0} % of that in large folios", cached.cached_percent, cached.large_folios_percent)
    };
    let name = printable(&contestant.name);
    match (run.cached_at_start, run.cached_at_end) {
        (Some(start), Some(end)) => {
            Some(format!("{name}: of the tables at the start {}; at the end {}", at(start), at(end)))
        }
        (Some(start), None) => Some(format!("{name}: of the tables at the start {}", at(start))),
        (None, _) => None,
    }
}

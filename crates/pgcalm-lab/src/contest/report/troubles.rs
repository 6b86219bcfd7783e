use pgcalm_render::number::printable;

use crate::contest::report::{Report, TroubleRun};

/// One line for each trouble of each run, e.g. `stock: trouble pg-dump from second 20 to 43, dumped 1204 MiB`.
pub(super) fn lines(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    for contestant in &report.contestants {
        for (index, run) in contestant.runs.iter().enumerate() {
            let who = if contestant.runs.len() > 1 {
                format!("{} (run {})", printable(&contestant.name), index + 1)
            } else {
                printable(&contestant.name).clone()
            };
            lines.extend(run.troubles.iter().map(|one| line(&who, one)));
        }
    }
    lines
}

fn line(who: &str, trouble: &TroubleRun) -> String {
    let name = printable(&trouble.name);
    if let Some(reason) = &trouble.undisturbed {
        return format!("{who}: undisturbed by trouble {name}: {}", printable(reason));
    }
    let mut text = format!("{who}: trouble {name}");
    match (trouble.from_s, trouble.until_s) {
        (None, _) => text.push_str(", not in any second"),
        (Some(from), Some(until)) => text.push_str(&format!(" from second {from:.1} to {until:.1}")),
        (Some(from), None) => text.push_str(&format!(" from second {from:.1} to the end")),
    }
    if trouble.from_s.is_none() && trouble.failure.is_none() {
        text = format!("{who}: trouble {name} from before the start");
    }
    if let Some(done) = &trouble.done {
        text.push_str(&format!(", {}", printable(done)));
    }
    if let Some(failure) = &trouble.failure {
        text.push_str(&format!("; failed: {}", printable(failure)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_when_what_and_what_failed() {
        let trouble = TroubleRun {
            name: "pg-dump".into(),
            from_s: Some(20.04),
            until_s: Some(43.0),
            done: Some("dumped 1204 MiB".into()),
            ..TroubleRun::default()
        };
        assert_eq!(line("stock", &trouble), "stock: trouble pg-dump from second 20.0 to 43.0, dumped 1204 MiB");
        let failed =
            TroubleRun { until_s: None, failure: Some("pg_dump failed".into()), done: None, ..trouble.clone() };
        assert_eq!(
            line("stock", &failed),
            "stock: trouble pg-dump from second 20.0 to the end; failed: pg_dump failed"
        );
        let before = TroubleRun { from_s: None, until_s: None, done: None, ..trouble.clone() };
        assert_eq!(line("x", &before), "x: trouble pg-dump from before the start");
        let undisturbed = TroubleRun { undisturbed: Some("it has no module".into()), ..trouble };
        assert_eq!(line("x", &undisturbed), "x: undisturbed by trouble pg-dump: it has no module");
    }
}

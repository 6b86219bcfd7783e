//! Each second as a line of values.

use pgcalm_lab::contest::report::{ServerSeries, seconds};

use super::support;

/// Value of a column in a line of values.
fn value<'a>(rendered: &'a str, line: usize, column: &str) -> &'a str {
    let mut lines = rendered.lines();
    let place = lines
        .next()
        .unwrap()
        .split('\t')
        .position(|name| name == column)
        .unwrap_or_else(|| panic!("no column {column}"));
    lines.nth(line).unwrap().split('\t').nth(place).unwrap_or_else(|| panic!("line {line} is too short"))
}

#[test]
fn what_counts_from_the_servers_start_is_told_by_second_and_a_level_as_it_is() {
    let mut report = support::report(4, 1);
    report.contestants.retain(|contestant| ["stock", "pg_calm"].contains(&contestant.name.as_str()));
    let run = &mut report.contestants[1].runs[0];
    run.series.server = ServerSeries {
        wal_syncs: vec![Some(900.0), None, Some(1801.5), Some(0.0)],
        checkpointer_wait: vec![None, None, Some("Extension".into()), None],
        client_waits: vec![
            Some([("WALWrite".into(), 3), ("WALSync".into(), 5), ("none".into(), 1)].into()),
            None,
            None,
            None,
        ],
        module: [
            ("flushed_pages".to_string(), vec![Some(100.0), Some(130.0), None, Some(150.0)]),
            ("unflushed_pages".to_string(), vec![Some(7.0), Some(9.0), None, Some(2.0)]),
        ]
        .into(),
        ..ServerSeries::default()
    };
    let rendered = seconds::render(&report);
    assert_eq!(rendered.lines().count(), 1 + 2 * 4);
    let columns = rendered.lines().next().unwrap().split('\t').count();
    for line in rendered.lines() {
        assert_eq!(line.split('\t').count(), columns, "{line}");
    }
    assert_eq!(value(&rendered, 0, "contestant"), "stock");
    assert_eq!(value(&rendered, 0, "module_flushed_pages"), "");
    let of = |second: usize, column| value(&rendered, 4 + second, column);
    assert_eq!(of(2, "contestant"), "pg_calm");
    assert_eq!(of(2, "second"), "2");
    assert_eq!(of(2, "wal_syncs"), "1801.50");
    assert_eq!(of(1, "wal_syncs"), "");
    assert_eq!(of(2, "checkpointer_wait"), "Extension");
    assert_eq!(of(0, "client_waits"), "WALSync:5,WALWrite:3,none:1");
    let all = |column| [0, 1, 2, 3].map(|second| of(second, column));
    assert_eq!(all("module_flushed_pages"), ["", "30", "", "20"]);
    assert_eq!(all("module_unflushed_pages"), ["7", "9", "", "2"]);
}

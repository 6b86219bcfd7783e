//! Figures in tables must be those of the results that their row names.

use std::path::Path;

use crate::markdown;
use crate::pages;
use crate::project;
use crate::text;

/// Results, as tools write them.
const RESULTS: [&str; 3] = [
    "benchmarks.md",
    "benchmarks-archive.md",
    "benchmarks-clouds.md",
];

/// Numbers of two digits and more: with one, anything is found anywhere.
fn numbers(text: &str) -> Vec<String> {
    text.replace(',', "")
        .split(|c: char| !(c.is_ascii_digit() || c == '.'))
        .map(|number| number.trim_matches('.').to_string())
        .filter(|number| number.len() > 1)
        .collect()
}

/// Numbers of the cells of a row after the first, which says what was run; texts and targets of links left out.
fn figures(row: &str) -> Vec<String> {
    let cells = row.trim_matches('|').split('|').skip(1);
    cells
        .flat_map(|cell| {
            let mut parts = cell.split('[');
            let mut text = parts.next().unwrap_or_default().to_string();
            for part in parts {
                text.push_str(part.split_once(')').map_or(part, |(_, after)| after));
            }
            numbers(&text)
        })
        .collect()
}

#[test]
fn figures_in_tables_are_those_of_the_results() {
    let mut bad = Vec::new();
    let mut number = 0;
    let mut all = pages();
    all.push("README.md".into());
    for page in all {
        if RESULTS.iter().any(|results| page.ends_with(results)) {
            continue;
        }
        let body = text(&page);
        for row in markdown::prose(&body).filter(|line| line.starts_with('|')) {
            for link in markdown::links(row) {
                let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
                if !RESULTS.iter().any(|results| path.ends_with(results)) {
                    continue;
                }
                let file = project()
                    .join(Path::new(&page).parent().unwrap())
                    .join(path);
                let results = std::fs::read_to_string(&file).unwrap();
                let results = if anchor.is_empty() {
                    results
                } else {
                    markdown::section(&results, anchor).unwrap_or_else(|| panic!("{page}: {link}"))
                };
                let known = numbers(&results);
                for figure in figures(row) {
                    number += 1;
                    if !known.contains(&figure) {
                        bad.push(format!("{page}: {figure} is not in {link}: {row}"));
                    }
                }
            }
        }
    }
    assert!(number > 10, "only {number} figures");
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

/// Rules of doctor that quote rows as they were before they were measured anew.
const STALE: [&str; 2] = ["device-at-cap", "flush-hints-scatter"];

#[test]
fn rules_quote_the_results_as_they_are() {
    let known = numbers(&text("docs/benchmarks.md"));
    let rules = text("docs/reference/doctor-rules.md");
    let quoting: Vec<Vec<&str>> = rules
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.split('|').map(str::trim).collect::<Vec<&str>>())
        .filter(|cells| cells[7].contains("docs/benchmarks.md"))
        .collect();
    assert!(quoting.len() > 3, "{quoting:?}");
    let mut bad = Vec::new();
    for cells in quoting {
        let rule = cells[1].trim_matches('`');
        for figure in numbers(cells[7]) {
            if !known.contains(&figure) && !STALE.contains(&rule) {
                bad.push(format!("{rule}: {figure} is not in docs/benchmarks.md"));
            }
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

#[test]
fn figures_of_a_row() {
    assert_eq!(
        figures("| 800 IOPS | 1,578 (377) | 5.4 × | 0 | 26 ([16](benchmarks.md)) 27 |"),
        ["1578", "377", "5.4", "26", "27"]
    );
}

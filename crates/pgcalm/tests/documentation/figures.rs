//! Figures must be those of the results that their paragraph, item or row links to.

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

/// A text without the texts and targets of its links.
fn without_links(text: &str) -> String {
    let mut parts = text.split('[');
    let mut rest = parts.next().unwrap_or_default().to_string();
    for part in parts {
        rest.push_str(part.split_once(')').map_or(part, |(_, after)| after));
    }
    rest
}

/// Numbers of the cells of a row after the first, which says what was run.
fn figures(row: &str) -> Vec<String> {
    let cells = row.trim_matches('|').split('|').skip(1);
    cells
        .flat_map(|cell| numbers(&without_links(cell)))
        .collect()
}

/// Numbers of a paragraph or an item of a list outside of code; with two digits they may count anything.
fn figures_of_prose(text: &str) -> Vec<String> {
    let text: String = without_links(text).split('`').step_by(2).collect();
    let mut figures = numbers(&text);
    figures.retain(|figure| figure.len() > 2);
    figures
}

/// Paragraphs, items of lists and rows of tables.
fn blocks(text: &str) -> Vec<String> {
    let mut blocks = vec![String::new()];
    for line in markdown::prose(text) {
        let begins = ["- ", "|", "#"].iter().any(|start| line.starts_with(start));
        if line.is_empty() || begins {
            blocks.push(String::new());
        }
        let block = blocks.last_mut().unwrap();
        block.push_str(line);
        block.push(' ');
    }
    blocks
}

#[test]
fn figures_are_those_of_the_results_that_they_name() {
    let mut bad = Vec::new();
    let mut number = 0;
    let mut all = pages();
    all.push("README.md".into());
    for page in all {
        // there results and trials of older builds stand side by side
        if page.starts_with("docs/research/")
            || RESULTS.iter().any(|results| page.ends_with(results))
        {
            continue;
        }
        for block in blocks(&text(&page)) {
            for link in markdown::links(&block) {
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
                let figures = if block.starts_with('|') {
                    figures(block.trim())
                } else {
                    figures_of_prose(&block)
                };
                for figure in figures {
                    number += 1;
                    if !known.contains(&figure) {
                        bad.push(format!("{page}: {figure} is not in {link}: {block}"));
                    }
                }
            }
        }
    }
    assert!(number > 10, "only {number} figures");
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

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
            if !known.contains(&figure) {
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
    assert_eq!(
        figures_of_prose("a 12 of 1,234 `56789` ([7777](x.md))"),
        ["1234"]
    );
    assert_eq!(blocks("a\nb\n\nc\n- d\n  e\n| f |\n").len(), 4);
}

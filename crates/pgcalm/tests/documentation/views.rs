//! The reference of views and functions, from the comments of the extension's SQL.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::{files, hold_table, text};

/// The newest scripts that make all of each extension, one after the other.
fn script() -> String {
    let scripts = files("extension/pg_calm", &[".sql"]);
    let mut newest = BTreeMap::new();
    for file in &scripts {
        let name = file.rsplit('/').next().unwrap();
        // not those of an update
        if let Some((extension, version)) = name.split_once("--").filter(|(_, version)| !version.contains("--")) {
            let known = newest.entry(extension).or_insert((version, file));
            *known = (*known).max((version, file));
        }
    }
    newest.values().map(|(_, file)| text(file)).collect()
}

/// The literal that begins the text, with its quotes undone.
fn literal(text: &str) -> String {
    let mut literal = String::new();
    let mut rest = text.trim_start().strip_prefix('\'').unwrap();
    loop {
        let (part, after) = rest.split_once('\'').unwrap();
        literal.push_str(part);
        match after.strip_prefix('\'') {
            Some(after) => {
                literal.push('\'');
                rest = after;
            }
            None => return literal,
        }
    }
}

/// Names of what is commented on, with the comments: `VIEW x`, `COLUMN x.y`, `FUNCTION x()`.
fn comments(script: &str) -> Vec<(String, String)> {
    script
        .split("COMMENT ON ")
        .skip(1)
        .map(|comment| {
            let (name, rest) = comment.split_once(" IS ").unwrap();
            (name.to_string(), literal(rest))
        })
        .collect()
}

/// Columns by their types, from OUT parameters of the function that a view selects from.
fn columns(script: &str, function: &str) -> Vec<(String, String)> {
    let (_, rest) = script.split_once(&format!("CREATE FUNCTION {function}(")).unwrap();
    let list = rest.split("\nAS ").next().unwrap();
    let list = list.split("\nRETURNS").next().unwrap().trim().trim_end_matches(')');
    list.split(',')
        .filter_map(|column| {
            let (name, kind) = column.trim().strip_prefix("OUT ")?.split_once(' ')?;
            Some((name.to_string(), kind.to_string()))
        })
        .collect()
}

#[test]
fn every_view_and_function_is_in_the_reference() {
    let script = script();
    let comments = comments(&script);
    let comment = |name: &str| {
        let found = comments.iter().find(|(what, _)| what == name);
        &found.unwrap_or_else(|| panic!("no comment on {name}")).1
    };
    let mut table = String::new();
    let mut shown = BTreeSet::new();
    for part in script.split("CREATE VIEW ").skip(1) {
        let view = part.split_whitespace().next().unwrap();
        shown.insert(view.to_string());
        let columns = columns(&script, view);
        assert!(!columns.is_empty(), "{view} has no columns");
        writeln!(table, "\n## {view}\n\n{}.\n", comment(&format!("VIEW {view}"))).unwrap();
        table.push_str("| column | type | meaning |\n|---|---|---|\n");
        for (column, kind) in columns {
            let meaning = comment(&format!("COLUMN {view}.{column}")).replace('|', "\\|");
            writeln!(table, "| `{column}` | {kind} | {meaning} |").unwrap();
        }
    }
    table.push_str("\n## Functions\n\n| function | meaning |\n|---|---|\n");
    for part in script.split("CREATE FUNCTION ").skip(1) {
        let function = part.split('(').next().unwrap();
        if shown.contains(function) {
            continue;
        }
        let meaning = comment(&format!("FUNCTION {function}()"));
        writeln!(table, "| `{function}()` | {meaning} |").unwrap();
        shown.insert(function.to_string());
    }
    table.push('\n');
    assert!(shown.len() > 5, "{shown:?}");
    hold_table("docs/reference/views.md", &table);
}

#[test]
fn quotes_in_a_literal_are_undone() {
    assert_eq!(literal("'a''s; b';\n"), "a's; b");
}

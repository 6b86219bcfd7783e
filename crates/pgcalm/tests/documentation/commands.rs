//! The reference of verbs, from the program itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::process::Command;

use crate::{hold_table, pages, text};

fn help(verb: &[&str]) -> String {
    let output =
        Command::new(env!("CARGO_BIN_EXE_pgcalm")).args(verb).arg("--help").env("COLUMNS", "100").output().unwrap();
    assert!(output.status.success(), "{verb:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Verbs of a help, `help` itself left out.
fn verbs(help: &str) -> Vec<&str> {
    let Some((_, list)) = help.split_once("\nCommands:\n") else { return Vec::new() };
    list.lines()
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|verb| *verb != "help")
        .collect()
}

/// All verbs with their helps, in the program's order.
fn all() -> Vec<(String, String)> {
    fn add(verb: &[&str], found: &mut Vec<(String, String)>) {
        let help = help(verb);
        let name = std::iter::once("pgcalm").chain(verb.iter().copied()).collect::<Vec<_>>().join(" ");
        found.push((name, help.clone()));
        for next in verbs(&help) {
            let mut verb = verb.to_vec();
            verb.push(next);
            add(&verb, found);
        }
    }
    let mut found = Vec::new();
    add(&[], &mut found);
    found
}

/// Exit codes that a help lists.
fn exit_codes(help: &str) -> Vec<(u8, String)> {
    let Some((_, list)) = help.split_once("Exit codes:\n") else { return Vec::new() };
    let mut found: Vec<(u8, String)> = Vec::new();
    for line in list.lines().take_while(|line| !line.is_empty()) {
        let line = line.trim();
        let (code, meaning) = line.split_once(' ').unwrap_or((line, ""));
        match code.parse() {
            Ok(code) => found.push((code, meaning.trim().to_string())),
            // goes on from the line before
            Err(_) => {
                let last = &mut found.last_mut().unwrap().1;
                *last = format!("{last} {line}");
            }
        }
    }
    found
}

#[test]
fn every_verb_is_in_the_reference() {
    let all = all();
    assert!(all.len() > 20, "{}", all.len());
    let mut table = String::new();
    for (name, help) in &all {
        // they are in one place
        let help = help.split("Exit codes:\n").next().unwrap().trim_end();
        writeln!(table, "\n## {name}\n\n```text\n{help}\n```").unwrap();
    }
    table.push('\n');
    hold_table("docs/reference/commands.md", &table);
}

#[test]
fn every_exit_code_is_in_the_reference() {
    // the same list for most verbs
    let mut lists: BTreeMap<Vec<(u8, String)>, Vec<String>> = BTreeMap::new();
    for (name, help) in all() {
        let codes = exit_codes(&help);
        if !codes.is_empty() {
            lists.entry(codes).or_default().push(name);
        }
    }
    let most = lists.values().map(Vec::len).max().unwrap();
    let mut table = String::new();
    table.push_str("\n| verbs | exit code | meaning |\n|---|---|---|\n");
    let mut ordered: Vec<_> = lists.iter().collect();
    ordered.sort_by_key(|(_, names)| std::cmp::Reverse(names.len()));
    for (codes, names) in ordered {
        let names = if names.len() == most { "all others".to_string() } else { format!("`{}`", names.join("`, `")) };
        for (code, meaning) in codes {
            writeln!(table, "| {names} | {code} | {meaning} |").unwrap();
        }
    }
    table.push('\n');
    hold_table("docs/reference/exit-codes.md", &table);
}

/// `pgcalm VERB ...` in code must be a verb of the program.
#[test]
fn verbs_that_pages_name_are_there() {
    let all: BTreeSet<String> = all().into_iter().map(|(name, _)| name).collect();
    let mut bad = Vec::new();
    let mut all_pages = pages();
    all_pages.extend(["README.md".to_string(), "SECURITY.md".to_string()]);
    for page in all_pages {
        for line in text(&page).lines() {
            let starts = line.match_indices("pgcalm ").filter(|(start, _)| {
                let before = line[..*start].chars().next_back();
                // at the start of a line it may be the program's name in its own messages
                before.is_some_and(|c| "`/;'(".contains(c))
            });
            for (start, _) in starts {
                let mut name = "pgcalm".to_string();
                for word in line[start..].split(' ').skip(1) {
                    let word = word.trim_end_matches(['`', ',', '.', ';', ')', '\'']);
                    let next = format!("{name} {word}");
                    let verb = !word.is_empty()
                        && word.chars().all(|c| c.is_ascii_lowercase() || c == '-')
                        && !word.starts_with('-');
                    if !verb {
                        break;
                    }
                    if !all.contains(&next) {
                        // arguments follow a verb that has none below it
                        if all.iter().any(|other| other.starts_with(&format!("{name} ")))
                            && word != "generate"
                            && word != "help"
                        {
                            bad.push(format!("{page}: {next}"));
                        }
                        break;
                    }
                    name = next;
                    if line[start..].split('`').next().is_some_and(|code| code.ends_with(&name)) {
                        break;
                    }
                }
            }
        }
    }
    assert!(bad.is_empty(), "no such verb:\n{}", bad.join("\n"));
}

#[test]
fn codes_of_a_help() {
    let help = "x\n\nExit codes:\n  0    fine\n  200  anything else,\n       and more\n";
    assert_eq!(exit_codes(help), [(0, "fine".into()), (200, "anything else, and more".into())]);
}

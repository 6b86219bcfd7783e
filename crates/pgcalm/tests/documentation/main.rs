//! Holds README.md and docs/ against the code: links, settings, views, verbs, exit codes, figures, lengths.
//!
//! The tables in docs/reference are made from the code: `UPDATE_DOCS=1 cargo test -p pgcalm --test documentation` writes them.

mod commands;
mod figures;
mod markdown;
mod settings;
mod site;
mod views;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// As `wc -w` counts them.
const README_WORDS: usize = 550;
const PAGE_WORDS: usize = 900;
/// What is there for looking up, or written by a tool.
const MAY_BE_LONG: [&str; 2] = ["docs/reference/", "docs/arena-quick.md"];
/// Of all pages together that are written by hand, as `wc -w` counts them, signs of tables included.
const ALL_WORDS: usize = 12_390;
/// Characters of a line, but for tables and code, which can't be broken.
const LINE: usize = 100;
/// Pages for those who work on it.
const ROOT: [&str; 7] = [
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CODE_OF_CONDUCT.md",
    "CONTRIBUTING.md",
    "MAINTAINERS.md",
    "SECURITY.md",
    "SUPPORT.md",
];
const UPDATE: &str = "UPDATE_DOCS=1 cargo test -p pgcalm --test documentation";

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Text of a file by its path in the project.
fn text(path: &str) -> String {
    let path = project().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Files below a directory of the project whose names end so, as paths in the project, in order.
fn files(directory: &str, endings: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    let mut pending = vec![project().join(directory)];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() && name != "target" {
                pending.push(path);
            } else if endings.iter().any(|ending| name.ends_with(ending)) {
                let path = path.strip_prefix(project()).unwrap();
                found.push(path.to_str().unwrap().to_string());
            }
        }
    }
    found.sort();
    found
}

fn pages() -> Vec<String> {
    files("docs", &[".md"])
}

/// The table between the marks in a page must be `table`; with UPDATE_DOCS it is made so.
fn hold_table(path: &str, table: &str) {
    const BEGIN: &str = "<!-- made from the code -->\n";
    const END: &str = "<!-- end -->\n";
    let page = text(path);
    let (before, rest) = page.split_once(BEGIN).unwrap_or_else(|| panic!("{path} lacks {BEGIN}"));
    let (shown, after) = rest.split_once(END).unwrap_or_else(|| panic!("{path} lacks {END}"));
    if std::env::var_os("UPDATE_DOCS").is_some() {
        let page = format!("{before}{BEGIN}{table}{END}{after}");
        fs::write(project().join(path), page).unwrap();
        return;
    }
    let shown: Vec<&str> = shown.lines().collect();
    for (number, line) in table.lines().enumerate() {
        assert_eq!(shown.get(number), Some(&line), "{path} is not as the code has it: {UPDATE}");
    }
    assert_eq!(shown.len(), table.lines().count(), "{path}: {UPDATE}");
}

#[test]
fn the_page_on_trouble_has_all_of_them() {
    let mut table = String::from("| name | what happens | second | needs |\n|---|---|---|---|\n");
    for trouble in &pgcalm_lab::trouble::TROUBLES {
        let second = trouble.at.map_or("before the start".to_string(), |at| at.to_string());
        let mut needs: Vec<&str> = trouble.needs.iter().map(|need| need.told()).collect();
        needs.dedup();
        table.push_str(&format!("| `{}` | {} | {second} | {} |\n", trouble.name, trouble.summary, needs.join(", ")));
    }
    hold_table("docs/reference/lab-trouble.md", &table);
}

/// The lab's unit tests compile and use it.
#[test]
fn the_made_up_scenario_is_the_file() {
    let page = text("CONTRIBUTING.md");
    let (before, rest) = page.split_once("+            Naps(naps),\n").unwrap();
    let (shown, after) = rest.split_once("```\n").unwrap();
    let file: String = text("crates/pgcalm-lab/src/naps.rs").lines().map(|line| format!("+{line}\n")).collect();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(project().join("CONTRIBUTING.md"), format!("{before}+            Naps(naps),\n{file}```\n{after}"))
            .unwrap();
    } else {
        assert_eq!(shown, file, "CONTRIBUTING.md: {UPDATE}");
    }
}

const DEBIANS_LOGS: &str = " /var/log/postgresql/*.log";

/// The command as it stands there, on a log of what the list below it names, and of what the server writes besides.
#[test]
fn what_to_look_for_in_a_log_is_what_the_search_shows() {
    let page = text("docs/operate/night.md");
    let (_, section) = page.split_once("## 1. The server's log\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let command = section.lines().find_map(|line| line.strip_prefix('`')?.strip_suffix('`')).unwrap();
    // Debian's, which only root and postgres may read.
    let search = command.strip_prefix("sudo ").and_then(|search| search.strip_suffix(DEBIANS_LOGS));
    let search = format!("{} postgresql.log", search.unwrap_or_else(|| panic!("{command}")));
    assert!(search.starts_with("grep "), "{search}");
    let named = section.lines().filter_map(|line| line.strip_prefix("- **")?.split_once("**"));
    // One without code is about a log that shows nothing.
    let mut log: Vec<String> =
        named.filter(|(words, _)| words.contains('`')).map(|(words, _)| words.replace('`', "")).collect();
    assert!(log.len() >= 5, "{log:?}");
    log.push("archiving write-ahead log file \"000000010000000000000001\" failed too many times".to_string());
    let log = log.join("\n") + "\n";
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("postgresql.log"), format!("{log}connection received\n")).unwrap();
    let output = Command::new("sh").args(["-c", &search]).current_dir(dir.path()).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), log, "{search}");
}

#[test]
fn the_readme_is_short() {
    let words = text("README.md").split_whitespace().count();
    assert!(words <= README_WORDS, "README.md: {words} words, more than {README_WORDS}");
}

#[test]
fn pages_are_short() {
    let long: Vec<String> = pages()
        .into_iter()
        .filter(|page| !MAY_BE_LONG.iter().any(|start| page.starts_with(start)))
        .map(|page| (markdown::words(&text(&page)), page))
        .filter(|(words, _)| *words > PAGE_WORDS)
        .map(|(words, page)| format!("{page}: {words}"))
        .collect();
    assert!(long.is_empty(), "more than {PAGE_WORDS} words: {long:?}");
}

/// README and the pages that people write.
fn written_by_hand() -> impl Iterator<Item = String> {
    let readme = std::iter::once("README.md".to_string());
    readme.chain(pages()).filter(|page| !MAY_BE_LONG.iter().any(|start| page.starts_with(start)))
}

#[test]
fn all_pages_together_are_short() {
    let words: usize = written_by_hand().map(|page| text(&page).split_whitespace().count()).sum();
    assert!(words <= ALL_WORDS, "{words} words, more than {ALL_WORDS}");
}

/// Words of ours that readers have to learn.
const GLOSSARY: usize = 15;

#[test]
fn the_glossary_is_short_and_its_words_are_used() {
    let others: String = written_by_hand()
        .chain(["docs/reference/settings.md", "docs/reference/views.md"].map(String::from))
        .filter(|page| page != "docs/glossary.md")
        .map(|page| text(&page).to_lowercase())
        .collect();
    let glossary = text("docs/glossary.md");
    let words: Vec<&str> =
        glossary.lines().filter_map(|line| line.strip_prefix("- **")?.split_once("**")).map(|(word, _)| word).collect();
    assert!((1..=GLOSSARY).contains(&words.len()), "{} words, more than {GLOSSARY}", words.len());
    for word in words {
        assert!(others.contains(word), "no page has {word}");
    }
}

#[test]
fn lines_are_short() {
    let mut long = Vec::new();
    for page in written_by_hand().chain(ROOT.map(String::from)).filter(|page| page != "ARCHITECTURE.md") {
        let body = text(&page);
        let breakable = markdown::prose(&body).filter(|line| !line.starts_with('|') && !line.starts_with("!["));
        long.extend(breakable.filter(|line| line.chars().count() > LINE).map(|line| format!("{page}: {line}")));
    }
    assert!(long.is_empty(), "more than {LINE} characters:\n{}", long.join("\n"));
}

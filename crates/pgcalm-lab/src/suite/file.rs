//! The file that describes a suite; docs/guides/lab.md is its reference.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use toml::{Table, Value};

use super::table::{Defaults, check_name, level, text};
use super::{Row, matrix};
use pgcalm_host::Failure;

/// A suite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suite {
    /// Heading in renderings.
    pub title: String,
    /// What it is for; may be empty.
    pub about: String,
    /// In the file's order: those of its rows, then those of its matrices.
    pub rows: Vec<Row>,
}

/// The file as TOML has it. Rows are taken apart by hand: they hold options of the scenario, which are not known here.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    title: String,
    #[serde(default)]
    about: String,
    #[serde(default)]
    defaults: Table,
    #[serde(default)]
    row: Vec<Table>,
    #[serde(default)]
    matrix: Vec<Table>,
}

impl Suite {
    /// Reads the file; an error names it, the place and the way out.
    pub fn read(file: &Path) -> Result<Self, Failure> {
        let named = |text: String| Failure::Usage(format!("{}: {text}", file.display()));
        let text = fs::read_to_string(file).map_err(|error| named(format!("{error}; name the file of a suite")))?;
        Self::parse(&text).map_err(named)
    }

    /// Reads the text of such a file; an error does not name the file.
    pub fn parse(text: &str) -> Result<Self, String> {
        let document: Document = toml::from_str(text).map_err(|error| {
            let line = error.span().map(|span| text[..span.start].matches('\n').count() + 1);
            let place = line.map_or_else(String::new, |line| format!("line {line}: "));
            format!("{place}{}; docs/guides/lab.md has the format", error.message())
        })?;
        let defaults = Defaults::of(document.defaults).map_err(|error| format!("defaults: {error}"))?;
        let mut rows = Vec::new();
        for (index, table) in document.row.into_iter().enumerate() {
            let place = place(&table, "row", index);
            rows.push(row(table, &defaults).map_err(|error| format!("{place}: {error}"))?);
        }
        for (index, table) in document.matrix.into_iter().enumerate() {
            let place = place(&table, "matrix", index);
            rows.extend(matrix::rows(table, &defaults).map_err(|error| format!("{place}: {error}"))?);
        }
        if rows.is_empty() {
            return Err("no rows: give some [[row]] or [[matrix]]".to_string());
        }
        let mut names = HashSet::new();
        // Sections of a document of results are found by them.
        let mut titles = HashSet::new();
        for row in &rows {
            for (what, of, before) in [("name", &row.name, &mut names), ("title", &row.title, &mut titles)] {
                if !before.insert(of) {
                    return Err(format!(
                        "row {}: another row has the {what} {of:?}, too: give it one of its own",
                        row.name
                    ));
                }
            }
        }
        Ok(Self { title: document.title, about: document.about.trim().to_string(), rows })
    }

    /// The rows with one of these names (all if there are none) and of this part (all if none is given).
    pub fn select(&self, names: &[String], part: Option<&str>) -> Result<Vec<&Row>, Failure> {
        let known: HashSet<&str> = self.rows.iter().map(|row| row.name.as_str()).collect();
        for name in names {
            if !known.contains(name.as_str()) {
                return Err(Failure::Usage(format!(
                    "--rows {name}: no such row; there are {}",
                    self.names().join(", ")
                )));
            }
        }
        let parts = self.parts();
        if let Some(part) = part.filter(|part| !parts.contains(part)) {
            return Err(Failure::Usage(if parts.is_empty() {
                format!("--part {part}: the suite has no parts; leave it out")
            } else {
                format!("--part {part}: no such part; there are {}", parts.join(", "))
            }));
        }
        let wanted: HashSet<&str> = names.iter().map(String::as_str).collect();
        let chosen: Vec<&Row> = self
            .rows
            .iter()
            .filter(|row| wanted.is_empty() || wanted.contains(row.name.as_str()))
            .filter(|row| part.is_none() || row.part.as_deref() == part)
            .collect();
        if chosen.is_empty() {
            return Err(Failure::Usage("--rows and --part: no row is both; leave one of them out".to_string()));
        }
        Ok(chosen)
    }

    /// Each part once, in the file's order.
    pub fn parts(&self) -> Vec<&str> {
        let mut seen = HashSet::new();
        let parts = self.rows.iter().filter_map(|row| row.part.as_deref());
        parts.filter(|part| seen.insert(*part)).collect()
    }

    fn names(&self) -> Vec<&str> {
        self.rows.iter().map(|row| row.name.as_str()).collect()
    }
}

/// How errors call a row: by its name, if it has one.
fn place(table: &Table, kind: &str, index: usize) -> String {
    match table.get("name") {
        Some(Value::String(name)) => format!("{kind} {name}"),
        _ => format!("{kind} {}", index + 1),
    }
}

fn row(mut table: Table, defaults: &Defaults) -> Result<Row, String> {
    let name = text(&mut table, "name")?.ok_or("it has no name: give it one")?;
    check_name(&name)?;
    let scenario = text(&mut table, "scenario")?.unwrap_or_else(|| defaults.scenario.clone());
    Ok(Row {
        title: text(&mut table, "title")?.unwrap_or_else(|| name.clone()),
        part: text(&mut table, "part")?,
        name,
        levels: vec![defaults.level(&scenario), level(table)?],
        scenario,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = r#"
title = "Two"
about = "Two rows."
[defaults]
seconds = 60
contestants = ["stock", "pg_calm"]
[[row]]
name = "one"
part = "first"
seconds = 90
[[row]]
name = "two"
title = "The second"
part = "second"
fs = "xfs"
"#;

    fn words(row: &Row) -> Vec<String> {
        row.arguments(|name| name == "set")
    }

    #[test]
    fn rows_have_the_defaults_and_their_own() {
        let suite = Suite::parse(TWO).unwrap();
        assert_eq!(suite.title, "Two");
        assert_eq!(suite.parts(), ["first", "second"]);
        let [one, two] = &suite.rows[..] else { panic!("{suite:?}") };
        assert_eq!((one.title.as_str(), two.title.as_str()), ("one", "The second"));
        assert_eq!(one.scenario, "checkpoint");
        assert_eq!(words(one), ["--seconds=90", "--contestants=stock,pg_calm"]);
        assert_eq!(words(two), ["--seconds=60", "--contestants=stock,pg_calm", "--fs=xfs"]);
    }

    #[test]
    fn defaults_are_of_one_scenario() {
        let other = "[[row]]\nname = 'other'\nscenario = 'wal-full'\nkind = 'slot'\n";
        let suite = Suite::parse(&format!("{TWO}{other}")).unwrap();
        assert_eq!((suite.rows[2].scenario.as_str(), words(&suite.rows[2])), ("wal-full", vec!["--kind=slot".into()]));
        let suite = Suite::parse(&format!("{}{other}", TWO.replacen("seconds", "scenario = 'wal-full'\nseconds", 1)));
        let suite = suite.unwrap();
        assert_eq!(suite.rows[0].scenario, "wal-full");
        assert_eq!(words(&suite.rows[2]), ["--seconds=60", "--contestants=stock,pg_calm", "--kind=slot"]);
    }

    #[test]
    fn mistakes_are_named() {
        let cases = [
            ("about = 'x'", "missing field `title`"),
            ("title = 'x'\nrow = 3", "line 2: "),
            ("title = 'x'\n[[rows]]\nname='a'", "unknown field `rows`"),
            ("title = 'x'", "no rows"),
            ("title = 'x'\n[[row]]\nfs = 'xfs'", "row 1: it has no name"),
            ("title = 'x'\n[[row]]\nname = 'a/b'", "row a/b: name \"a/b\""),
            ("title = 'x'\n[[row]]\nname = 'a'\ntitle = 1", "row a: title"),
            ("title = 'x'\n[[row]]\nname = 'a'\nfs = {x = 1}", "row a: option fs"),
            ("title = 'x'\n[[row]]\nname = 'a'\n[[row]]\nname = 'a'", "row a: another row has the name"),
            ("title = 'x'\n[[row]]\nname = 'a'\n[[row]]\nname = 'b'\ntitle = 'a'", "row b: another row has the title"),
        ];
        for (text, expected) in cases {
            let error = Suite::parse(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn rows_are_selected_by_name_and_part() {
        let suite = Suite::parse(TWO).unwrap();
        let names = |names: &[&str], part| {
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            suite.select(&names, part).map(|rows| {
                let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
                names.join(" ")
            })
        };
        assert_eq!(names(&[], None).unwrap(), "one two");
        assert_eq!(names(&["two", "one"], None).unwrap(), "one two");
        assert_eq!(names(&[], Some("second")).unwrap(), "two");
        for (given, part, expected) in [
            (&["three"][..], None, "there are one, two"),
            (&[], Some("third"), "there are first, second"),
            (&["one"], Some("second"), "no row is both"),
        ] {
            let error = names(given, part).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}

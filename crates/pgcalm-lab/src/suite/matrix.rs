//! Rows for every combination of the values of some axes.

use toml::{Table, Value};

use super::table::{self, Defaults};
use super::{Given, Level, Row};

/// Something that is varied.
#[derive(Debug)]
struct Axis {
    name: String,
    values: Vec<AxisValue>,
}

/// One of the values that an axis has.
#[derive(Debug)]
struct AxisValue {
    /// What stands for it in names and titles.
    label: String,
    /// The part of the suite that its rows belong to, in the place of the matrix's.
    part: Option<String>,
    /// What it sets.
    options: Level,
}

/// Options for some of the combinations, or their exclusion.
#[derive(Debug)]
struct Change {
    /// Axis and labels; a combination must have one of them on each of these axes.
    matches: Vec<(String, Vec<String>)>,
    skip: bool,
    options: Level,
}

/// One value of each axis, in the order of the axes.
type Cell<'a> = Vec<(&'a Axis, &'a AxisValue)>;

/// The rows of a `[[matrix]]`; the last axis varies fastest.
pub(super) fn rows(mut table: Table, defaults: &Defaults) -> Result<Vec<Row>, String> {
    let name = table::text(&mut table, "name")?;
    let title = table::text(&mut table, "title")?;
    let scenario = table::text(&mut table, "scenario")?.unwrap_or_else(|| defaults.scenario.clone());
    let defaults = defaults.level(&scenario);
    let part = table::text(&mut table, "part")?;
    let axes = axes(table.remove("axes"))?;
    let changes = changes(table.remove("change"), &axes)?;
    let own = table::level(table)?;
    let name = name.unwrap_or_else(|| {
        let names: Vec<String> = axes.iter().map(|axis| format!("{{{}}}", axis.name)).collect();
        names.join("-")
    });
    let title = title.unwrap_or_else(|| name.clone());

    let mut rows = Vec::new();
    for cell in cells(&axes) {
        let applying: Vec<&Change> = changes.iter().filter(|change| change.applies(&cell)).collect();
        if applying.iter().any(|change| change.skip) {
            continue;
        }
        let name = filled(&name, &cell)?;
        table::check_name(&name).map_err(|error| {
            format!("{error}; a value of an axis gets another name with {{ label = \"...\", ... }}")
        })?;
        let levels = [&defaults, &own]
            .into_iter()
            .chain(cell.iter().map(|(_, value)| &value.options))
            .chain(applying.iter().map(|change| &change.options))
            .cloned()
            .collect();
        rows.push(Row {
            title: filled(&title, &cell)?,
            scenario: scenario.clone(),
            part: cell
                .iter()
                .rev()
                .find_map(|(_, value)| value.part.as_deref())
                .or(part.as_deref())
                .map(|part| filled(part, &cell))
                .transpose()?,
            name,
            levels,
        });
    }
    Ok(rows)
}

fn axes(value: Option<Value>) -> Result<Vec<Axis>, String> {
    const EXPECTED: &str = "give [matrix.axes] with a list of values for each, e.g. fs = [\"ext4\", \"xfs\"]";
    let Some(Value::Table(table)) = value else {
        return Err(format!("axes: {EXPECTED}"));
    };
    if table.is_empty() {
        return Err(format!("axes: {EXPECTED}"));
    }
    table
        .into_iter()
        .map(|(name, values)| {
            let values = match values {
                Value::Array(values) if !values.is_empty() => values,
                _ => return Err(format!("axis {name}: {EXPECTED}")),
            };
            let values = values
                .into_iter()
                .map(|value| axis_value(&name, value))
                .collect::<Result<Vec<AxisValue>, String>>()
                .map_err(|error| format!("axis {name}: {error}"))?;
            for (index, value) in values.iter().enumerate() {
                if values[..index].iter().any(|earlier| earlier.label == value.label) {
                    return Err(format!("axis {name}: {} is there twice", value.label));
                }
            }
            Ok(Axis { name, values })
        })
        .collect()
}

/// A plain value is that of the option with the axis's name; a table has a label and options.
fn axis_value(axis: &str, value: Value) -> Result<AxisValue, String> {
    let Value::Table(mut table) = value else {
        let given = Given::from_toml(axis, &value)?;
        return Ok(AxisValue { label: given.label(), part: None, options: vec![(axis.to_string(), given)] });
    };
    let label = table::text(&mut table, "label")?
        .ok_or("a value with several options needs a label: { label = \"...\", ... }")?;
    Ok(AxisValue { label, part: table::text(&mut table, "part")?, options: table::level(table)? })
}

fn changes(value: Option<Value>, axes: &[Axis]) -> Result<Vec<Change>, String> {
    let tables = match value {
        None => return Ok(Vec::new()),
        Some(Value::Array(tables)) => tables,
        Some(_) => return Err("change: give [[matrix.change]]".to_string()),
    };
    tables
        .into_iter()
        .enumerate()
        .map(|(index, table)| change(table, axes).map_err(|error| format!("change {}: {error}", index + 1)))
        .collect()
}

fn change(table: Value, axes: &[Axis]) -> Result<Change, String> {
    const EXPECTED: &str = "give where = { AXIS = \"LABEL\" }, or a list of labels";
    let Value::Table(mut table) = table else { return Err(EXPECTED.to_string()) };
    let Some(Value::Table(conditions)) = table.remove("where") else { return Err(EXPECTED.to_string()) };
    let mut matches = Vec::new();
    for (name, value) in conditions {
        let axis = axes.iter().find(|axis| axis.name == name).ok_or_else(|| format!("where: no axis {name}"))?;
        let labels = match Given::from_toml(&name, &value)? {
            Given::Several(labels) => labels,
            given => vec![given.label()],
        };
        for label in &labels {
            if !axis.values.iter().any(|value| value.label == *label) {
                let known: Vec<&str> = axis.values.iter().map(|v| v.label.as_str()).collect();
                return Err(format!("where: axis {name} has no {label}; it has {}", known.join(", ")));
            }
        }
        matches.push((name, labels));
    }
    let skip = match table.remove("skip") {
        None => false,
        Some(Value::Boolean(skip)) => skip,
        Some(_) => return Err("skip: give true".to_string()),
    };
    Ok(Change { matches, skip, options: table::level(table)? })
}

impl Change {
    fn applies(&self, cell: &Cell<'_>) -> bool {
        self.matches
            .iter()
            .all(|(name, labels)| cell.iter().any(|(axis, value)| axis.name == *name && labels.contains(&value.label)))
    }
}

/// The cross product.
fn cells(axes: &[Axis]) -> Vec<Cell<'_>> {
    axes.iter().fold(vec![Vec::new()], |cells, axis| {
        cells
            .iter()
            .flat_map(|cell| {
                axis.values.iter().map(move |value| {
                    let mut longer = cell.clone();
                    longer.push((axis, value));
                    longer
                })
            })
            .collect()
    })
}

/// `pattern` with the label for each `{axis}`.
fn filled(pattern: &str, cell: &Cell<'_>) -> Result<String, String> {
    let mut text = String::new();
    let mut rest = pattern;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').ok_or_else(|| format!("{pattern:?}: a {{ is not closed"))?;
        let (_, value) =
            cell.iter().find(|(axis, _)| axis.name == name).ok_or_else(|| format!("{pattern:?}: no axis {name}"))?;
        text.push_str(before);
        text.push_str(&value.label);
        rest = after;
    }
    text.push_str(rest);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use crate::suite::{Row, Suite};

    #[test]
    fn a_value_of_an_axis_can_have_a_part_of_its_own() {
        let suite = Suite::parse(
            "title = 'x'\n[[matrix]]\npart = 'of {case}'\n[matrix.axes]\n\
             case = [{ label = 'a', rows = 1 }, { label = 'b', rows = 2, part = 'others' }]",
        )
        .unwrap();
        assert_eq!(suite.parts(), ["of a", "others"]);
    }

    const MATRIX: &str = r#"
title = "A matrix"
[defaults]
seconds = 60
set = ["wal_compression=lz4"]
[[matrix]]
name = "{fs}-{table}"
title = "{table} table on {fs}"
part = "{table}"
contestants = ["stock", "pg_calm"]
[matrix.axes]
table = [{ label = "small", rows = 1000 }, { label = "large", rows = 2000, seconds = 90, set = ["a=1"] }]
fs = ["ext4", "xfs"]
[[matrix.change]]
where = { table = ["large"], fs = "xfs" }
contestants = ["stock"]
[[matrix.change]]
where = { table = "small", fs = "xfs" }
skip = true
"#;

    fn words(row: &Row) -> String {
        row.arguments(|name| name == "set").join(" ")
    }

    #[test]
    fn every_combination_is_a_row() {
        let suite = Suite::parse(MATRIX).unwrap();
        let rows: Vec<(&str, &str, Option<&str>)> =
            suite.rows.iter().map(|row| (row.name.as_str(), row.title.as_str(), row.part.as_deref())).collect();
        assert_eq!(
            rows,
            [
                ("ext4-small", "small table on ext4", Some("small")),
                ("ext4-large", "large table on ext4", Some("large")),
                ("xfs-large", "large table on xfs", Some("large")),
            ]
        );
        assert_eq!(
            words(&suite.rows[0]),
            "--seconds=60 --set=wal_compression=lz4 --contestants=stock,pg_calm --rows=1000 --fs=ext4"
        );
        assert_eq!(
            words(&suite.rows[2]),
            "--seconds=90 --set=wal_compression=lz4 --set=a=1 --contestants=stock --rows=2000 --fs=xfs"
        );
    }

    #[test]
    fn names_come_from_the_axes_unless_given() {
        let suite =
            Suite::parse("title = 'x'\n[[matrix]]\n[matrix.axes]\nfs = ['ext4', 'xfs']\nclients = [4, 8]").unwrap();
        let names: Vec<&str> = suite.rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["ext4-4", "ext4-8", "xfs-4", "xfs-8"]);
    }

    #[test]
    fn mistakes_are_named() {
        let with = |old: &str, new: &str| {
            assert!(MATRIX.contains(old), "{old}");
            Suite::parse(&MATRIX.replace(old, new)).unwrap_err()
        };
        let matrix = "matrix {fs}-{table}: ";
        let cases = [
            (with("[\"ext4\"", "[\"ext:4\""), "name \"ext:4-small\""),
            (with("{table} table", "{tab} table"), "no axis tab"),
            (with("\"{table}\"", "\"{table\""), "not closed"),
            (with("label = \"small\", ", ""), "axis table: a value with several"),
            (with("label = \"large\"", "label = \"small\""), "is there twice"),
            (with("fs = \"xfs\" }\nskip", "fs = \"zfs\" }\nskip"), "it has ext4, xfs"),
            (with("table = [\"large\"]", "size = [\"large\"]"), "change 1: where: no axis size"),
            (with("skip = true", "skip = 1"), "change 2: skip"),
            (with("[\"ext4\", \"xfs\"]", "[]"), "axis fs: give"),
        ];
        for (error, expected) in cases {
            assert!(error.contains(expected), "{expected}: {error}");
            assert!(error.starts_with("matrix "), "{matrix}: {error}");
        }
        let error = Suite::parse("title = 'x'\n[[matrix]]\nname = 'a'").unwrap_err();
        assert!(error.starts_with("matrix a: axes: give"), "{error}");
    }
}

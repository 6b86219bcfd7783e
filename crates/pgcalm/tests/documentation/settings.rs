//! The reference of settings, from the calls that define them.

use std::fmt::Write;

use crate::{files, hold_table, pages, text};

#[derive(Debug)]
struct Setting {
    name: String,
    default: String,
    values: String,
    change: &'static str,
    meaning: String,
    /// A switch for support: GUC_NOT_IN_SAMPLE.
    for_support: bool,
}

/// The source, comments and line breaks in calls left as they are: strings hold what matters.
struct Source(String);

impl Source {
    fn read() -> Self {
        let all = files("extension/pg_calm", &[".c", ".h"]);
        Self(
            all.iter()
                // those of the tests are no user's
                .filter(|file| !["/test/", "/bench/", "/test_settings.c"].iter().any(|part| file.contains(part)))
                .map(|file| text(file))
                .collect(),
        )
    }

    /// Value of an integer expression: products of numbers and of names that are defined as such.
    fn integer(&self, expression: &str) -> i64 {
        expression
            .trim_matches(['(', ')'])
            .split('*')
            .map(|factor| {
                let factor = factor.trim();
                if factor == "INT_MAX" {
                    return i64::from(i32::MAX);
                }
                factor.parse().unwrap_or_else(|_| {
                    let define = format!("#define {factor} ");
                    let (_, value) = self.0.split_once(&define).unwrap_or_else(|| panic!("{factor} is not defined"));
                    self.integer(value.lines().next().unwrap().trim())
                })
            })
            .product()
    }

    /// Names of the values of an enum setting, each with its constant.
    fn options(&self, array: &str) -> Vec<(String, String)> {
        let (_, rest) =
            self.0.split_once(&format!(" {array}[] = {{")).unwrap_or_else(|| panic!("{array} is not defined"));
        let body = rest.split("};").next().unwrap();
        body.split('{')
            .filter_map(|entry| {
                let mut parts = entry.split(',');
                let name = parts.next()?.trim().strip_prefix('"')?.strip_suffix('"')?;
                let constant = parts.next()?.trim();
                // a hidden spelling, such as "true" for "on"
                let hidden = parts.next()?.trim().starts_with("true");
                (!hidden).then(|| (name.to_string(), constant.to_string()))
            })
            .collect()
    }
}

impl Source {
    /// What a check hook lets pass, by the detail of its error.
    fn checked(&self, hook: &str) -> Option<String> {
        let (_, rest) = self.0.split_once(&format!("\n{hook}(int *newval"))?;
        let body = rest.split("\n}\n").next()?;
        let (_, detail) = body.split_once("GUC_check_errdetail(\"The value must be ")?;
        Some(detail.split_once(".\"")?.0.to_string())
    }
}

/// Arguments of the call whose text begins after its opening parenthesis.
fn arguments(call: &str) -> Vec<String> {
    let mut arguments = vec![String::new()];
    let mut depth = 0;
    let mut quoted = false;
    let mut previous = ' ';
    for c in call.chars() {
        if c == '"' && previous != '\\' {
            quoted = !quoted;
        }
        previous = c;
        match c {
            '(' if !quoted => depth += 1,
            ')' if !quoted && depth == 0 => break,
            ')' if !quoted => depth -= 1,
            ',' if !quoted && depth == 0 => {
                arguments.push(String::new());
                continue;
            }
            _ => {}
        }
        arguments.last_mut().unwrap().push(c);
    }
    arguments.iter().map(|argument| argument.trim().to_string()).collect()
}

/// Content of the string literals that stand in a row; NULL is none.
fn string(argument: &str) -> String {
    let argument = argument.replace("\\\"", "\u{1}");
    argument.split('"').skip(1).step_by(2).collect::<String>().replace('\u{1}', "\"")
}

/// A number with the unit that the server shows it in.
fn amount(value: i64, flags: &str) -> String {
    let units: &[(i64, &str)] = if flags.contains("GUC_UNIT_KB") {
        &[(1024 * 1024, "GB"), (1024, "MB"), (1, "kB")]
    } else if flags.contains("GUC_UNIT_MB") {
        &[(1024, "GB"), (1, "MB")]
    } else if flags.contains("GUC_UNIT_MS") {
        &[(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"), (1, "ms")]
    } else if flags.contains("GUC_UNIT_S") {
        &[(3600, "h"), (60, "min"), (1, "s")]
    } else {
        &[]
    };
    if value <= 0 {
        return value.to_string();
    }
    match units.iter().find(|(size, _)| value % size == 0) {
        Some((size, unit)) => format!("{}{unit}", value / size),
        None => value.to_string(),
    }
}

fn settings() -> Vec<Setting> {
    let source = Source::read();
    let mut found = Vec::new();
    for call in source.0.split("DefineCustom").skip(1) {
        let Some((kind, rest)) = call.split_once("Variable(") else { continue };
        let arguments = arguments(rest);
        if !["Bool", "Int", "Real", "Enum", "String"].contains(&kind) {
            continue;
        }
        let name = string(&arguments[0]);
        let boot = arguments[4].as_str();
        // context and flags come after what is particular to the type
        let particular = match kind {
            "Int" | "Real" => 2,
            "Enum" => 1,
            _ => 0,
        };
        let context = arguments[5 + particular].as_str();
        let flags = arguments[6 + particular].as_str();
        let (default, values) = match kind {
            "Bool" => {
                let default = if boot == "true" { "on" } else { "off" };
                (default.to_string(), "on, off".to_string())
            }
            "Int" => {
                let at_most = source.integer(&arguments[6]);
                let least = amount(source.integer(&arguments[5]), flags);
                let unit = ["KB", "MB", "MS"].into_iter().find(|unit| flags.contains(&format!("GUC_UNIT_{unit}")));
                let unit = unit.map_or("", |unit| match unit {
                    "KB" => " kB",
                    "MB" => " MB",
                    _ => " ms",
                });
                let is_open = at_most == i64::from(i32::MAX);
                let values = if let Some(values) = source.checked(&arguments[9]) {
                    match is_open {
                        true => format!("{values}{unit}"),
                        false => format!("{values}, at most {}", amount(at_most, flags)),
                    }
                } else if is_open {
                    format!("from {least}{unit}")
                } else {
                    format!("{least} to {}", amount(at_most, flags))
                };
                (amount(source.integer(boot), flags), values)
            }
            "Enum" => {
                let options = source.options(&arguments[5]);
                let default = options.iter().find(|(_, constant)| constant == boot);
                let names: Vec<&str> = options.iter().map(|(name, _)| name.as_str()).collect();
                (default.unwrap_or_else(|| panic!("{name}: {boot}")).0.clone(), names.join(", "))
            }
            "String" => (string(boot), "text".to_string()),
            _ => panic!("{name}: {kind} is not known here"),
        };
        let change = match context {
            "PGC_POSTMASTER" => "restart",
            "PGC_SIGHUP" => "reload",
            "PGC_SUSET" => "session, superusers",
            "PGC_USERSET" => "session",
            other => panic!("{name}: {other}"),
        };
        let meaning = format!("{} {}", string(&arguments[1]), string(&arguments[2]));
        found.push(Setting {
            name,
            default,
            values,
            change,
            meaning: meaning.trim().replace('|', "\\|").replace('"', "`"),
            for_support: flags.contains("GUC_NOT_IN_SAMPLE"),
        });
    }
    found
}

#[test]
fn every_setting_is_in_the_reference_as_the_code_has_it() {
    let mut settings = settings();
    let calls = Source::read().0.matches("DefineCustom").count();
    assert_eq!(settings.len(), calls, "calls that were not understood");
    assert!(settings.len() > 20);
    assert!(settings.iter().all(|setting| setting.name.starts_with("pg_calm")));
    // Stable: each kind stays in the order of the code.
    settings.sort_by_key(|setting| setting.for_support);
    let mut table = String::new();
    for (heading, prefix) in [
        ("Flushing and checkpoints", "pg_calm."),
        ("Several instances on one device", "pg_calm_share."),
        ("Archiving", "pg_calm_archive."),
        ("Guard", "pg_calm_guard."),
    ] {
        writeln!(table, "\n## {heading}\n").unwrap();
        table.push_str("| setting | default | values | change by | meaning |\n|---|---|---|---|---|\n");
        for setting in settings.iter().filter(|setting| setting.name.starts_with(prefix)) {
            let default = if setting.default.is_empty() { "empty".into() } else { format!("`{}`", setting.default) };
            writeln!(
                table,
                "| `{}` | {default} | {} | {} | {}{} |",
                setting.name,
                setting.values,
                setting.change,
                setting.meaning,
                if setting.for_support { " A switch for support." } else { "" }
            )
            .unwrap();
        }
    }
    table.push('\n');
    hold_table("docs/reference/settings.md", &table);
}

/// `pg_calm.NAME` in a text, and those of the libraries beside it.
fn named(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("pg_calm").filter_map(|(start, _)| {
        let before = text[..start].chars().next_back().unwrap_or(' ');
        let word = &text[start..];
        let end = word.find(|c: char| !(c.is_ascii_lowercase() || c == '_' || c == '.')).unwrap_or(word.len());
        let word = word[..end].trim_end_matches(['.', '_']);
        let (library, name) = word.split_once('.')?;
        // files of the module, and names of logs of its tests
        let file = ["c", "h", "so", "control", "conf", "pgcalm-exporter"].contains(&name);
        let ours = ["pg_calm", "pg_calm_archive", "pg_calm_guard", "pg_calm_share"].contains(&library);
        (ours && !file && !before.is_alphanumeric() && !"/_.-".contains(before)).then_some(word)
    })
}

#[test]
fn settings_that_pages_name_are_there() {
    let settings = settings();
    let mut bad = Vec::new();
    let mut all = pages();
    all.push("README.md".into());
    for page in all {
        let body = text(&page);
        for name in named(&body) {
            if !settings.iter().any(|setting| setting.name == name) {
                bad.push(format!("{page}: {name}"));
            }
        }
    }
    assert!(bad.is_empty(), "no such setting:\n{}", bad.join("\n"));
}

#[test]
fn calls_are_taken_apart() {
    assert_eq!(arguments("\"a, (b\" \"c\", f(1, 2), 3) + 4"), ["\"a, (b\" \"c\"", "f(1, 2)", "3"]);
    assert_eq!(string("\"a \\\"b\\\" \"\n\t\"c\""), "a \"b\" c");
    assert_eq!(string("NULL"), "");
    assert_eq!(amount(48 * 1024, "GUC_UNIT_KB"), "48MB");
    assert_eq!(amount(5000, "GUC_UNIT_MS"), "5s");
    assert_eq!(amount(-1, "GUC_UNIT_MS"), "-1");
}

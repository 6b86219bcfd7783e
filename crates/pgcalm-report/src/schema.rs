//! Keeps docs/json-schema and the model together.
//!
//! The schema is derived in tests only: the checked-in file is what users get, so the program need not carry the
//! generator. `UPDATE_SCHEMA=1 cargo test -p pgcalm-report schema` rewrites it after a change of the model.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::path::Path;
use std::path::PathBuf;

use serde_json::Value;

use crate::archive;
use crate::doctor;
use crate::isolate;
use crate::journal;
use crate::model;
use crate::predict;
use crate::replica;
use crate::suite;
use crate::tenants;
use crate::torture;
use crate::trace;

/// Name of a document's files in the folder, and the schema of its type.
fn documents() -> [(&'static str, Value); 9] {
    [
        ("report", schemars::schema_for!(model::Report).to_value()),
        ("tenants", schemars::schema_for!(tenants::Report).to_value()),
        ("torture", schemars::schema_for!(torture::Report).to_value()),
        ("archive", schemars::schema_for!(archive::Report).to_value()),
        ("journal", schemars::schema_for!(journal::Report).to_value()),
        ("replica", schemars::schema_for!(replica::Report).to_value()),
        ("predict", schemars::schema_for!(predict::Report).to_value()),
        ("suite", schemars::schema_for!(suite::Report).to_value()),
        ("isolate", schemars::schema_for!(isolate::Report).to_value()),
    ]
}

/// Likewise of the lines of traces and of doctor's document, which docs/json-schema/trace.md and docs/guides/doctor.md describe
/// by pointing at the schemas.
fn traces() -> [(&'static str, Value); 6] {
    [
        ("doctor", schemars::schema_for!(doctor::Report).to_value()),
        (
            "trace-checkpoint",
            schemars::schema_for!(trace::checkpoint::Line).to_value(),
        ),
        (
            "trace-locks",
            schemars::schema_for!(trace::locks::Line).to_value(),
        ),
        (
            "trace-why",
            schemars::schema_for!(trace::why::Line).to_value(),
        ),
        (
            "trace-io",
            schemars::schema_for!(trace::io::Line).to_value(),
        ),
        (
            "trace-connect",
            schemars::schema_for!(trace::connect::Line).to_value(),
        ),
    ]
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/json-schema")
}

#[test]
fn schema_files_match_the_models() {
    for (name, schema) in documents().into_iter().chain(traces()) {
        let file = folder().join(format!("{name}.schema.json"));
        if std::env::var_os("UPDATE_SCHEMA").is_some() {
            let mut text = serde_json::to_string_pretty(&schema).unwrap();
            text.push('\n');
            std::fs::write(&file, text).unwrap();
        }
        let text = std::fs::read_to_string(&file).unwrap();
        let checked_in: Value = serde_json::from_str(&text).unwrap();
        assert!(
            checked_in == schema,
            "docs/json-schema/{name}.schema.json is not the model's: UPDATE_SCHEMA=1 cargo test -p pgcalm-report schema"
        );
    }
}

/// Every type has its section and every field its row in NAME.md, and none is there that the model lacks. What is
/// described in report.md (`Host`) is only linked from the others.
#[test]
fn documents_describe_every_field() {
    // Documents have types of the same name that differ.
    let mut elsewhere = BTreeSet::new();
    for (name, schema) in documents() {
        let mut model = fields_of(&schema);
        model.retain(|name, fields| {
            name == "Report" || !elsewhere.contains(&(name.clone(), fields.clone()))
        });
        let described = described_in(&folder().join(format!("{name}.md")));
        assert_eq!(
            described, model,
            "docs/json-schema/{name}.md (left) against the model (right)"
        );
        elsewhere.extend(described);
    }
}

/// Every field of a trace says in its schema what it is.
#[test]
fn every_field_of_a_trace_is_described() {
    fn visit(place: &str, value: &Value, bare: &mut Vec<String>) {
        let Some(object) = value.as_object() else {
            return;
        };
        if let Some(properties) = object.get("properties").and_then(Value::as_object) {
            for (name, field) in properties {
                // `type` tells the lines apart, each of which is described.
                if name != "type" && field.get("description").is_none() {
                    bare.push(format!("{place}.{name}"));
                }
            }
        }
        for (name, definition) in object {
            match definition {
                Value::Array(items) => {
                    for item in items {
                        visit(&format!("{place}/{name}"), item, bare);
                    }
                }
                definition => visit(&format!("{place}/{name}"), definition, bare),
            }
        }
    }
    for (name, schema) in traces() {
        let mut bare = Vec::new();
        visit(name, &schema, &mut bare);
        assert_eq!(bare, Vec::<String>::new());
    }
}

fn fields_of(schema: &Value) -> BTreeMap<String, BTreeSet<String>> {
    let mut model = BTreeMap::new();
    let mut add = |name: &str, definition: &Value| {
        // One of several words has none; its field's row tells them.
        let Some(fields) = definition["properties"].as_object() else {
            return;
        };
        model.insert(name.to_string(), fields.keys().cloned().collect());
    };
    add("Report", schema);
    for (name, definition) in schema["$defs"].as_object().unwrap() {
        // That of a contest within another document is described in report.md.
        if name != "Report" {
            add(name, definition);
        }
    }
    model
}

fn described_in(file: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let text = std::fs::read_to_string(file).unwrap();
    let mut described: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut section = None;
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            section = heading
                .strip_prefix('`')
                .and_then(|rest| rest.split('`').next());
        } else if let (Some(section), Some(row)) = (section, line.strip_prefix("| `")) {
            let field = row.split('`').next().unwrap();
            described
                .entry(section.to_string())
                .or_default()
                .insert(field.to_string());
        }
    }
    described
}

//! Keeps docs/json-schema and the model together.
//!
//! The schema is derived in tests only: the checked-in file is what users get, so the program need not carry the
//! generator. `UPDATE_SCHEMA=1 cargo test -p pgcalm-report schema` rewrites it after a change of the model.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::path::Path;
use std::path::PathBuf;

use serde_json::Value;

use crate::model::Report;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/json-schema")
}

fn derived() -> Value {
    schemars::schema_for!(Report).to_value()
}

#[test]
fn schema_file_matches_the_model() {
    let file = folder().join("report.schema.json");
    let schema = derived();
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        let mut text = serde_json::to_string_pretty(&schema).unwrap();
        text.push('\n');
        std::fs::write(&file, text).unwrap();
    }
    let text = std::fs::read_to_string(&file).unwrap();
    let checked_in: Value = serde_json::from_str(&text).unwrap();
    assert!(
        checked_in == schema,
        "docs/json-schema/report.schema.json is not the model's: UPDATE_SCHEMA=1 cargo test -p pgcalm-report schema"
    );
}

/// Every type has its section and every field its row in report.md, and none is there that the model lacks.
#[test]
fn document_describes_every_field() {
    let schema = derived();
    let mut model: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut add = |name: &str, definition: &Value| {
        let fields = definition["properties"].as_object().unwrap();
        model.insert(name.to_string(), fields.keys().cloned().collect());
    };
    add("Report", &schema);
    for (name, definition) in schema["$defs"].as_object().unwrap() {
        add(name, definition);
    }

    let text = std::fs::read_to_string(folder().join("report.md")).unwrap();
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
    assert_eq!(
        described, model,
        "docs/json-schema/report.md (left) against the model (right)"
    );
}

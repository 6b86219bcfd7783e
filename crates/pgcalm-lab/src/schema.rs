//! Keeps docs/json-schema and the models of this crate together.
//!
//! The schema is derived in tests only: the checked-in file is what users get, so the program need not carry the
//! generator. `UPDATE_SCHEMA=1 cargo test -p pgcalm-lab schema` rewrites it after a change of a model.

use std::path::Path;

use serde_json::Value;

use crate::archive_crash;

/// Name of a document's schema, and the schema of its type.
fn documents() -> [(&'static str, Value); 1] {
    [(
        "archive-crash",
        schemars::schema_for!(archive_crash::report::Report).to_value(),
    )]
}

#[test]
fn schema_files_match_the_models() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/json-schema");
    for (name, schema) in documents() {
        let file = folder.join(format!("{name}.schema.json"));
        if std::env::var_os("UPDATE_SCHEMA").is_some() {
            let mut text = serde_json::to_string_pretty(&schema).unwrap();
            text.push('\n');
            std::fs::write(&file, text).unwrap();
        }
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let checked_in: Value = serde_json::from_str(&text).unwrap_or_default();
        assert!(
            checked_in == schema,
            "docs/json-schema/{name}.schema.json is not the model's: UPDATE_SCHEMA=1 cargo test -p pgcalm-lab schema"
        );
    }
}

/// Every field says in the schema what it is; there is no other page of them.
#[test]
fn every_field_is_described() {
    fn visit(place: &str, value: &Value, bare: &mut Vec<String>) {
        let Some(object) = value.as_object() else {
            return;
        };
        let properties = object.get("properties").and_then(Value::as_object);
        for (name, field) in properties.into_iter().flatten() {
            if field.get("description").is_none() {
                bare.push(format!("{place}.{name}"));
            }
        }
        for (name, definition) in object {
            visit(&format!("{place}/{name}"), definition, bare);
        }
    }
    for (name, schema) in documents() {
        let mut bare = Vec::new();
        visit(name, &schema, &mut bare);
        assert_eq!(bare, Vec::<String>::new());
    }
}

//! Keeps docs/json-schema and the models together.
//!
//! For the tests of whoever has a model: the schema is derived in tests only, since the checked-in file is what users get, and the
//! program need not carry the generator. Each function panics where schema and model differ.
//! `UPDATE_SCHEMA=1 cargo test -p CRATE schema` writes the schemas anew after a change of a crate's models.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// Name of a document's files in the folder, and the schema of its type.
pub type Document = (&'static str, Value);

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/json-schema")
}

/// NAME.schema.json is the schema of each document; `package` has the models.
///
/// # Panics
///
/// Where they differ, or a file can't be read or written.
pub fn files_match(package: &str, documents: &[Document]) {
    for (name, schema) in documents {
        let file = folder().join(format!("{name}.schema.json"));
        if std::env::var_os("UPDATE_SCHEMA").is_some() {
            let mut text = serde_json::to_string_pretty(schema).unwrap();
            text.push('\n');
            std::fs::write(&file, text).unwrap();
        }
        let text = std::fs::read_to_string(&file).unwrap();
        let checked_in: Value = serde_json::from_str(&text).unwrap();
        assert!(
            checked_in == *schema,
            "docs/json-schema/{name}.schema.json is not the model's: UPDATE_SCHEMA=1 cargo test -p {package} schema"
        );
    }
}

/// Every field says in its schema what it is.
///
/// # Panics
///
/// Where one does not.
pub fn every_field_is_described(documents: &[Document]) {
    for (name, schema) in documents {
        let mut bare = Vec::new();
        visit(name, schema, &mut bare);
        assert_eq!(bare, Vec::<String>::new());
    }
}

fn visit(place: &str, value: &Value, bare: &mut Vec<String>) {
    let Some(object) = value.as_object() else { return };
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

//! Keeps docs/json-schema/lag.schema.json and the model together, as in pgcalm-report.

use std::path::Path;

use serde_json::Value;

use crate::model::Line;

fn visit(place: &str, value: &Value, bare: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            if let Some(properties) = object.get("properties").and_then(Value::as_object) {
                for (name, field) in properties {
                    // `type` tells the lines apart, each of which is described.
                    if name != "type" && field.get("description").is_none() {
                        bare.push(format!("{place}.{name}"));
                    }
                }
            }
            for (name, definition) in object {
                visit(&format!("{place}/{name}"), definition, bare);
            }
        }
        Value::Array(items) => {
            for item in items {
                visit(place, item, bare);
            }
        }
        _ => {}
    }
}

#[test]
fn schema_file_matches_the_model_and_describes_every_field() {
    let schema = schemars::schema_for!(Line).to_value();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/json-schema/lag.schema.json");
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        let mut text = serde_json::to_string_pretty(&schema).unwrap();
        text.push('\n');
        std::fs::write(&file, text).unwrap();
    }
    let checked_in: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert!(
        checked_in == schema,
        "docs/json-schema/lag.schema.json is not the model's: UPDATE_SCHEMA=1 cargo test -p pgcalm-lag schema"
    );
    let mut bare = Vec::new();
    visit("lag", &schema, &mut bare);
    assert_eq!(bare, Vec::<String>::new());
}

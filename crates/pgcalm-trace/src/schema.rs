use pgcalm_testkit::schema::Document;

use crate::{checkpoint, connect, io, locks, why};

#[test]
fn schema_files_match_the_models_and_describe_every_field() {
    // docs/reference/json.md points at the schemas.
    let documents: [Document; 5] = [
        ("trace-checkpoint", schemars::schema_for!(checkpoint::report::Line).to_value()),
        ("trace-locks", schemars::schema_for!(locks::report::Line).to_value()),
        ("trace-why", schemars::schema_for!(why::report::Line).to_value()),
        ("trace-io", schemars::schema_for!(io::report::Line).to_value()),
        ("trace-connect", schemars::schema_for!(connect::report::Line).to_value()),
    ];
    pgcalm_testkit::schema::files_match(env!("CARGO_PKG_NAME"), &documents);
    pgcalm_testkit::schema::every_field_is_described(&documents);
}

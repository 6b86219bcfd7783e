use pgcalm_testkit::schema::Document;

use crate::{isolate, ready_to_stop, report, targets};

#[test]
fn schema_files_match_the_models_and_describe_every_field() {
    // docs/start/diagnose.md points at the schema.
    let documents: [Document; 4] = [
        ("doctor", schemars::schema_for!(report::Report).to_value()),
        ("isolate", schemars::schema_for!(isolate::report::Report).to_value()),
        ("ready-to-stop", schemars::schema_for!(ready_to_stop::Report).to_value()),
        ("targets", schemars::schema_for!(targets::report::Report).to_value()),
    ];
    pgcalm_testkit::schema::files_match(env!("CARGO_PKG_NAME"), &documents);
    pgcalm_testkit::schema::every_field_is_described(&documents);
}

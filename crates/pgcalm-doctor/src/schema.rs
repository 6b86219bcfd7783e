use pgcalm_schema::Document;

use crate::report::Report;

#[test]
fn schema_file_matches_the_model_and_describes_every_field() {
    // docs/start/diagnose.md points at the schema.
    let documents: [Document; 1] = [("doctor", schemars::schema_for!(Report).to_value())];
    pgcalm_schema::files_match(env!("CARGO_PKG_NAME"), &documents);
    pgcalm_schema::every_field_is_described(&documents);
}

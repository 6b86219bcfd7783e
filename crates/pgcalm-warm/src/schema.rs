use pgcalm_testkit::schema::{self, Document};

use crate::report::Report;

#[test]
fn schema_file_matches_the_model_and_describes_every_field() {
    let documents: [Document; 1] = [("warm", schemars::schema_for!(Report).to_value())];
    schema::files_match(env!("CARGO_PKG_NAME"), &documents);
    schema::every_field_is_described(&documents);
}

use pgcalm_testkit::schema::Document;

use crate::model::Line;

#[test]
fn schema_file_matches_the_model_and_describes_every_field() {
    let documents: [Document; 1] = [("lag", schemars::schema_for!(Line).to_value())];
    pgcalm_testkit::schema::files_match(env!("CARGO_PKG_NAME"), &documents);
    pgcalm_testkit::schema::every_field_is_described(&documents);
}

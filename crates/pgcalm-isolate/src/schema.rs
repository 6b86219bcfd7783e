use pgcalm_schema::Document;

use crate::report::Report;

fn documents() -> [Document; 1] {
    [("isolate", schemars::schema_for!(Report).to_value())]
}

#[test]
fn schema_file_matches_the_model() {
    pgcalm_schema::files_match(env!("CARGO_PKG_NAME"), &documents());
}

#[test]
fn the_page_describes_every_field() {
    pgcalm_schema::pages_describe_every_field(&documents());
}

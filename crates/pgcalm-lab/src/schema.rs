use pgcalm_schema::Document;

use crate::archive;
use crate::archive_crash;
use crate::contest;
use crate::guard;
use crate::interference;
use crate::predict;
use crate::replica;
use crate::suite;
use crate::tenants;
use crate::torture;

fn documents() -> [Document; 8] {
    [
        ("report", schemars::schema_for!(contest::report::Report).to_value()),
        ("tenants", schemars::schema_for!(tenants::report::Report).to_value()),
        ("torture", schemars::schema_for!(torture::report::Report).to_value()),
        ("archive", schemars::schema_for!(archive::report::Report).to_value()),
        ("journal", schemars::schema_for!(interference::report::Report).to_value()),
        ("replica", schemars::schema_for!(replica::report::Report).to_value()),
        ("predict", schemars::schema_for!(predict::report::Report).to_value()),
        ("suite", schemars::schema_for!(suite::report::Report).to_value()),
    ]
}

#[test]
fn schema_files_match_the_models() {
    pgcalm_schema::files_match(env!("CARGO_PKG_NAME"), &documents());
}

#[test]
fn documents_describe_every_field() {
    pgcalm_schema::pages_describe_every_field(&documents());
}

/// Their documents have no page: the schema describes them.
#[test]
fn documents_without_a_page_are_described_by_their_schemas() {
    let documents: [Document; 2] = [
        ("archive-crash", schemars::schema_for!(archive_crash::report::Report).to_value()),
        ("guard", schemars::schema_for!(guard::report::Report).to_value()),
    ];
    pgcalm_schema::files_match(env!("CARGO_PKG_NAME"), &documents);
    pgcalm_schema::every_field_is_described(&documents);
}

use pgcalm_testkit::schema::Document;

use crate::{
    archive, archive_crash, contest, guard, interference, predict, replica, suite, tenants, torture, wal_full,
};

#[test]
fn schema_files_match_the_models_and_describe_every_field() {
    let documents: [Document; 11] = [
        ("report", schemars::schema_for!(contest::report::Report).to_value()),
        ("tenants", schemars::schema_for!(tenants::report::Report).to_value()),
        ("torture", schemars::schema_for!(torture::report::Report).to_value()),
        ("archive", schemars::schema_for!(archive::report::Report).to_value()),
        ("archive-crash", schemars::schema_for!(archive_crash::report::Report).to_value()),
        ("guard", schemars::schema_for!(guard::report::Report).to_value()),
        ("wal-full", schemars::schema_for!(wal_full::report::Report).to_value()),
        ("journal", schemars::schema_for!(interference::report::Report).to_value()),
        ("replica", schemars::schema_for!(replica::report::Report).to_value()),
        ("predict", schemars::schema_for!(predict::report::Report).to_value()),
        ("suite", schemars::schema_for!(suite::report::Report).to_value()),
    ];
    pgcalm_testkit::schema::files_match(env!("CARGO_PKG_NAME"), &documents);
    pgcalm_testkit::schema::every_field_is_described(&documents);
}

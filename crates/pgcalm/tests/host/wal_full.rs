//! The rehearsal for real: a slot that nobody reads fills a small WAL volume; stock dies of it, and is up again, and a server with
//! the guard on does not. Needs root; says so and passes otherwise.

use crate::lab_run;

use std::fs;

use pgcalm_lab::document;
use pgcalm_lab::document::Document;
use pgcalm_testkit::programs::bindir;
use pgcalm_testkit::{module_directory, need};

use lab_run::{Dir, Running, lab, leftovers};

#[test]
#[ignore = "takes three minutes: make test-long"]
fn stock_dies_of_a_forgotten_slot_and_a_server_with_the_guard_does_not() {
    if !need::met("the rehearsal of a full WAL volume", &[need::ROOT, need::SERVER, need::MODULE]) {
        return;
    }
    let dir = Dir::new("wal-full");
    let json = dir.0.join("report.json");
    let mut command = lab(&["run", "wal-full", "--kind=slot", "--wal-size=512MB", "--seconds=80"], &dir.0);
    command
        .args(["--rows=500000", "--shared-buffers=256MB"])
        .arg("--pg-bindir")
        .arg(bindir().unwrap())
        .arg("--module-dir")
        .arg(module_directory())
        .arg("--json")
        .arg(&json);
    let (_, last) = Running::start(command).end();
    assert_eq!(leftovers(&dir.0), Vec::<String>::new());
    let text = fs::read_to_string(&json).unwrap_or_else(|error| panic!("{error}: {last}"));
    let Ok(Document::WalFull(report)) = document::read(&text) else { panic!("not a report of a rehearsal: {text}") };
    let [stock, shadow, on] = &report.cases[..] else { panic!("three cases: {:?}", report.cases.len()) };

    // Its own words: no other failure counts as that.
    let failure = stock.run.server_failure.as_ref().unwrap();
    assert!(failure.message.contains("No space left"), "{failure:?}");
    assert!(stock.died_s.is_some_and(|died| died > 0.0) && stock.up_again_s.is_some_and(|up| up > 0.0), "{last}");
    assert_eq!(stock.warning, None);
    assert!(shadow.died_s.is_some(), "in shadow nobody is held: {last}");
    assert!(shadow.warning.is_some_and(|warning| Some(warning.after_s) < shadow.died_s), "{last}");

    assert_eq!((on.died_s, on.refused_s, on.seconds_zero), (None, None, 0), "{last}");
    assert!(on.tps_slowed.is_some_and(|tps| tps < on.tps_before), "{last}");
    assert!(on.full_rate_s.is_some(), "{last}");
}

//! A stop and a crash of a server under load, for real: it comes back from both, and what was told is in the report. Needs root; says so and
//! passes otherwise.

use crate::lab_run;

use std::fs;

use pgcalm_lab::document;
use pgcalm_lab::document::Document;
use pgcalm_lab::stop_start::report::{Contestant, Kind};
use pgcalm_testkit::programs::bindir;
use pgcalm_testkit::{module_directory, need};

use lab_run::{Dir, Running, lab, leftovers};

#[test]
fn a_server_comes_back_from_a_stop_and_a_crash_and_what_was_told_is_reported() {
    if !need::met("stops and crashes under load", &[need::ROOT, need::SERVER, need::MODULE]) {
        return;
    }
    let dir = Dir::new("stop-start");
    let json = dir.0.join("report.json");
    let mut command = lab(&["run", "stop-start", "--stops=1", "--kills=1", "--warm-up=3", "--seconds=3"], &dir.0);
    command
        .args(["--volume=gp3", "--rows=20000", "--clients=2", "--wal-size=512MB", "--shared-buffers=32MB"])
        .args(["--contestants=stock,pg_calm", "--ready-to-stop"])
        .arg("--pg-bindir")
        .arg(bindir().unwrap())
        .arg("--module-dir")
        .arg(module_directory())
        .arg("--json")
        .arg(&json);
    let (status, last) = Running::start(command).end();
    assert_eq!((status.code(), leftovers(&dir.0)), (Some(0), Vec::new()), "{last}");
    let text = fs::read_to_string(&json).unwrap_or_else(|error| panic!("{error}: {last}"));
    let Ok(Document::StopStart(report)) = document::read(&text) else { panic!("not a report of stops: {text}") };
    let [stock, calm] = &report.contestants[..] else { panic!("two contestants: {text}") };
    for contestant in [stock, calm] {
        assert!(contestant.tps > 0.0, "{text}");
        let round = |kind| contestant.rounds.iter().find(|round| round.kind == kind).unwrap();
        let (stop, kill) = (round(Kind::Stop), round(Kind::Kill));
        assert!(stop.took_s > 0.0 && stop.start_s.is_some() && stop.redo_s.is_none(), "{stop:?}");
        // A volume with limits, and pg_buffercache: each dirty page is an operation.
        assert_eq!(stop.without_module.as_ref().unwrap().basis, "from caps", "{stop:?}");
        assert!(stop.ready.as_ref().is_some_and(|ready| ready.ready && ready.said_s <= 10.0), "{stop:?}");
        // It was killed with WAL to replay.
        assert!(kill.redo_s.is_some() && kill.start_s.is_none() && kill.ready.is_none(), "{kill:?}");
        // Nobody has seen a recovery yet.
        assert!(kill.told.as_ref().is_some_and(|told| told.basis == "range" && told.seconds > 0.0), "{kill:?}");
    }
    let basis = |contestant: &Contestant| {
        contestant.rounds.iter().find(|round| round.kind == Kind::Stop).unwrap().told.clone().unwrap().basis
    };
    assert_eq!((basis(stock).as_str(), basis(calm).as_str()), ("from caps", "measured"), "{text}");
    // All have the same rounds.
    let kinds = |contestant: &Contestant| contestant.rounds.iter().map(|round| round.kind).collect::<Vec<_>>();
    assert_eq!(kinds(stock), kinds(calm));
}

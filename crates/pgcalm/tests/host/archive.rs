//! The scenario archive on a small backlog, for real: loop devices, caps, PostgreSQL, a power cut. Needs root; says so and
//! passes otherwise.

use crate::lab_run;

use std::fs;
use std::process::Command;

use pgcalm_host::{HostRoot, block_device};
use pgcalm_testkit::need;
use serde_json::Value;

use lab_run::{Dir, lab, patiently, words};

#[test]
fn a_power_cut_tells_an_archiver_that_syncs_from_one_that_does_not() {
    if !need::met("archiving", &[need::ROOT, need::ANY_SERVER]) {
        return;
    }
    let dir = Dir::new("archive");
    let json = dir.0.join("report.json");
    let html = dir.0.join("report.html");
    let arguments = words("run archive --archivers cp,cp-sync --files 6 --segment-size 1MB --seconds 5 --clients 2");
    let mut command = lab(&arguments, &dir.0);
    command.arg("--json").arg(&json).arg("--html").arg(&html);
    let output = patiently(&mut command);
    assert!(output.status.success(), "{output:?}");

    let report: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    let run = |index: usize| &report["archivers"][index]["runs"][0];
    for index in [0, 1] {
        assert_eq!(run(index)["alone"]["files"], 6);
        assert_eq!(run(index)["alone"]["mib"], 6.0);
        assert!(run(index)["loaded"]["tps"].as_f64().unwrap() > 0.0);
        // All parts of the backlog: 6 alone, 6 beside pgbench, 6 up to the power cut.
        assert_eq!(run(index)["crash"]["acknowledged"], 18);
    }
    let losses = |index: usize| {
        let crash = &run(index)["crash"];
        crash["missing"].as_u64().unwrap() + crash["different"].as_u64().unwrap()
    };
    assert!(losses(0) > 0, "{}", run(0)["crash"]);
    assert_eq!(losses(1), 0, "{}", run(1)["crash"]);
    // The copy and its directory, and what the server does to acknowledge; the power cut can come before the last sync of the six files'.
    let syncs = |index: usize| run(index)["crash"]["syncs_per_file"].as_f64().unwrap();
    assert!((syncs(1) - syncs(0) - 2.0).abs() < 1.5 / 6.0, "{} {}", syncs(0), syncs(1));
    assert!(fs::read_to_string(&html).unwrap().contains("cp-sync"));

    let text = Command::new(env!("CARGO_BIN_EXE_pgcalm")).args(["lab", "report"]).arg(&json).output().unwrap();
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("lossy"), "{text}");
    assert!(text.contains("cp lost what it had acknowledged"), "{text}");

    let left: Vec<_> = block_device::loop_devices(&HostRoot::default())
        .unwrap()
        .into_iter()
        .filter(|device| device.backing_file.starts_with(&dir.0))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

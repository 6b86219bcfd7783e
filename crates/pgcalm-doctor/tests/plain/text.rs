//! What isolate says, for a terminal.

use pgcalm_doctor::isolate::report::{Hazard, Report, Step, text};
use pgcalm_host::Known;

fn report(verb: &str) -> Report {
    Report {
        verb: verb.into(),
        cgroup_version: Known::Is(Some("v1".into())),
        instances: Vec::new(),
        hidden_processes: 0,
        hazards: Vec::new(),
        steps: Vec::new(),
        applied: false,
        permanent: Vec::new(),
        notes: Vec::new(),
    }
}

#[test]
fn a_plan_is_not_mistaken_for_what_was_done() {
    let mut plan = report("set");
    plan.steps = vec![Step { action: "move".into(), path: "/cg/a/cgroup.procs".into(), value: Some("70".into()) }];
    let text = text::render(&plan);
    assert!(text.contains("move process 70 to /cg/a/cgroup.procs"), "{text}");
    assert!(text.contains("Nothing was changed: --apply"), "{text}");
    plan.applied = true;
    let text = text::render(&plan);
    assert!(text.contains("moved process 70"), "{text}");
    assert!(text.contains("Done, 1 change."), "{text}");
}

#[test]
fn names_of_other_users_cannot_steer_the_terminal() {
    let mut check = report("check");
    assert!(text::render(&check).contains("No server was found on this host, so nothing was checked"));
    check.hidden_processes = 2;
    assert!(text::render(&check).contains("No server could be looked at, so nothing was checked"));
    check.hazards = vec![Hazard {
        name: "shared-journal".into(),
        instances: vec!["/srv/\u{1b}[2J".into()],
        evidence: vec!["seen".into()],
        cure: "cure".into(),
    }];
    let text = text::render(&check);
    assert!(!text.contains('\u{1b}'), "{text}");
    assert!(text.contains("Hazards: 1"), "{text}");
    assert!(text.contains("run it as root on the host"), "{text}");
}

//! What doctor says, for a terminal.

use pgcalm_doctor::report::{Change, Finding, Report, Severity, Target, Unanswered, text};

fn report(action: &str) -> Report {
    Report { action: action.into(), clear: vec!["a".into(), "b".into()], ..Report::default() }
}

#[test]
fn a_finding_has_all_that_a_reader_needs_and_its_commands_stay_whole() {
    let mut report = report("check");
    let command = format!("ALTER SYSTEM SET x = '{}';", "long ".repeat(40));
    report.findings = vec![Finding {
        rule: "slot-lost".into(),
        severity: Severity::Outage,
        problem: "It goes.".into(),
        evidence: vec!["slot \u{1b}[2J".into(), "word ".repeat(40)],
        cure: "Do this.".into(),
        effect: "Then that.".into(),
        commands: vec![command.clone()],
        reversible: false,
        changes: Vec::new(),
    }];
    let text = text::render(&report);
    assert!(text.starts_with("1. outage: It goes. [slot-lost]\n"), "{text}");
    assert!(text.contains("   cure:   Do this.\n   effect: Then that.\n"));
    assert!(text.lines().any(|line| line.trim() == command), "{text}");
    // Further lines of evidence stand below its text.
    assert!(text.contains("\n           word"), "{text}");
    assert!(!text.contains('\u{1b}') && !text.contains("--apply"));
    assert!(text.ends_with("Found: outage 1; 2 rules clear, 0 not judged.\n"), "{text}");
}

#[test]
fn where_documents_are_is_told_once_if_any_is_named() {
    let finding = |effect: &str| Finding {
        rule: "slot-lost".into(),
        severity: Severity::Outage,
        problem: "It goes.".into(),
        evidence: Vec::new(),
        cure: "Do this.".into(),
        effect: effect.into(),
        commands: Vec::new(),
        reversible: false,
        changes: Vec::new(),
    };
    let mut report = report("check");
    report.findings = vec![finding("Then that.")];
    assert!(!text::render(&report).contains("/usr/share/doc"));
    report.findings = vec![finding("As docs/glossary.md has it."), finding("As docs/start/fit.md has it.")];
    let text = text::render(&report);
    assert_eq!(text.matches("docs/... is in /usr/share/doc/pgcalm").count(), 1, "{text}");
}

#[test]
fn rules_that_lack_the_same_thing_are_named_together_and_whole() {
    let mut report = report("check");
    report.unanswered = ["with-a-long-name"; 12]
        .iter()
        .enumerate()
        .map(|(number, name)| Unanswered { rule: format!("{name}-{number}"), why: "no connection".into() })
        .collect();
    let text = text::render(&report);
    assert_eq!(text.matches("no connection").count(), 1);
    for unanswered in &report.unanswered {
        assert!(text.contains(&unanswered.rule), "{text}");
    }
    assert!(text.contains("Nothing found; 2 rules clear, 12 not judged."));
}

#[test]
fn a_diff_shows_what_goes_and_what_comes() {
    let mut report = report("undo");
    report.changes = vec![
        Change {
            target: Target::Kernel,
            name: "/proc/sys/vm/dirty_ratio".into(),
            from: Some("60".into()),
            to: Some("20".into()),
        },
        Change { target: Target::Setting, name: "fsync".into(), from: Some("on".into()), to: None },
    ];
    report.applied = true;
    let text = text::render(&report);
    assert!(text.contains("/proc/sys/vm/dirty_ratio\n-60\n+20\n"), "{text}");
    assert!(text.contains("fsync (ALTER SYSTEM)\n-on\n+(taken out"), "{text}");
    assert!(text.ends_with("Done, 2 changes.\n"));
    report.applied = false;
    assert!(text::render(&report).ends_with("Nothing was changed: --apply makes these changes.\n"));
}

use pgcalm_trace::report::Missing;
use pgcalm_trace::report::file_kind::FileKind;
use pgcalm_trace::why::report::{Cause as Why, KernelThread, LongSyscall, Samples, Share, Stack, Totals};

use super::list::Incidents;
use super::{card, list};
use crate::incident::{Cause, Cure, Evidence, Incident, Moment, Stuck, Verdict};

fn stuck(caller: &str, seconds: f64) -> Stuck {
    Stuck {
        process: "checkpointer".to_string(),
        stack: vec!["jbd2_log_wait_commit".to_string(), caller.to_string()],
        seconds,
        function: "jbd2_log_wait_commit".to_string(),
        waits_for: Some("ext4 journal (jbd2)".to_string()),
    }
}

fn samples() -> Samples {
    let through = Some("WALWrite".to_string());
    let frames = vec!["io_schedule".to_string(), "ext4_sync_file".to_string()];
    let file = FileKind::Wal;
    let share = Share { cause: Why::WalWrite, file, object: None, through, seconds: 5.0, share: 0.5 };
    Samples {
        totals: Totals { seconds: 3, lost_s: 10.0, shares: vec![share], ..Totals::default() },
        stacks: vec![Stack {
            role: "walwriter".to_string(),
            seconds: 2.5,
            syscall: Some("fdatasync".to_string()),
            file,
            cause: Why::WalWrite,
            frames: frames.clone(),
        }],
        kernel_threads: vec![KernelThread { name: "jbd2/sda-8".to_string(), frames }],
        long_syscalls: vec![LongSyscall { pid: 77, syscall: "futex".to_string(), file, seconds: 2.0, under_way: true }],
        missing: Vec::new(),
    }
}

/// Ten seconds of which four are bad, one of them without a sample.
fn incident() -> Incident {
    let begin = 1_795_748_000_000;
    let moment = |second: u64| Moment {
        time_ms: begin + second * 1000,
        bad: (3..7).contains(&second),
        commits: Some(if (3..7).contains(&second) { 0.0 } else { 100.0 }),
        data_operations: Some(50.0),
        ..Moment::default()
    };
    Incident {
        pgcalm: "0".to_string(),
        id: Some(7),
        server: "5432".to_string(),
        data_directory: Some("/srv/<data>".to_string()),
        server_version: None,
        started_ms: begin + 3000,
        ended_ms: begin + 6000,
        seconds: 4.0,
        ended_by: None,
        usual_commits_per_second: Some(100.0),
        worst_commits_per_second: Some(0.0),
        lost_commits: 400.0,
        held_sessions: 8,
        longest_wait_seconds: 4.0,
        cause: Cause::CheckpointSync,
        sentence: "A checkpoint synced its files.".to_string(),
        chain: vec!["checkpoint".to_string(), "disk".to_string()],
        evidence: vec![Evidence { what: "operations".to_string(), during: "9".to_string(), before: "1".to_string() }],
        also: vec![Verdict { cause: Cause::LockPileUp, sentence: "Locks.".to_string(), evidence: Vec::new() }],
        waits: Vec::new(),
        blocked: Vec::new(),
        stuck: vec![stuck("ext4_sync_file", 8.0), stuck("ext4_create", 6.0)],
        samples: Some(samples()),
        changes: Vec::new(),
        cure: Cure {
            rule: Some("max-wal-size".to_string()),
            text: "Do it.".to_string(),
            command: "sudo x".to_string(),
        },
        timeline: (0..10).filter(|second| *second != 5).map(moment).collect(),
    }
}

#[test]
fn the_card_says_what_when_whom_why_the_proof_and_the_cure() {
    let document = card::document(&incident());
    let text = document.text();
    for part in [
        "Instance 5432 stalled for 4 s",
        "fsync of a checkpoint",
        "At the same time: Locks.",
        "checkpoint → disk.",
        "commits    ███▁▁·▁███",
        "stalled    ---^^-^---",
        "\n    sudo x\n",
        "its rule max-wal-size",
        "In 3 seconds that were sampled, backends lost 10",
        "behind WALWrite",
        "walwriter in fdatasync on WAL",
        "io_schedule < ext4_sync_file",
        "jbd2/sda-8 sleeps",
        "pid 77 is in futex",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let slept = text.lines().find(|line| line.contains("checkpointer")).unwrap();
    assert!(slept.contains("14") && slept.contains("ext4 journal (jbd2)"), "{slept}");
    let html = document.html();
    for part in [
        "<pre><code>sudo x</code></pre>",
        "jbd2/sda-8 sleeps",
        "behind WALWrite",
        "<h1>Instance 5432 stalled",
        "/srv/&lt;data&gt;",
        "usual: 100",
        "the stall begins at second 3",
    ] {
        assert!(html.contains(part), "{part}\n{html}");
    }
    // One file: nothing is loaded, nothing runs.
    assert!(!html.contains("<script") && !html.contains("src=") && !html.contains("href="), "{html}");
}

#[test]
fn what_comes_at_once_after_a_stall_does_not_hide_it() {
    let mut incident = incident();
    incident.timeline.last_mut().unwrap().commits = Some(5000.0);
    incident.evidence[0].before.clear();
    let html = card::document(&incident).html();
    assert!(html.contains("Cut at 200: what had waited came at once.") && !html.contains(">5000<"), "{html}");
    assert!(html.contains("<td class=\"text\">–</td>"), "{html}");
}

#[test]
fn a_card_says_why_nothing_was_sampled() {
    let of = |samples| card::document(&Incident { samples: Some(samples), ..incident() }).text();
    let missing = vec![Missing { answer: "who".to_string(), reason: "no root".to_string() }];
    assert!(of(Samples { missing, ..Samples::default() }).contains("Missing: who: no root"));
    assert!(of(Samples::default()).contains("over before samples"));
}

#[test]
fn a_list_whose_numbers_are_not_in_order_says_why() {
    let told = |ids: &[u64]| {
        let begun = |(at, id): (usize, &u64)| Incident {
            id: Some(*id),
            started_ms: incident().started_ms + 60_000 * at as u64,
            ..incident()
        };
        let incidents = ids.iter().enumerate().map(begun).collect();
        let all = Incidents { pgcalm: "0".to_string(), since_ms: None, incidents };
        list::text(&all, None).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let why = "numbers in the order in which stalls were told";
    assert!(!told(&[1, 2, 7]).contains(why), "{}", told(&[1, 2, 7]));
    assert!(told(&[1, 5, 6, 2]).contains(why), "{}", told(&[1, 5, 6, 2]));
}

#[test]
fn every_cause_has_words_and_a_name() {
    let mut words = Vec::new();
    for cause in crate::verdict::RULES.iter().map(|rule| rule.cause).chain([Cause::Unknown]) {
        assert!(!cause.name().is_empty());
        assert!(!words.contains(&card::words(cause)), "{cause:?}");
        words.push(card::words(cause));
    }
    let unknown = card::document(&Incident { cause: Cause::Unknown, ..incident() }).text();
    assert!(unknown.contains("cause unknown") && !unknown.contains("The cure"), "{unknown}");
}

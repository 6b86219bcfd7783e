//! What sessions do to each other: locks, logins, temporary files; or that there are none.

use pgcalm_monitor::model::WaitCause;
use pgcalm_render::number::{bytes, short};

use super::Found;
use super::evidence::{data, disk_evidence, evidence, shares, waits_evidence};
use super::window::{LOCK_SHARE, Window};
use crate::second::{Answer, Second};

pub(super) fn server_restarted(window: &Window) -> Option<Found> {
    let closed = window.share(|second| second.answer == Answer::Closed);
    (closed >= 0.5).then(|| {
        let rows = vec![shares("seconds in which the server took no session", closed, 0.0)];
        ("The server took no session of anybody: it was stopping, starting or recovering.".to_string(), rows)
    })
}

pub(super) fn lock_pile_up(window: &Window) -> Option<Found> {
    let most = window.most(WaitCause::Lock);
    if window.waiting(&[WaitCause::Lock]) < LOCK_SHARE || most < 2 {
        return None;
    }
    let head = window.head_of_lock_queue().map_or(String::new(), |head| {
        let state = if head.by_state.is_empty() { "unknown" } else { &head.by_state };
        match head.by {
            0 => " The queue stood behind a prepared transaction: pg_prepared_xacts has it.".to_string(),
            by => format!(" The queue stood behind process {by}, whose state was: {state}."),
        }
    });
    let rows = vec![
        waits_evidence(window, &[WaitCause::Lock], "locks of rows and tables"),
        evidence("sessions that waited for a lock, most", most.to_string(), String::new()),
    ];
    Some((format!("Up to {most} sessions waited for locks that others held.{head}"), rows))
}

pub(super) fn lwlock_convoy(window: &Window) -> Option<Found> {
    let causes = [WaitCause::LightweightLock];
    (window.waiting(&causes) >= 0.4 && window.most(WaitCause::LightweightLock) >= 2).then(|| {
        let events = window.during.iter().flat_map(|second| &second.events);
        let lock = events.filter(|(event, _)| event.starts_with("LWLock:")).max_by_key(|(_, sessions)| *sessions);
        let lock = lock.map_or("a lock", |(event, _)| event.trim_start_matches("LWLock:"));
        (
            format!("Sessions queued for the server's lightweight lock {lock}."),
            vec![waits_evidence(window, &causes, "lightweight locks")],
        )
    })
}

pub(super) fn connection_storm(window: &Window) -> Option<Found> {
    let (logins, _) = window.means(|second| Some(second.logins));
    let most = window.during.iter().map(|second| second.logins).fold(0.0, f64::max);
    let (connections, before) = window.means(|second| Some(second.connections as f64));
    let limit = window.during.iter().map(|second| second.max_connections).max().unwrap_or(0) as f64;
    let storm = most >= 20.0 && logins >= 5.0 * (window.usual.logins + 1.0);
    let full = limit > 0.0 && connections >= 0.95 * limit && connections >= 1.2 * before;
    (storm || full).then(|| {
        (
            format!("Clients came all at once: up to {} new sessions per second.", short(most)),
            vec![
                evidence("sessions begun per second", short(logins), short(window.usual.logins)),
                evidence("connections", format!("{} of {}", short(connections), short(limit)), short(before)),
            ],
        )
    })
}

pub(super) fn temporary_files(window: &Window) -> Option<Found> {
    let spilling = |second: &Second| {
        let events = second.events.iter().filter(|(event, _)| event.to_ascii_lowercase().starts_with("io:buffile"));
        events.map(|(_, sessions)| *sessions).sum::<u64>()
    };
    let spills = window.share(|second| spilling(second) > 0);
    let (written, before) = window.means(|second| Some(second.temporary_bytes));
    let by_bytes = written >= f64::from(20 << 20) && written >= 5.0 * before;
    ((spills >= 0.3 || by_bytes) && (window.is_full(data) >= 0.3 || window.waiting_for_io() >= 0.3)).then(|| {
        let mut rows = vec![shares("seconds in which a session read or wrote temporary files", spills, 0.0)];
        rows.push(evidence("bytes of temporary files per second", bytes(written), bytes(before)));
        rows.extend(disk_evidence(window, data));
        ("Statements spilled into temporary files, and these took the disk.".to_string(), rows)
    })
}

//! The disk itself and its file system: it hangs, has as much as it takes, or its journal is held up.

use pgcalm_monitor::model::WaitCause;
use pgcalm_render::number::short;

use super::Found;
use super::evidence::{data, disk_evidence, name, shares, wal};
use super::window::Window;
use crate::second::{Answer, Disk, Second};
use crate::stuck::Place;

pub(super) fn volume_hung(window: &Window) -> Option<Found> {
    use WaitCause::{DataIo, DataSync, OtherIo, Wal, WalLock};
    let is_idle = |disk: &Disk| disk.reads + disk.writes < 1.0;
    type Of = fn(&Second) -> Option<&Disk>;
    let disks: [(Of, &[WaitCause]); 2] = [(data, &[DataIo, DataSync, OtherIo]), (wal, &[Wal, WalLock])];
    for (of, waits) in disks {
        // One that nothing is asked of does nothing, either: sessions wait for it, or, where the server tells nothing, none of its
        // disks does anything and somebody sleeps in the kernel. Nobody does in a server that a signal has stopped.
        let held = |second: &Second| match second.answer {
            Answer::Hung(_) => !window.stuck.is_empty() && second.disks().all(is_idle),
            _ => waits.iter().any(|cause| second.waiting(*cause) > 0),
        };
        let hangs = window.share(|second| of(second).is_some_and(|disk| disk.hangs() || is_idle(disk) && held(second)));
        let (_, before) = window.means(|second| of(second).map(|disk| disk.reads + disk.writes));
        let seconds = hangs * window.during.len() as f64;
        if hangs >= 0.5 && seconds >= 2.0 && before >= 5.0 {
            let name = name(window.disk(of));
            return Some((
                format!(
                    "The volume {name} did nothing at all for {} s: no read and no write was completed.",
                    short(seconds)
                ),
                disk_evidence(window, of),
            ));
        }
    }
    None
}

pub(super) fn device_at_cap(window: &Window) -> Option<Found> {
    let of = [data, wal].into_iter().find(|of| window.is_full(*of) >= 0.5)?;
    let cut = window.cut(of);
    (cut.is_some() || window.waiting_for_io() >= 0.3).then(|| {
        let disk = window.disk(of);
        let cap = disk.filter(|disk| disk.is_at_cap()).and_then(|disk| disk.cap.as_ref());
        let disk = name(disk);
        let sentence = match cap {
            Some(cap) => {
                let limit =
                    format!("{} are limited to {} per second ({})", cap.what, cap.amount(cap.allowed), cap.source);
                let less = cut.map_or(String::new(), |(_, before)| {
                    format!(", which is less than the {} before the stall", cap.amount(before))
                });
                format!("{disk} was at its cap: {limit}{less}, and sessions waited for it.")
            }
            None => format!("{disk} had as much to do as it can, and sessions waited for it."),
        };
        (sentence, disk_evidence(window, of))
    })
}

pub(super) fn journal(window: &Window) -> Option<Found> {
    let stuck = window.stuck_at(Place::Journal);
    (stuck >= 0.4).then(|| {
        let neighbours: Vec<String> = window.during.iter().flat_map(|second| second.neighbours.clone()).collect();
        let whose = match neighbours.first() {
            Some(neighbour) => format!(", which instance {neighbour} has on the same disk"),
            None => String::new(),
        };
        (
            format!("Processes waited for the journal of their file system{whose}: one that is held up holds up all."),
            vec![shares("stuck processes' time in the journal", stuck, 0.0)],
        )
    })
}

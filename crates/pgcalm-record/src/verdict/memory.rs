//! Memory and the page cache: none left, pages not there, too many to be written.

use pgcalm_monitor::model::{CheckpointPhase, WaitCause};
use pgcalm_render::number::{bytes, short};

use super::Found;
use super::evidence::{data, disk_evidence, evidence, name, shares};
use super::window::Window;
use crate::baseline::median;
use crate::second::Second;
use crate::stuck::Place;

pub(super) fn memory_reclaim(window: &Window) -> Option<Found> {
    let of_group = |second: &Second| second.group.and_then(|group| group.pressure);
    let pressure = |second: &Second| of_group(second).or(second.pressure);
    let (full, full_before) = window.means(|second| pressure(second).map(|pressure| pressure.memory_full));
    let (some, some_before) = window.means(|second| pressure(second).map(|pressure| pressure.memory_some));
    let (hits, hits_before) = window.means(|second| second.group.and_then(|group| group.memory_limit_hits_per_second));
    let stuck = window.stuck_at(Place::Reclaim);
    let pressed = (full >= 0.05 && full >= 3.0 * full_before) || (some >= 0.2 && some >= 3.0 * some_before);
    // The host's pressure may be another group's alone.
    let by_pressure = pressed && (stuck > 0.0 || window.share(|second| of_group(second).is_some()) >= 0.5);
    let by_limit = hits >= 50.0 && hits >= 3.0 * hits_before && (stuck > 0.0 || some >= 0.05);
    let is_short = by_pressure || by_limit || stuck >= 0.3;
    (is_short && !window.waits_for_idle_session()).then(|| {
        let mut rows = vec![shares("time in which tasks waited for memory", some, some_before)];
        if hits > 0.0 {
            rows.push(evidence("times per second that memory stood at its limit", short(hits), short(hits_before)));
        }
        ("Memory ran out: processes had to wait until the kernel had reclaimed some.".to_string(), rows)
    })
}

pub(super) fn cold_cache(window: &Window) -> Option<Found> {
    let reads = window.share(|second| {
        let most = second.events.iter().filter(|(event, _)| event != "cpu").max_by_key(|(_, sessions)| *sessions);
        most.is_some_and(|(event, _)| event.eq_ignore_ascii_case("IO:DataFileRead") || event.starts_with("IO:Aio"))
    });
    let (blocks, before) = window.means(|second| Some(second.blocks_read));
    let young = window.share(|second| second.uptime.is_some_and(|uptime| uptime < 900.0));
    let more = blocks >= 2.0 * before && blocks >= 100.0 || young >= 0.5;
    (reads >= 0.5 && more && window.waiting(&[WaitCause::DataIo]) >= 0.4).then(|| {
        let mut rows = vec![evidence("blocks read per second", short(blocks), short(before))];
        rows.extend(disk_evidence(window, data));
        let why = if young >= 0.5 { "the server had just been started" } else { "they were not cached" };
        (format!("Statements waited for pages to be read from {}: {why}.", name(window.disk(data))), rows)
    })
}

pub(super) fn dirty_limit(window: &Window) -> Option<Found> {
    // Writers are slowed down from halfway between both thresholds on (mm/page-writeback.c, dirty_freerun_ceiling()).
    let ceiling = |second: &Second| {
        let memory = &second.memory;
        Some((memory.background_threshold_bytes? + memory.dirty_threshold_bytes?) as f64 / 2.0)
    };
    let dirty = |second: &Second| (second.memory.dirty_bytes + second.memory.writeback_bytes) as f64;
    let above =
        window.share(|second| ceiling(second).is_some_and(|ceiling| ceiling > 0.0 && dirty(second) >= 0.9 * ceiling));
    let slowed = window.stuck_at(Place::DirtyLimit);
    // Who writes the same file waits for its lock behind one that is slowed down (fs/ext4/file.c, ext4_buffered_write_iter).
    let is_writing = |frame: &String| frame.contains("buffered_write");
    let behind = window.stuck_where(|stack| stack.first().is_some_and(is_writing));
    let stuck = if slowed > 0.0 { slowed + behind } else { 0.0 };
    (stuck >= 0.3 || above >= 0.5 && window.is_full(data) >= 0.3).then(|| {
        let (during, before) = window.means(|second| Some(dirty(second)));
        let mut rows = vec![evidence("dirty memory of the host", bytes(during), bytes(before))];
        let ceiling = median(window.during.iter().filter_map(|second| ceiling(second)).collect());
        rows.push(evidence("from where on writers are slowed down", bytes(ceiling), String::new()));
        if stuck > 0.0 {
            rows.push(shares("stuck processes' time in balance_dirty_pages(), or behind who is", stuck, 0.0));
        }
        ("Dirty memory had reached the kernel's limit: whoever wrote a page was made to wait.".to_string(), rows)
    })
}

pub(super) fn kernel_flusher(window: &Window) -> Option<Found> {
    let (writeback, before) = window.means(|second| Some(second.memory.writeback_bytes as f64));
    let (written, written_before) = window.means(|second| second.data.as_ref().map(|disk| disk.write_bytes));
    let idle = window.phase(&[CheckpointPhase::Idle, CheckpointPhase::Write]);
    // Scattered pages take operations, not bytes; WAL that grows takes them itself.
    let (writes, writes_before) = window.means(|second| second.data.as_ref().map(|disk| disk.writes));
    let (wal, wal_before) = window.means(|second| Some(second.wal_bytes));
    // What a disk takes in a second is always under way.
    let gathers = writeback >= 3.0 * before + f64::from(4 << 20) && writeback >= written;
    let comes = gathers
        || written >= 3.0 * written_before + f64::from(4 << 20)
        || writes >= 2.0 * writes_before && wal <= 1.5 * wal_before;
    let is_full = window.is_full(data) >= 0.5 && window.cut(data).is_none();
    (idle >= 0.5 && comes && is_full && window.waiting_for_io() >= 0.2).then(|| {
        let mut rows = vec![evidence("page cache being written", bytes(writeback), bytes(before))];
        rows.extend(disk_evidence(window, data));
        (format!("The kernel's flusher wrote dirty pages to {} all at once.", name(window.disk(data))), rows)
    })
}

//! Disks, their caps and what shares them.

use crate::isolate::report as isolate;
use crate::isolate::report::{Journal, Limit, Place};

use crate::facts::{Cap, Disk, Facts};
use crate::rules::found::{Answer, Found, Unknown, when};
use crate::rules::{hazard, read};
use crate::words;

/// `max_share` without a limit.
const WHOLE: u64 = 1_000_000;
/// What is worth setting aside for a disk with a database that writes in bursts: half.
const SET_ASIDE: u64 = WHOLE / 2;
/// A mean over a few seconds that comes this near to a cap has seconds at the cap in it.
const AT_CAP: f64 = 0.9;

/// What helps a disk at its cap where pg_calm is on.
const MORE_THAN_PG_CALM: &str =
    "pg_calm is on. Beyond it: larger shared_buffers, a longer checkpoint_timeout; or a larger volume or limit.";
const NOT_MEASURED: &str = "Fewer operations, or more of them allowed. Not measured here.";

/// Twice what a read of a cloud's volume takes that has nothing else to do.
const READ_LATENCY_US: u64 = 1000;

/// Milliseconds of a volume's operations that may wait in its queue: ten to twenty times what keeps it busy.
const QUEUE_MS: u64 = 10;

/// The kernel's for disks that do not rotate (`VM_READAHEAD_PAGES`, include/linux/pagemap.h).
const USUAL_READ_AHEAD_KIB: u64 = 128;

/// Fewer requests the kernel does not take (`BLKDEV_MIN_RQ`, include/linux/blkdev.h).
const LEAST_REQUESTS: u64 = 4;

/// The kernel keeps a disk's dirty pages below a limit of its own.
pub(super) fn dirty_limit(facts: &Facts) -> Answer {
    let instance = read::instance(facts)?;
    let thresholds = read::dirty_thresholds(facts)?;
    let mut found: Option<Found> = None;
    let mut known = false;
    for disk in &read::host(facts)?.disks {
        let Some(limit) = &disk.dirty_limit else { continue };
        known = true;
        let share = u64::from(limit.max_share);
        // In u128: bytes times a million.
        let bytes = (u128::from(thresholds.limit_bytes) * u128::from(share) / u128::from(WHOLE)) as u64;
        if share == WHOLE || bytes > thresholds.background_bytes {
            continue;
        }
        let evidence = format!(
            "{} ({}): {} = {}, {} of dirty pages at most; the host's background threshold is {}",
            disk.disk.name,
            disk.roles.join(", "),
            limit.file,
            in_unit_of(&limit.file, share),
            words::size(bytes),
            words::size(thresholds.background_bytes)
        );
        let so_far = match found {
            Some(found) => found.and(evidence),
            None => Found::new(evidence),
        };
        let from = Some(in_unit_of(&limit.file, share).to_string());
        found = Some(so_far.write(&limit.file, from, limit.no_limit.clone()));
    }
    let unseen = instance.places.iter().find_map(|p| p.disk.unknown());
    match (found, unseen) {
        (None, Some(why)) => Err(why.clone()),
        (None, None) if !known => Err("/sys/class/bdi has no limits for the server's disks".into()),
        (found, _) => Ok(found),
    }
}

/// pg_calm is on, and little of the kernel's dirty limits is set aside for its disk.
pub(super) fn little_set_aside(facts: &Facts) -> Answer {
    read::server(facts)?;
    if !read::pg_calm_is_on(facts) {
        return Ok(None);
    }
    let disk = read::data_disk(facts)?;
    let Some(limit) = disk.dirty_limit.as_ref().filter(|l| !l.min_file.is_empty()) else {
        return Err("/sys/class/bdi has no limits for the server's data disk".into());
    };
    let thresholds = read::dirty_thresholds(facts)?;
    let (share, most) = (u64::from(limit.min_share), u64::from(limit.max_share));
    when(share < SET_ASIDE / 2 && most > SET_ASIDE, || {
        Found::new(format!(
            "{} ({}): {} = {}; as long as it has written nothing, the kernel's flusher comes at an eighth of {} of dirty pages",
            disk.disk.name,
            disk.roles.join(", "),
            limit.min_file,
            in_unit_of(&limit.min_file, share),
            words::size(thresholds.background_bytes)
        ))
        .write(
            &limit.min_file,
            Some(in_unit_of(&limit.min_file, share).to_string()),
            in_unit_of(&limit.min_file, SET_ASIDE).to_string(),
        )
    })
}

fn in_unit_of(file: &str, share: u64) -> u64 {
    if file.ends_with("_fine") { share } else { share * 100 / WHOLE }
}

/// A disk works at its cap right now.
pub(super) fn at_cap(facts: &Facts) -> Answer {
    let instance = read::instance(facts)?;
    let Some(sample) = &facts.sample else { return Err("rates were not measured: give --duration".into()) };
    let of = |used: &Use| match used.part {
        Some(part) => format!("{} of its cap", words::percent(part, 1.0)),
        None if used.whose.is_empty() => "no known cap".to_string(),
        None => "the limit is a control group's".to_string(),
    };
    let mut found: Option<Found> = None;
    let mut judged = Vec::new();
    for disk in &read::host(facts)?.disks {
        let Some(rates) = read::rates(facts, disk) else { continue };
        let operations = Use::of(
            rates.write_operations_per_second,
            rates.read_operations_per_second,
            (&disk.write_iops, &disk.all_iops),
            rates.group_write_operations_per_second,
        );
        let bytes = Use::of(
            rates.write_bytes_per_second,
            rates.read_bytes_per_second,
            (&disk.write_bandwidth, &disk.all_bandwidth),
            // What a limit on operations holds has not been written.
            rates.group_write_bytes_per_second.map(|group| group.min(rates.write_bytes_per_second)),
        );
        if operations.part.is_some() || bytes.part.is_some() {
            judged.push(&disk.disk);
        }
        if operations.part.unwrap_or(0.0).max(bytes.part.unwrap_or(0.0)) < AT_CAP {
            continue;
        }
        let evidence = format!(
            "{} ({}): {:.0} {}write operations per second{}, {}; {} {}written per second{}, {}; {:.0} s sampled",
            disk.disk.name,
            disk.roles.join(", "),
            operations.rate,
            operations.kinds,
            operations.whose,
            of(&operations),
            words::size(bytes.rate as u64),
            bytes.kinds,
            bytes.whose,
            of(&bytes),
            sample.seconds
        );
        found = Some(match found {
            Some(found) => found.and(evidence),
            None => Found::new(evidence),
        });
    }
    if let Some(found) = found {
        let is_calm = read::pg_calm_is_on(facts);
        return Ok(Some(if is_calm { found.advise(MORE_THAN_PG_CALM, NOT_MEASURED) } else { found }));
    }
    // That none is at its cap is known only if it is of each that the server waits for.
    for place in instance.places.iter().filter(|p| p.role != "log") {
        if let Some(why) = place.disk.unknown() {
            return Err(why.clone());
        }
        let Some(disk) = place.disks().next() else { continue };
        if !place.disks().any(|disk| judged.contains(&disk)) {
            return Err(match sample.uncounted.get(&disk.name) {
                Some(why) => why.clone(),
                None => Unknown::new(format!("{} ({}): {}", disk.name, place.role, why_not_judged(facts, disk)?)),
            });
        }
    }
    Ok(None)
}

/// Why it is not known how much of a disk's cap is used.
fn why_not_judged(facts: &Facts, disk: &isolate::Disk) -> Result<Unknown, Unknown> {
    let known = read::host(facts)?.disks.iter().find(|known| known.disk == *disk);
    let cap = known.and_then(|known| known.write_iops.as_ref().or(known.write_bandwidth.as_ref()));
    Ok(cap.map_or_else(read::no_cap, |cap| {
        Unknown::new(format!("the limit is a control group's, whose counters beside {} can't be read", cap.source))
    }))
}

/// What is used of the cap that is nearest.
struct Use {
    /// Per second.
    rate: f64,
    /// What counts beside writes.
    kinds: &'static str,
    /// Of the cap, if one is known, and what is used of it.
    part: Option<f64>,
    /// Who does that, if it is not all on the disk under a cap of the disk.
    whose: &'static str,
}

impl Use {
    /// Of writes' own cap, or of the one that they share with reads. A control group's is for what the group writes.
    fn of(writes: f64, reads: f64, (own, all): (&Option<Cap>, &Option<Cap>), group: Option<f64>) -> Self {
        let part = |rate: f64, cap: &Cap| rate / cap.value as f64;
        let both = all.as_ref().map(|cap| part(writes + reads, cap));
        let alone = match (own, group) {
            (None, _) => Self { rate: writes, kinds: "", part: None, whose: "" },
            (Some(cap), _) if !cap.is_of_group() => {
                Self { rate: writes, kinds: "", part: Some(part(writes, cap)), whose: "" }
            }
            (Some(cap), Some(group)) => {
                // v1 counts what a group asks for, of which its limit lets no more through.
                let rate = group.min(cap.value as f64);
                Self { rate, kinds: "", part: Some(part(rate, cap)), whose: " by its control group" }
            }
            (Some(_), None) => Self { rate: writes, kinds: "", part: None, whose: " on the whole disk" },
        };
        let shared = Self { rate: writes + reads, kinds: "read and ", part: both, whose: "" };
        // None is less than any part.
        if shared.part > alone.part { shared } else { alone }
    }
}

/// Whether a control group holds the server's writes before they come to the disk's queue, which then is that of others, too. The cap
/// that counts may be the group's by another name, as `pg_calm.iops`.
fn is_held_before(facts: &Facts, disk: &Disk, cap: &Cap) -> Result<bool, Unknown> {
    let holds = |limit: &Limit| limit.in_force && limit.disk == disk.disk && limit.kind.starts_with("write");
    Ok(cap.is_of_group() || read::instance(facts)?.limits.iter().any(holds))
}

/// The block layer lets the kernel's flusher have more writes in flight than a commit can wait for.
pub(super) fn writeback_throttling(facts: &Facts) -> Answer {
    let disk = read::data_disk(facts)?;
    let cap = read::write_iops(facts, disk)?;
    if is_held_before(facts, disk, &cap)? {
        return Ok(None);
    }
    let Some(throttling) = &disk.writeback_throttling else {
        return Err(Unknown::new(format!(
            "{} has no wbt_lat_usec: a kernel without it, a partition, or an I/O scheduler that does the same",
            disk.disk.name
        )));
    };
    let now = throttling.latency_us;
    when(now == 0 || now > READ_LATENCY_US, || {
        Found::new(format!(
            "{}: {} = {now}; it takes {} operations per second ({})",
            disk.disk.name, throttling.file, cap.value, cap.source
        ))
        .write(&throttling.file, Some(now.to_string()), READ_LATENCY_US.to_string())
    })
}

/// A checkpoint's fsync fills the queue of a disk, and commits and reads wait behind all of it.
pub(super) fn queue_is_long(facts: &Facts) -> Answer {
    let disk = read::data_disk(facts)?;
    let cap = read::write_iops(facts, disk)?;
    if is_held_before(facts, disk, &cap)? {
        return Ok(None);
    }
    let Some(queue) = &disk.request_queue else {
        return Err(Unknown::new(format!("{} has no nr_requests: it is no disk of its own", disk.disk.name)));
    };
    let most = (cap.value * QUEUE_MS / 1000).max(LEAST_REQUESTS);
    when(queue.requests > 2 * most, || {
        Found::new(format!(
            "{}: {} = {}, {} ms at {} operations per second ({})",
            disk.disk.name,
            queue.file,
            queue.requests,
            queue.requests * 1000 / cap.value.max(1),
            cap.value,
            cap.source
        ))
        .write(&queue.file, Some(queue.requests.to_string()), most.to_string())
    })
}

/// Whoever reads in sequence fills the queue of a disk, and commits and reads of blocks wait behind all of it.
pub(super) fn read_ahead_is_long(facts: &Facts) -> Answer {
    let disk = read::data_disk(facts)?;
    let Some(cap) = &disk.all_bandwidth else {
        // A cap of writes alone is none of reads.
        return if disk.write_bandwidth.is_some() { Ok(None) } else { Err(read::no_cap()) };
    };
    let Some(ahead) = &disk.read_ahead else {
        return Err(Unknown::new(format!("{}: no file system is mounted from it, but from one above", disk.disk.name)));
    };
    let ms = (ahead.kib << 10) * 1000 / cap.value.max(1);
    when(ahead.kib > USUAL_READ_AHEAD_KIB && ms > QUEUE_MS, || {
        Found::new(format!(
            "{}: {} = {}, {ms} ms at {} per second ({})",
            disk.disk.name,
            ahead.file,
            ahead.kib,
            words::size(cap.value),
            cap.source
        ))
        .write(&ahead.file, Some(ahead.kib.to_string()), USUAL_READ_AHEAD_KIB.to_string())
    })
}

/// WAL and data on one disk with a cap that no control group shows. Whether a disk says that it rotates tells nothing:
/// virtio always does.
pub(super) fn wal_with_data(facts: &Facts) -> Answer {
    let data = read::data_disk(facts)?;
    read::disk_of(facts, "wal")?;
    if hazard::is_there(facts, "wal-on-capped-device")? || !data.roles.iter().any(|role| role == "wal") {
        return Ok(None);
    }
    let caps = [&data.write_iops, &data.write_bandwidth, &data.all_iops, &data.all_bandwidth];
    let cap = caps.into_iter().flatten().next();
    let cap = cap.ok_or_else(read::no_cap)?;
    Ok(Some(Found::new(format!(
        "pg_wal and the data directory are both on {}, which has a cap ({} by {})",
        data.disk.name, cap.value, cap.source
    ))))
}

/// Commits of the file system's journal wait for other files' data.
pub(super) fn commits_wait(facts: &Facts) -> Answer {
    journal(facts, |journal| journal.waits_for_data)
}

/// A crash can leave deleted files' data in blocks of a table.
pub(super) fn shows_unwritten(facts: &Facts) -> Answer {
    journal(facts, |journal| journal.shows_unwritten)
}

/// Data goes through the journal.
pub(super) fn data_journal(facts: &Facts) -> Answer {
    journal(facts, |journal| journal.data_mode.as_deref() == Some("journal"))
}

fn journal(facts: &Facts, is_bad: fn(&Journal) -> bool) -> Answer {
    let places = &read::instance(facts)?.places;
    let bad: Vec<&Place> =
        places.iter().filter(|place| place.role != "log" && place.journal.there().is_some_and(is_bad)).collect();
    let Some(first) = bad.first() else {
        let unknown = places.iter().find_map(|place| place.journal.unknown());
        return unknown.map_or(Ok(None), |why| Err(why.clone()));
    };
    let mut found = Found::default();
    for place in &bad {
        found = found.and(format!(
            "{} is on {} ({}), mounted with {}",
            place.role,
            place.mountpoint,
            place.fs,
            place.mount_options.join(",")
        ));
    }
    Ok(Some(found.run(format!("# in the line of {} in /etc/fstab, then unmount and mount again", first.mountpoint))))
}

/// The cap on operations of the disk of pg_wal.
pub(super) fn wal_iops(facts: &Facts) -> Result<Cap, Unknown> {
    let disk = read::disk_of(facts, "wal")?;
    let disk = disk.ok_or_else(|| Unknown::from("pg_wal is on no block device"))?;
    read::write_iops(facts, disk)
}

/// A checkpoint leaves all that it writes to its fsync calls.
pub(super) fn no_checkpoint_hint(facts: &Facts) -> Answer {
    let server = read::server(facts)?;
    if read::number(server, "checkpoint_flush_after")? > 0.0 || read::pg_calm_is_on(facts) {
        return Ok(None);
    }
    let disk = read::data_disk(facts)?;
    let cap = read::write_iops(facts, disk)?;
    Ok(Some(
        Found::new(format!(
            "checkpoint_flush_after = 0; {} takes {} write operations per second ({})",
            disk.disk.name, cap.value, cap.source
        ))
        .set(server, "checkpoint_flush_after", "256kB"),
    ))
}

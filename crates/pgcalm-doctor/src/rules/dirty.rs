//! The kernel's thresholds for dirty page cache.

use pgcalm_host::vm_sysctl;

use crate::facts::Facts;
use crate::rules::found::{Answer, Found, Unknown, when};
use crate::rules::read;
use crate::words;

/// Kernel's default of vm.dirty_writeback_centisecs (mm/page-writeback.c, `dirty_writeback_interval`).
const WRITEBACK_INTERVAL: u64 = 500;
/// Of vm.dirty_expire_centisecs (`dirty_expire_interval`).
const EXPIRE: u64 = 3000;
/// What the module wants: README, "Kernel settings the module wants".
const CALM_BACKGROUND_RATIO: u64 = 40;
const CALM_RATIO: u64 = 60;
const CALM_EXPIRE: u64 = 30_000;
/// No amount below this is proposed: the sysctl holds for everything that the host writes.
const LEAST_LIMIT: u64 = 128 << 20;

/// The dirty limit admits more scattered pages than the disk writes between checkpoints.
pub(super) fn limit_beyond_checkpoint(facts: &Facts) -> Answer {
    if read::pg_calm_is_on(facts) {
        return Ok(None);
    }
    let disk = read::data_disk(facts)?;
    let iops = read::write_iops(facts, disk)?;
    let server = read::server(facts)?;
    let timeout = read::seconds(server, "checkpoint_timeout")?;
    let slack = (1.0 - read::number(server, "checkpoint_completion_target")?) * timeout;
    let page = read::number(server, "block_size")?;
    let limit = read::dirty_limit(facts)?;
    let mut rate = iops.value as f64 * page;
    if let Some(bandwidth) = read::write_bandwidth(facts, disk) {
        rate = rate.min(bandwidth.value as f64);
    }
    let time = limit as f64 / rate;
    when(time > timeout, || {
        let bytes = ((rate * slack) as u64).max(LEAST_LIMIT) >> 20 << 20;
        Found::new(format!(
            "dirty pages may come to {} before writers wait (vm.dirty_ratio or vm.dirty_bytes); as scattered pages \
             that takes {} on {}, which takes {} write operations per second ({})",
            words::size(limit),
            words::time(time),
            disk.disk.name,
            iops.value,
            iops.source
        ))
        .and(format!("checkpoint_timeout is {}", words::time(timeout)))
        .run(format!("sudo sysctl -w vm.dirty_bytes={bytes} vm.dirty_background_bytes={}", bytes / 2))
    })
}

/// The periodic flusher is off, or comes less often than pages expire.
pub(super) fn writeback_interval(facts: &Facts) -> Answer {
    let interval = read::sysctl(facts, "dirty_writeback_centisecs")?;
    let expire = read::sysctl(facts, "dirty_expire_centisecs")?;
    when(interval == 0 || interval > expire, || {
        set(
            Found::new(format!("vm.dirty_writeback_centisecs = {interval}, vm.dirty_expire_centisecs = {expire}")),
            facts,
            "dirty_writeback_centisecs",
            WRITEBACK_INTERVAL.min(expire.max(1)),
        )
    })
}

/// The background threshold is not below the limit.
pub(super) fn background_over_limit(facts: &Facts) -> Answer {
    let dirtyable = read::dirty_thresholds(facts)?.dirtyable_bytes;
    let amount = |bytes: &str, ratio: &str| -> Result<u64, Unknown> {
        match read::sysctl(facts, bytes)? {
            0 => Ok(dirtyable / 100 * read::sysctl(facts, ratio)?),
            bytes => Ok(bytes),
        }
    };
    let background = amount("dirty_background_bytes", "dirty_background_ratio")?;
    let limit = amount("dirty_bytes", "dirty_ratio")?;
    let (limit_bytes, ratio) = (read::sysctl(facts, "dirty_bytes")?, read::sysctl(facts, "dirty_ratio")?);
    when(background >= limit, || {
        let found =
            Found::new(format!("background threshold {}, limit {}", words::size(background), words::size(limit)));
        match limit_bytes {
            0 => set(found, facts, "dirty_background_ratio", (ratio / 2).max(1)),
            bytes => set(found, facts, "dirty_background_bytes", bytes / 2),
        }
    })
}

/// Pages expire sooner than by default.
pub(super) fn expire_short(facts: &Facts) -> Answer {
    let expire = read::sysctl(facts, "dirty_expire_centisecs")?;
    when(expire < EXPIRE && !read::pg_calm_is_on(facts), || {
        set(Found::new(format!("vm.dirty_expire_centisecs = {expire}")), facts, "dirty_expire_centisecs", EXPIRE)
    })
}

/// The kernel's flusher gets in the way of pg_calm.
pub(super) fn not_for_pg_calm(facts: &Facts) -> Answer {
    let server = read::server(facts)?;
    if server.pg_calm.is_none() || !read::pg_calm_is_on(facts) {
        return Ok(None);
    }
    let thresholds = read::dirty_thresholds(facts)?;
    let expire = read::sysctl(facts, "dirty_expire_centisecs")?;
    let share = |bytes: u64| bytes * 100 / thresholds.dirtyable_bytes.max(1);
    // A ratio of an amount that is not a whole number of percents comes out one lower.
    let background_low = share(thresholds.background_bytes) + 1 < CALM_BACKGROUND_RATIO;
    let limit_low = share(thresholds.limit_bytes) + 1 < CALM_RATIO;
    when(background_low || limit_low || expire < CALM_EXPIRE, || {
        let mut found = Found::new(format!(
            "pg_calm is on; the kernel's flusher starts at {} and writers wait at {} of {} of memory that is free or page \
             cache; vm.dirty_expire_centisecs = {expire}",
            words::size(thresholds.background_bytes),
            words::size(thresholds.limit_bytes),
            words::size(thresholds.dirtyable_bytes)
        ));
        if background_low {
            found = set(found, facts, "dirty_background_ratio", CALM_BACKGROUND_RATIO);
        }
        if limit_low {
            found = set(found, facts, "dirty_ratio", CALM_RATIO);
        }
        if expire < CALM_EXPIRE {
            found = set(found, facts, "dirty_expire_centisecs", CALM_EXPIRE);
        }
        found
    })
}

fn set(found: Found, facts: &Facts, name: &str, to: u64) -> Found {
    let from = read::sysctl(facts, name).ok().map(|value| value.to_string());
    found.write(&format!("/{}", vm_sysctl::path(name)), from, to.to_string())
}

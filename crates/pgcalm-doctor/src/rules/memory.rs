//! Memory limits and shared_buffers.

use crate::facts::Facts;
use crate::rules::found::{Answer, Found, when};
use crate::rules::read;
use crate::words;

/// Fewer written buffers than this tell nothing about who writes: 78 MB of 8 kB pages.
const ENOUGH_WRITES: u64 = 10_000;

/// What VACUUM takes at most before PostgreSQL 17, whatever it may (`MaxAllocSize`).
const MOST_OF_VACUUM: u64 = 1 << 30;

/// What the server will touch in any case does not fit.
pub(super) fn too_small(facts: &Facts) -> Answer {
    read::instance(facts)?;
    let host = read::host(facts)?;
    let server = read::server(facts)?;
    let buffers = read::bytes(server, "shared_buffers")?.unwrap_or(0);
    let own = read::bytes(server, "autovacuum_work_mem").ok().flatten();
    let mut vacuum = own.or(read::bytes(server, "maintenance_work_mem")?).unwrap_or(0);
    if server.version_num < 170_000 {
        vacuum = vacuum.min(MOST_OF_VACUUM);
    }
    let workers = read::number(server, "autovacuum_max_workers")? as u64;
    // Huge pages are not charged to a group.
    let charged = if host.huge_pages { 0 } else { buffers };
    let of_group = host.memory_limit.there().map(|limit| (charged, limit.bytes, limit.file.as_str()));
    let of_host = host.memory_bytes.map(|bytes| (buffers, bytes, "/proc/meminfo"));
    let room = |bound: &(u64, u64, &str)| i128::from(bound.1) - i128::from(bound.0);
    let Some((buffers, limit, place)) = of_group.into_iter().chain(of_host).min_by_key(room) else {
        return Err("the host's memory could not be read".into());
    };
    let need = buffers + vacuum * workers;
    if let (true, Err(why)) = (need <= limit, host.memory_limit.as_ref()) {
        return Err(why.clone());
    }
    when(need > limit, || {
        let found = Found::new(format!(
            "shared_buffers of {} and {workers} autovacuum workers with {} each come to {}; there are {} ({place})",
            words::size(buffers),
            words::size(vacuum),
            words::size(need),
            words::size(limit)
        ));
        match limit / 4 {
            quarter if quarter < buffers => found.set(server, "shared_buffers", words::setting_size(quarter)),
            quarter => found.set(server, "autovacuum_work_mem", words::setting_size(quarter / workers.max(1))),
        }
    })
}

/// More pages leave shared_buffers by eviction than by checkpoints, and there is memory for more of them.
pub(super) fn buffers_small(facts: &Facts) -> Answer {
    let server = read::server(facts)?;
    let writes = &server.buffers;
    let all = writes.checkpointer + writes.background_writer + writes.backends;
    let evicted = writes.background_writer + writes.backends;
    if all < ENOUGH_WRITES || evicted * 2 <= all {
        return Ok(None);
    }
    let host = read::host(facts)?;
    let memory = [host.memory_bytes, host.memory_limit.there().map(|limit| limit.bytes)];
    let Some(memory) = memory.into_iter().flatten().min() else {
        return Err("the host's memory could not be read".into());
    };
    let Some(databases) = server.database_bytes else { return Err("the size of the databases is not known".into()) };
    let buffers = read::bytes(server, "shared_buffers")?.unwrap_or(0);
    let target = (memory / 4).min(databases);
    if let (true, Err(why)) = (buffers < target, host.memory_limit.as_ref()) {
        return Err(why.clone());
    }
    let reads = server.blocks_hit + server.blocks_read;
    when(buffers < target, || {
        Found::new(format!(
            "of {all} buffers written, {} were evictions ({} by backends, {} by the background writer); shared_buffers is \
             {}, the databases have {}, the memory {}",
            words::percent(evicted as f64, all as f64),
            writes.backends,
            writes.background_writer,
            words::size(buffers),
            words::size(databases),
            words::size(memory)
        ))
        .and(format!(
            "{} of the blocks asked for were not in shared_buffers",
            words::percent(server.blocks_read as f64, reads.max(1) as f64)
        ))
        .set(server, "shared_buffers", words::setting_size(target))
    })
}

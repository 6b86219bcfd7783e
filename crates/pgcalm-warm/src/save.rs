//! Looking at what is cached, and keeping it.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use pgcalm_host::{Failure, Known, Unknown};

use crate::buffers::Buffers;
use crate::cluster::Cluster;
use crate::report::Saving;
use crate::runs::{self, BLOCK, Run};
use crate::saved::{CachedFile, Saved};
use crate::{buffers, relation_file, residency};

/// Keeps what is cached of `cluster` in `file`. `stop` ends it, and what the file held stays.
pub fn save(mut cluster: Cluster, file: &Path, stop: &dyn Fn() -> bool) -> anyhow::Result<Saving> {
    let found = match &mut cluster.client {
        // Of terabytes of buffers the query may take too long, or too many temporary files: the page cache is worth keeping alone.
        Ok(client) => buffers::read(client)
            .unwrap_or_else(|error| Err(Unknown::new(format!("what shared buffers hold: {error:#}")))),
        Err(why) => Err(why.clone()),
    };
    let (mut known, buffers): (Buffers, Result<(), Unknown>) = match found {
        Ok(buffers) => (buffers, Ok(())),
        Err(why) => (Buffers::new(), Err(why)),
    };
    let (mut page_cache_bytes, mut shared_bytes) = (0, 0);
    let mut saved = Saved {
        system_identifier: cluster.system_identifier,
        time_ms: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64,
        has_buffers: buffers.is_ok(),
        files: Vec::new(),
    };
    let data = &cluster.data;
    relation_file::for_each(data, &mut |path| {
        if stop() {
            return Err(Failure::Interrupted("nothing was saved").into());
        }
        let whole = data.join(path);
        let look = || -> std::io::Result<_> {
            let file = relation_file::open(&whole)?;
            let size = file.metadata()?.len();
            Ok((size, residency::cached(&file, 0..size)?))
        };
        let (size, cached) = match look() {
            // Dropped meanwhile.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            looked => looked.with_context(|| format!("look at {}", whole.display()))?,
        };
        let mut shared = known.remove(path).unwrap_or_default();
        // Extended in shared buffers only.
        shared.retain(|(block, _)| *block < size.div_ceil(BLOCK));
        let bytes = |run: &Run| run.bytes(size).end - run.bytes(size).start;
        page_cache_bytes += runs::of(&cached, &[]).iter().map(bytes).sum::<u64>();
        shared_bytes += shared.len() as u64 * BLOCK;
        let runs = runs::of(&cached, &shared);
        if !runs.is_empty() {
            saved.files.push(CachedFile { path: path.to_string(), size, runs });
        }
        Ok(())
    })?;
    let file_bytes = saved.write(file)?;
    Ok(Saving {
        pgcalm: env!("CARGO_PKG_VERSION").to_string(),
        data_directory: data.display().to_string(),
        system_identifier: cluster.system_identifier.to_string(),
        file: file.display().to_string(),
        file_bytes,
        time_ms: saved.time_ms,
        files: saved.files.len() as u64,
        ranges: saved.runs() as u64,
        cached_bytes: saved.bytes(),
        page_cache_bytes,
        shared_buffers_bytes: Known::from(buffers.map(|()| shared_bytes)),
    })
}

//! Looking at what is cached, and keeping it.

use std::collections::HashMap;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

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
    let mut read_error = None;
    let mut earlier = None;
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
            Ok(looked) => looked,
            // Dropped meanwhile.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            // A bad file keeps nobody from the others, and what was known of it stays.
            Err(error) => {
                read_error.get_or_insert_with(|| format!("look at {}: {error}", whole.display()));
                let earlier = earlier.get_or_insert_with(|| files_of(file, cluster.system_identifier));
                saved.files.extend(earlier.remove(path));
                return Ok(());
            }
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
        read_error,
    })
}

/// What an earlier save has in `file`, by name.
fn files_of(file: &Path, system_identifier: u64) -> HashMap<String, CachedFile> {
    let saved = Saved::read(file).ok().filter(|saved| saved.system_identifier == system_identifier);
    saved.map(|saved| saved.files).unwrap_or_default().into_iter().map(|file| (file.path.clone(), file)).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_that_can_not_be_opened_keeps_what_was_known_of_it_and_nobody_from_the_others() {
        let data = tempfile::tempdir().unwrap();
        for directory in ["global", "base/5", "pg_tblspc"] {
            fs::create_dir_all(data.path().join(directory)).unwrap();
        }
        let [one, other] = ["base/5/1", "base/5/2"].map(|path| data.path().join(path));
        fs::write(&one, [1; BLOCK as usize]).unwrap();
        fs::write(&other, [1; BLOCK as usize]).unwrap();
        let list = data.path().join("list");
        let save = || {
            let client = Err(Unknown::new("it does not run"));
            let saving =
                save(Cluster { data: data.path().to_path_buf(), system_identifier: 7, client }, &list, &|| false);
            (saving.unwrap().read_error, Saved::read(&list).unwrap().files)
        };
        let (read_error, files) = save();
        assert_eq!((read_error, files.len()), (None, 2));
        fs::rename(&one, data.path().join("moved")).unwrap();
        std::os::unix::fs::symlink(data.path().join("moved"), &one).unwrap();
        let (read_error, kept) = save();
        assert!(read_error.is_some_and(|why| why.contains("base/5/1")));
        assert_eq!(kept, files);
    }
}

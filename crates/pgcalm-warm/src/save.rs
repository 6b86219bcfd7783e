//! Looking at what is cached, and keeping it.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use pgcalm_host::{Failure, Known, Unknown};

use crate::buffers::Buffers;
use crate::cluster::Cluster;
use crate::report::Saving;
use crate::rest::files_of;
use crate::runs::{self, BLOCK, PAGE_CACHE, Run};
use crate::saved::{CachedFile, Saved};
use crate::{buffers, relation_file, residency, rest};

/// Seconds after its start in which a server has less in shared buffers than a list that was saved before.
const FILLS: f64 = 900.0;

/// Why the list in `file` is to stay: the server has started `age` seconds ago, and there is one.
pub fn stays(age: f64, file: &Path) -> Option<String> {
    (age < FILLS && Saved::read(file).is_ok()).then(|| {
        format!(
            "nothing saved: the server started less than {:.0} minutes ago, and {} knows more; --file saves all the same",
            FILLS / 60.0,
            file.display()
        )
    })
}

/// Keeps what is cached of `cluster` in `file`, with what it can't tell that the file held: what was in shared buffers where
/// they are not known, what a restore has not read. `stop` ends it, and what the file held stays.
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
    let mut earlier = buffers.is_err().then(|| files_of(file, cluster.system_identifier));
    let rest = rest::of(file, cluster.system_identifier);
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
        let blocks = size.div_ceil(BLOCK);
        shared.retain(|(block, _)| *block < blocks);
        let earlier = earlier.as_ref().filter(|_| buffers.is_err()).and_then(|files| files.get(path));
        let hot = earlier.into_iter().flat_map(|file| &file.runs).filter(|run| run.heat > PAGE_CACHE);
        let unread = rest.get(path).into_iter().flat_map(|file| &file.runs);
        let within = |run: &Run| {
            let end = run.end().min(blocks);
            (run.start < end).then(|| Run { length: end - run.start, ..*run })
        };
        let kept: Vec<Run> = hot.chain(unread).filter_map(within).collect();
        let bytes = |run: &Run| run.bytes(size).end - run.bytes(size).start;
        page_cache_bytes += runs::of(&cached, &[], &[]).iter().map(bytes).sum::<u64>();
        shared_bytes += shared.len() as u64 * BLOCK;
        let runs = runs::of(&cached, &shared, &kept);
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

    /// Of two files of four blocks each, all of which the page cache has.
    #[test]
    fn what_it_can_not_tell_stays_in_the_list() {
        let data = tempfile::tempdir().unwrap();
        for directory in ["global", "base/5", "pg_tblspc"] {
            fs::create_dir_all(data.path().join(directory)).unwrap();
        }
        for path in ["base/5/1", "base/5/2"] {
            fs::write(data.path().join(path), [1; 4 * BLOCK as usize]).unwrap();
        }
        let list = data.path().join("list");
        let run = |start, length, heat| Run { start, length, heat };
        let keep = |runs| {
            let size = 9 * BLOCK;
            let files = vec![CachedFile { path: "base/5/1".to_string(), size, runs }];
            Saved { system_identifier: 7, has_buffers: true, files, ..Saved::default() }.write(&list).unwrap();
        };
        let save = || {
            let client = Err(Unknown::new("it does not run"));
            save(Cluster { data: data.path().to_path_buf(), system_identifier: 7, client }, &list, &|| false).unwrap();
            let mut files = Saved::read(&list).unwrap().files;
            files.sort_by(|a, b| a.path.cmp(&b.path));
            files.into_iter().map(|file| file.runs).collect::<Vec<_>>()
        };
        // Of shared buffers, and beyond what the file has.
        keep(vec![run(1, 2, 5), run(3, 6, 6)]);
        for _ in 0..2 {
            assert_eq!(save(), [vec![run(0, 1, 1), run(1, 2, 5), run(3, 1, 6)], vec![run(0, 4, 1)]]);
        }
        // Of a restore that has not ended, though the list has been replaced.
        keep(vec![run(2, 1, 4)]);
        rest::keep(&list);
        keep(Vec::new());
        assert_eq!(save(), [vec![run(0, 2, 1), run(2, 1, 4), run(3, 1, 1)], vec![run(0, 4, 1)]]);
        keep(Vec::new());
        rest::drop(&list);
        assert_eq!(save(), [vec![run(0, 4, 1)], vec![run(0, 4, 1)]]);
    }

    #[test]
    fn a_server_that_has_just_started_replaces_no_list() {
        let directory = tempfile::tempdir().unwrap();
        let list = directory.path().join("7");
        assert_eq!(stays(1.0, &list), None);
        Saved::default().write(&list).unwrap();
        assert!(stays(FILLS - 1.0, &list).is_some_and(|why| why.contains("15 minutes") && why.contains("--file")));
        assert_eq!(stays(FILLS, &list), None);
    }
}

//! How much of the memory may be filled without pushing out what others use.

use std::path::PathBuf;

use pgcalm_host::memory_room::MemoryRoom;
use pgcalm_host::{HostRoot, memory_room};

/// What is left alone of memory: a share of what is available, for what programs allocate meanwhile.
const SPARE: f64 = 0.05;

/// What there was at the start, of the host and of each group.
#[derive(Debug, Clone)]
pub struct Room {
    root: HostRoot,
    start: Vec<MemoryRoom>,
}

/// What is left, and what bounds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// Bytes.
    pub bytes: u64,
    /// The file with the limit of the group; none for the host's memory.
    pub limit: Option<PathBuf>,
}

impl Room {
    /// Of this process.
    pub fn look(root: &HostRoot) -> pgcalm_host::Result<Self> {
        Ok(Self { root: root.clone(), start: Self::now(root)? })
    }

    /// What may still be read after `read` bytes were, while `already` bytes of what is wanted were there.
    pub fn left(&self, read: u64, already: u64) -> pgcalm_host::Result<Left> {
        Ok(left(&self.start, &Self::now(&self.root)?, read, already))
    }

    fn now(root: &HostRoot) -> pgcalm_host::Result<Vec<MemoryRoom>> {
        memory_room::of_process(root, rustix::process::getpid().as_raw_nonzero().get())
    }
}

/// What was read counts as available itself, so that only the start tells what was there for it. What programs have allocated
/// since then is there no more. What is wanted and was there already is kept, too, though nobody has used it twice: the kernel would
/// give that up first.
fn left(start: &[MemoryRoom], now: &[MemoryRoom], read: u64, already: u64) -> Left {
    let of = |start: &MemoryRoom| {
        let later = now.iter().find(|now| now.limit == start.limit).map_or(start.available, |now| now.available);
        let allocated = start.available.saturating_sub(later);
        let spare = (start.available as f64 * SPARE) as u64;
        let unused = start.available.saturating_sub(start.active_file.max(already));
        Left { bytes: unused.saturating_sub(spare + allocated + read), limit: start.limit.clone() }
    };
    start.iter().map(of).min_by_key(|left| left.bytes).unwrap_or(Left { bytes: u64::MAX, limit: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tightest_counts_and_what_is_in_use_is_left_alone() {
        let room = |available, active_file, limit: Option<&str>| MemoryRoom {
            available,
            active_file,
            limit: limit.map(PathBuf::from),
        };
        let host = room(10_000, 3000, None);
        let bytes = |start: &[MemoryRoom], now: &[MemoryRoom], read| left(start, now, read, 0).bytes;
        let alone = [host.clone()];
        assert_eq!(bytes(&alone, &alone, 0), 6500);
        // Read pages are still available, whether they are in use by now or not.
        assert_eq!(bytes(&alone, &[room(10_000, 6000, None)], 4000), 2500);
        assert_eq!(bytes(&alone, &[room(8000, 3000, None)], 4000), 500);
        assert_eq!(bytes(&alone, &alone, 7000), 0);
        let both = [host, room(4000, 0, Some("/cg/memory.max"))];
        let tight = left(&both, &both, 1000, 0);
        assert_eq!((tight.bytes, tight.limit), (2800, Some("/cg/memory.max".into())));
        // Of a restore before.
        assert_eq!(left(&alone, &alone, 0, 9000).bytes, 500);
        assert_eq!(left(&alone, &alone, 0, 2000).bytes, 6500);
    }
}

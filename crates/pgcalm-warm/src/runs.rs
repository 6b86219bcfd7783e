//! Which blocks of a file are cached, and how hot they are, in runs.

use std::ops::Range;

/// What is told apart within a file: the server's usual block.
pub const BLOCK: u64 = 8192;

/// The page cache has it, shared buffers have not.
pub const PAGE_CACHE: u8 = 1;

/// The hottest: in shared buffers, with the highest `usagecount`.
pub const HOTTEST: u8 = 7;

/// How hot a shared buffer is: it counts more than what the page cache alone has, whatever its `usagecount`, 0 to 5.
pub fn heat_of_buffer(usage_count: u8) -> u8 {
    PAGE_CACHE + 1 + usage_count.min(HOTTEST - PAGE_CACHE - 1)
}

/// Blocks that lie side by side and are equally hot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The first, counted from the beginning of the file.
    pub start: u64,
    /// How many.
    pub length: u64,
    /// From [`PAGE_CACHE`] to [`HOTTEST`].
    pub heat: u8,
}

impl Run {
    /// The block after the last.
    pub fn end(&self) -> u64 {
        self.start + self.length
    }

    /// What its blocks hold within a file of `size` bytes, of which the last block may be a part.
    pub fn bytes(&self, size: u64) -> Range<u64> {
        let at = |block: u64| block.saturating_mul(BLOCK).min(size);
        at(self.start)..at(self.end())
    }
}

/// Runs in their order, of the blocks that the page cache has and of shared buffers, each a block and its heat; with what is
/// kept of earlier ones, where that is hotter.
pub fn of(cached: &[Range<u64>], buffers: &[(u64, u8)], kept: &[Run]) -> Vec<Run> {
    // A file has at most a gigabyte: a byte for each block is little, and leaves no case out.
    let ends = cached.iter().map(|range| range.end).chain(kept.iter().map(Run::end));
    let blocks = ends.chain(buffers.iter().map(|(block, _)| block + 1)).max();
    let mut heats = vec![0; blocks.unwrap_or(0) as usize];
    for range in cached {
        heats[range.start as usize..range.end as usize].fill(PAGE_CACHE);
    }
    for (block, heat) in buffers {
        heats[*block as usize] = *heat;
    }
    for run in kept {
        let blocks = &mut heats[run.start as usize..run.end() as usize];
        blocks.iter_mut().for_each(|heat| *heat = run.heat.max(*heat));
    }
    let mut runs: Vec<Run> = Vec::new();
    for (block, heat) in heats.into_iter().enumerate().filter(|(_, heat)| *heat > 0) {
        let start = block as u64;
        match runs.last_mut() {
            Some(last) if last.end() == start && last.heat == heat => last.length += 1,
            _ => runs.push(Run { start, length: 1, heat }),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_buffers_are_hotter_than_the_page_cache_they_lie_in() {
        let run = |start, length, heat| Run { start, length, heat };
        let (cold, hot) = (heat_of_buffer(0), heat_of_buffer(5));
        assert!(PAGE_CACHE < cold && cold < hot && hot == HOTTEST && heat_of_buffer(200) == HOTTEST);
        assert_eq!(
            of(&[0..4, 6..8], &[(2, hot), (9, cold), (3, hot)], &[]),
            [run(0, 2, 1), run(2, 2, hot), run(6, 2, 1), run(9, 1, cold)]
        );
        assert_eq!(of(&[], &[], &[]), []);
        let kept = [run(1, 2, 3), run(8, 2, 1)];
        let cached = std::slice::from_ref(&(0..2));
        assert_eq!(of(cached, &[(2, hot)], &kept), [run(0, 1, 1), run(1, 1, 3), run(2, 1, hot), run(8, 2, 1)]);
    }

    #[test]
    fn the_last_block_may_be_a_part() {
        let run = Run { start: 1, length: 2, heat: 1 };
        assert_eq!(run.bytes(1 << 30), BLOCK..3 * BLOCK);
        assert_eq!(run.bytes(BLOCK + 5), BLOCK..BLOCK + 5);
        assert!(run.bytes(BLOCK).is_empty() && run.bytes(0).is_empty());
    }
}

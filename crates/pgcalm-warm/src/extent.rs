//! What is read at a time, and in which order: the hottest first, and what is equally hot in the order of the files.

use crate::runs::{BLOCK, HOTTEST, Run};

/// Bytes of a read at most: an operation of any volume, or few, and short enough that somebody else's need not wait long.
pub const LONGEST: u64 = 1 << 20;

/// What an operation is worth in bytes where no cap says: gaps up to this are read along.
pub const WORTH: u64 = 64 << 10;

/// So many degrees of heat are told apart; within one, reads go forward through the files.
const CLASSES: f64 = 8.0;

/// Bytes of one file that are read at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Which file.
    pub file: usize,
    /// Where it begins.
    pub start: u64,
    /// Bytes.
    pub length: u64,
    /// Those of them that were cached.
    pub wanted: u64,
    /// From 8, the hottest, to 1.
    class: u8,
}

/// Bytes that an operation is worth on a volume with these caps: what it could read in the same time.
pub fn worth(operations: Option<f64>, bytes: Option<f64>) -> u64 {
    match (operations, bytes) {
        (Some(operations), Some(bytes)) if operations > 0.0 => {
            ((bytes / operations) as u64).clamp(2 * BLOCK, 4 * WORTH)
        }
        _ => WORTH,
    }
}

/// Extents of the runs of one file that now has `size` bytes.
pub fn of_file(file: usize, size: u64, runs: &[Run], worth: u64, extents: &mut Vec<Extent>) {
    let mut open: Option<(Extent, f64)> = None;
    let mut close = |open: &mut Option<(Extent, f64)>| {
        if let Some((extent, heat)) = open.take() {
            // An operation costs as much as that many bytes, however few it reads.
            let density = heat / extent.length.max(worth) as f64 / f64::from(HOTTEST);
            extents.push(Extent { class: (density * CLASSES).ceil() as u8, ..extent });
        }
    };
    for run in runs {
        let mut rest = run.bytes(size);
        while !rest.is_empty() {
            if let Some((extent, _)) = &open {
                let end = extent.start + extent.length;
                if rest.start > end + worth || rest.start >= extent.start + LONGEST {
                    close(&mut open);
                }
            }
            let (extent, heat) =
                open.get_or_insert((Extent { file, start: rest.start, length: 0, wanted: 0, class: 0 }, 0.0));
            let end = rest.end.min(extent.start + LONGEST);
            extent.length = end - extent.start;
            extent.wanted += end - rest.start;
            *heat += (end - rest.start) as f64 * f64::from(run.heat);
            rest.start = end;
        }
    }
    close(&mut open);
}

/// Puts them into the order in which they are read.
pub fn order(extents: &mut [Extent]) {
    extents.sort_by_key(|extent| (std::cmp::Reverse(extent.class), extent.file, extent.start));
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANY: u64 = LONGEST / BLOCK;

    fn plan(files: &[&[Run]]) -> Vec<(usize, u64, u64, u64)> {
        let mut extents = Vec::new();
        for (file, runs) in files.iter().enumerate() {
            of_file(file, 1 << 30, runs, WORTH, &mut extents);
        }
        order(&mut extents);
        let blocks = |bytes: u64| bytes / BLOCK;
        let tell = |it: &Extent| (it.file, blocks(it.start), blocks(it.length), blocks(it.wanted));
        extents.iter().map(tell).collect()
    }

    fn run(start: u64, length: u64, heat: u8) -> Run {
        Run { start, length, heat }
    }

    #[test]
    fn the_hottest_come_first_and_then_the_files_forward() {
        let cold = run(0, 2 * MANY, 1);
        let hot = run(10 * MANY, MANY, HOTTEST);
        let warm = run(0, MANY, 4);
        assert_eq!(
            plan(&[&[cold, hot], &[warm, run(50 * MANY, MANY, HOTTEST)]]),
            [
                (0, 10 * MANY, MANY, MANY),
                (1, 50 * MANY, MANY, MANY),
                (1, 0, MANY, MANY),
                (0, 0, MANY, MANY),
                (0, MANY, MANY, MANY),
            ]
        );
        // A block alone takes an operation, too: it comes after as many bytes that are less hot.
        assert_eq!(plan(&[&[run(0, 1, HOTTEST), run(MANY, MANY, 2)]])[0], (0, MANY, MANY, MANY));
    }

    #[test]
    fn a_gap_is_read_along_where_an_operation_would_cost_more() {
        let gap = WORTH / BLOCK;
        assert_eq!(plan(&[&[run(0, 2, 1), run(2 + gap, 2, 3)]]), [(0, 0, 4 + gap, 4)]);
        assert_eq!(plan(&[&[run(0, 2, 1), run(3 + gap, 2, 1)]]).len(), 2);
        let volume = worth(Some(150.0), Some(22e6));
        assert!((140_000..150_000).contains(&volume), "{volume}");
        assert_eq!(worth(Some(150.0), None), WORTH);
        assert_eq!(worth(Some(1e9), Some(1.0)), 2 * BLOCK);
    }

    /// Every block that was cached is read, once, whatever runs there are.
    #[test]
    fn nothing_is_left_out_and_nothing_is_read_twice() {
        let mut seed = 1_u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        for _ in 0..200 {
            let mut runs = Vec::new();
            let mut end = 0;
            for _ in 0..random(30) {
                let next = run(end + random(40), 1 + random(400), 1 + random(7) as u8);
                end = next.end();
                runs.push(next);
            }
            let size = end * BLOCK / 2 + random(2 * BLOCK);
            let mut extents = Vec::new();
            of_file(0, size, &runs, WORTH, &mut extents);
            let wanted: u64 = runs.iter().map(|run| run.bytes(size)).map(|bytes| bytes.end - bytes.start).sum();
            assert_eq!(extents.iter().map(|extent| extent.wanted).sum::<u64>(), wanted);
            for pair in extents.windows(2) {
                assert!(pair[0].start + pair[0].length <= pair[1].start, "{pair:?}");
            }
            for run in &runs {
                for block in run.bytes(size).step_by(BLOCK as usize) {
                    let has = |it: &Extent| (it.start..it.start + it.length).contains(&block);
                    assert_eq!(extents.iter().filter(|it| has(it)).count(), 1);
                }
            }
            assert!(extents.iter().all(|it| it.length <= LONGEST && it.start + it.length <= size && it.wanted > 0));
        }
    }
}

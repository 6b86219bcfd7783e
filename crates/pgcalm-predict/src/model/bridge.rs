//! What it takes to write back a region some pages of which are dirty.
//!
//! The dirty pages are taken to lie at random. So between one and the next are *k* clean pages with probability
//! *p(1-p)^k*, *p* being the part that is dirty.

use super::PAGE;
use super::caps::Caps;
use super::caps::Work;
use super::region::PAGES;

/// Operations and bytes for a region with `dirty` pages, in which gaps of up to `gap` pages are written along.
///
/// A run ends at a gap that is longer, so there are `1 + (dirty - 1)(1-p)^(gap+1)`. Each gap that is bridged adds its
/// length: *p(q + 2q² + … + gap·q^gap)* per dirty page, with *q = 1-p*.
pub(super) fn work(dirty: f64, gap: u32, operation_bytes: f64) -> Work {
    if dirty <= 1.0 {
        // In so many of the cases there is one page.
        let dirty = dirty.max(0.0);
        return Work { operations: dirty, bytes: dirty * PAGE, pages: dirty };
    }
    let dirty = dirty.min(PAGES);
    let p = dirty / PAGES;
    let q = 1.0 - p;
    let g = f64::from(gap);
    let runs = 1.0 + (dirty - 1.0) * q.powf(g + 1.0);
    let bridged = (q - (g + 1.0) * q.powf(g + 1.0) + g * q.powf(g + 2.0)) / p;
    let bytes = (dirty + (dirty - 1.0) * bridged).min(PAGES) * PAGE;
    Work { operations: runs * operations_of_run(bytes / runs, operation_bytes), bytes, pages: dirty }
}

/// Operations of a run, in the mean: the expectation of ⌈length / operation⌉ for lengths that are distributed
/// geometrically. 1 for short runs, and half an operation more than the bytes fill for long ones.
fn operations_of_run(mean_bytes: f64, operation_bytes: f64) -> f64 {
    if mean_bytes <= PAGE {
        return 1.0;
    }
    1.0 / (1.0 - (-operation_bytes / mean_bytes).exp())
}

/// The gap of up to `limit` pages that costs the device least time if regions are as dirty as `densities` says (dirty pages of
/// a region, and how many such regions): `choose_gap` in extension/pg_calm/src/worker/worker.c when it is behind.
pub(super) fn quickest_gap(densities: &[(f64, f64)], caps: &Caps, limit: u32) -> u32 {
    least_time(densities, caps, limit, f64::INFINITY).0
}

/// That gap if no more than `most_bridged` bytes of clean pages may be written along, and the seconds that it takes:
/// `bridge_least_seconds` in extension/pg_calm/src/writeback/bridge_choice.c.
pub(super) fn least_time(densities: &[(f64, f64)], caps: &Caps, limit: u32, most_bridged: f64) -> (u32, f64) {
    let mut work = Work::default();
    // Of each: the part that is clean, and how many gaps there are of the length that is looked at.
    let mut gaps: Vec<(f64, f64)> = Vec::with_capacity(densities.len());
    for (dirty, regions) in densities {
        let pairs = (dirty - 1.0).max(0.0);
        let p = (dirty / PAGES).min(1.0);
        let q = 1.0 - p;
        work.operations += (dirty.min(1.0) + pairs * q) * regions;
        work.bytes += dirty * regions * PAGE;
        gaps.push((q, pairs * p * regions));
    }
    let mut best = (0, caps.seconds(work));
    let most_bytes = work.bytes + most_bridged;
    for gap in 1..=limit {
        let mut bridged = 0.0;
        for (q, number) in &mut gaps {
            *number *= *q;
            bridged += *number;
        }
        work.operations -= bridged;
        work.bytes += bridged * f64::from(gap) * PAGE;
        if work.bytes > most_bytes {
            break;
        }
        // Long runs count once for each operation that they fill.
        let seconds = caps.seconds(Work { operations: work.operations.max(work.bytes / caps.operation_bytes), ..work });
        if seconds <= best.1 {
            best = (gap, seconds);
        }
    }
    best
}

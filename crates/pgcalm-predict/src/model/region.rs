//! How a region gets dirty.

use crate::report::RegionClass;

/// Pages of a region (`PAGE_MAP_REGION_BLOCKS` in extension/pg_calm/src/map/page_map.h).
pub(super) const PAGES: f64 = 1024.0;

/// Different pages that are dirty `seconds` after a flush, when the server writes `speed` times as fast as it did when it
/// was observed, without those that a checkpoint adds.
///
/// *1024 (1 - exp(-h))* with *h = pages_first_second · (speed · seconds)^exponent / 1024*. With exponent 1 that is exact for
/// writes that fall on all pages alike; a smaller one stands for pages that are written again and again, a larger one for pages
/// that are not written again for some time.
pub(super) fn dirty(class: &RegionClass, seconds: f64, speed: f64) -> f64 {
    PAGES * (1.0 - (-hits(class, seconds, speed)).exp())
}

fn hits(class: &RegionClass, seconds: f64, speed: f64) -> f64 {
    let seconds = speed * seconds;
    // Mostly it is 1, and a power takes its time.
    let grown = if class.exponent == 1.0 { seconds } else { seconds.powf(class.exponent) };
    class.pages_first_second * grown / PAGES
}

/// Pages that are dirty when a checkpoint has written its pages, too, which are as scattered.
pub(super) fn with_checkpoint(class: &RegionClass, dirty: f64) -> f64 {
    PAGES - (PAGES - dirty) * (1.0 - (class.checkpoint_pages / PAGES).min(1.0))
}

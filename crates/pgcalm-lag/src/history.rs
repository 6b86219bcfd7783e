//! What a primary said before.

/// Longest time over which rates for predictions are taken, s.
pub const WINDOW_S: f64 = 30.0;

/// What a primary said before, as far as it is needed.
#[derive(Debug, Default)]
pub struct History {}

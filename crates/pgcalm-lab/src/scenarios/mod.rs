//! What the lab can reproduce.

pub mod archive;
pub mod checkpoint;
pub mod journal;
pub mod predict;
pub mod replica;
pub mod tenants;
pub mod torture;

/// A scenario as `lab list` shows it.
#[derive(Debug)]
pub struct Scenario {
    /// As on the command line.
    pub name: &'static str,
    /// What it shows, in one line.
    pub summary: &'static str,
}

/// All scenarios.
pub const SCENARIOS: [Scenario; 7] = [
    checkpoint::SCENARIO,
    archive::SCENARIO,
    journal::SCENARIO,
    replica::SCENARIO,
    tenants::SCENARIO,
    torture::SCENARIO,
    predict::SCENARIO,
];

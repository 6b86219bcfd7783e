//! A primary that makes WAL faster than its standby gets it.

use crate::DEFAULT_DIR;
use crate::Seconds;
use crate::Size;
use crate::replica::CASES;
use crate::replica::Options;
use crate::scenarios::Scenario;

/// For the list.
pub const SCENARIO: Scenario = Scenario {
    name: pgcalm_report::replica::SCENARIO,
    summary: "a primary floods its standby with WAL over a slow link: how far does it fall behind, and does it come back?",
};

/// The options unless told otherwise.
pub fn full() -> Options {
    Options {
        dir: DEFAULT_DIR.into(),
        pg_bindir: None,
        module_dir: None,
        cases: CASES.iter().collect(),
        seconds: Seconds(40),
        catch_up: Seconds(120),
        clients: 1,
        rows: 5000,
        wal_iops: 200,
        link_bps: None,
        max_lag: Size(128 << 20),
        max_wal_size: Size(512 << 20),
        wal_size: Size(4 << 30),
        set: Vec::new(),
        volume: None,
        keep: false,
    }
}

//! Predictions from shadow mode against what comes with pg_calm on.

use crate::DEFAULT_DIR;
use crate::Limit;
use crate::Seconds;
use crate::options::FsType;
use crate::predict::Options;
use crate::predict::grid::GridPoint;
use crate::predict::grid::POINTS;
use crate::scenarios::Scenario;

/// For the list.
pub const SCENARIO: Scenario = Scenario {
    name: pgcalm_report::predict::SCENARIO,
    summary: "a grid of tables, loads, caps and buffers: is what is predicted for pg_calm what it then does?",
};

/// All points, some five minutes each: looked at for a checkpoint interval, measured for several after a first one has passed.
/// How a checkpoint's drain and the kernel's visits, each 31 s, fall together shifts by some seconds from one to the next, and
/// in the first ones it is always the same, since both start when pg_calm is switched on.
pub fn full() -> Options {
    Options {
        dir: DEFAULT_DIR.into(),
        pg_bindir: None,
        points: POINTS.iter().collect(),
        rows: None,
        lead: Seconds(45),
        observe: Seconds(30),
        settle: Seconds(35),
        seconds: Seconds(180),
        checkpoint_timeout: Seconds(30),
        clients: 4,
        wal_iops: Limit(Some(4000)),
        fs: FsType::Ext4,
        set: Vec::new(),
        volume: None,
    }
}

/// Three points with tables of 5M rows at most.
pub fn quick() -> Options {
    let quick: Vec<&'static GridPoint> = POINTS
        .iter()
        .filter(|point| ["medium", "few-operations", "large-buffers"].contains(&point.name))
        .collect();
    Options {
        points: quick,
        seconds: Seconds(90),
        ..full()
    }
}

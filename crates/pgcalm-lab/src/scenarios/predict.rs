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

/// All points, some three minutes each: looked at for a checkpoint interval, measured for two after a first one has passed,
/// so that neither the phase of the window nor the clean start counts.
pub fn full() -> Options {
    Options {
        dir: DEFAULT_DIR.into(),
        pg_bindir: None,
        points: POINTS.iter().collect(),
        rows: None,
        lead: Seconds(45),
        observe: Seconds(30),
        settle: Seconds(35),
        seconds: Seconds(90),
        checkpoint_timeout: Seconds(30),
        clients: 4,
        wal_iops: Limit(Some(4000)),
        fs: FsType::Ext4,
        set: Vec::new(),
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
        ..full()
    }
}

//! Crashes under load, and whether anything that was acknowledged is lost.

use crate::DEFAULT_TORTURE_DIR;
use crate::Limit;
use crate::Seconds;
use crate::Size;
use crate::options::FsType;
use crate::scenarios::Scenario;
use crate::torture::Crash;
use crate::torture::Options;

/// For the list.
pub const SCENARIO: Scenario = Scenario {
    name: pgcalm_report::torture::SCENARIO,
    summary: "crashes under load with pg_calm: is anything lost that was acknowledged, is anything corrupt?",
};

/// The options unless told otherwise.
pub fn full() -> Options {
    Options {
        dir: DEFAULT_TORTURE_DIR.into(),
        pg_bindir: None,
        module_dir: None,
        cycles: 20,
        fs: vec![FsType::Ext4, FsType::Xfs],
        crash: vec![Crash::Shutdown, Crash::Kill],
        rows: 300_000,
        clients: 4,
        seconds: Seconds(8),
        iops: Limit(Some(1000)),
        size: Size(2 << 30),
        set: Vec::new(),
        volume: None,
        seed: fastrand::u64(..1 << 32),
        control: false,
        keep: false,
    }
}

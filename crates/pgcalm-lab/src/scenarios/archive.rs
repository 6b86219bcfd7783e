//! A backlog of WAL being archived, alone, beside pgbench, and up to a power cut.

use crate::DEFAULT_DIR;
use crate::Limit;
use crate::Seconds;
use crate::Size;
use crate::archive::Options;
use crate::archive::archiver::ARCHIVERS;
use crate::options::FsType;
use crate::scenarios::Scenario;

/// For the list.
pub const SCENARIO: Scenario = Scenario {
    name: pgcalm_report::archive::SCENARIO,
    summary: "a backlog of WAL is drained beside pgbench: how fast, at what cost, and does it survive a power cut?",
};

/// The options unless told otherwise: what PostgreSQL comes with against pg_calm.
pub fn full() -> Options {
    let chosen = ["cp-sync", "basic_archive", "pg_calm-2"];
    Options {
        dir: DEFAULT_DIR.into(),
        pg_bindir: None,
        module_dir: None,
        noop_module: None,
        archivers: ARCHIVERS
            .iter()
            .filter(|archiver| chosen.contains(&archiver.name))
            .collect(),
        files: 64,
        empty: false,
        segment_size: Size(16 << 20),
        wal_iops: Limit(Some(800)),
        wal_bps: Limit(Some(Size(125 << 20))),
        archive_iops: Limit(Some(800)),
        archive_bps: Limit(Some(Size(125 << 20))),
        fs: FsType::Ext4,
        clients: 4,
        seconds: Limit(Some(Seconds(20))),
        repeat: 1,
        set: Vec::new(),
        volume: None,
        keep: false,
    }
}

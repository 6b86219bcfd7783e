//! Upserts of random rows with checkpoints on an IOPS-capped data volume.

use crate::DEFAULT_DIR;
use crate::Limit;
use crate::Seconds;
use crate::Size;
use crate::contest::Options;
use crate::contestant::CONTESTANTS;
use crate::options::DeviceStore;
use crate::options::Distribution;
use crate::options::FsType;
use crate::options::SysctlProfile;
use crate::options::Warm;
use crate::scenarios::Scenario;

/// For the list.
pub const SCENARIO: Scenario = Scenario {
    name: "checkpoint",
    summary: "upserts of random rows on an IOPS-capped data volume: do checkpoints and writeback stall them?",
};

/// The options of the full form: a table of 2.5 GB, ten times shared_buffers, and two checkpoints or more in each run.
pub fn full() -> Options {
    Options {
        dir: DEFAULT_DIR.into(),
        pg_bindir: None,
        rows: 20_000_000,
        shared_buffers: Size(256 << 20),
        data_iops: Limit(Some(800)),
        data_bps: Limit(Some(Size(125 << 20))),
        data_read_iops: Limit(None),
        data_max_io: None,
        wal_iops: Limit(Some(4000)),
        wal_bps: Limit(None),
        wal_max_io: None,
        wal_size: None,
        devices: DeviceStore::Disk,
        fs: FsType::Ext4,
        clients: 4,
        rate: Limit(None),
        seconds: Seconds(150),
        drain: Limit(Some(Seconds(60))),
        checkpoint_timeout: Seconds(60),
        sysctl: SysctlProfile::Default,
        contestants: CONTESTANTS.iter().take(3).collect(),
        distribution: Distribution::Uniform,
        warm: Warm::Random,
        repeat: 1,
        set: Vec::new(),
        set_contestant: Vec::new(),
        keep: false,
    }
}

/// The options of the quick form: three contestants in about four minutes, loading included.
pub fn quick() -> Options {
    Options {
        rows: 10_000_000,
        shared_buffers: Size(128 << 20),
        seconds: Seconds(60),
        checkpoint_timeout: Seconds(30),
        ..full()
    }
}

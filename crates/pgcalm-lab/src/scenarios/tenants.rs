//! Many instances on one capped device, with their checkpoints in lockstep.

use crate::DEFAULT_DIR;
use crate::Limit;
use crate::Seconds;
use crate::Size;
use crate::options::SysctlProfile;
use crate::scenarios::Scenario;
use crate::tenants::CONTESTANTS;
use crate::tenants::Options;

/// For the list.
pub const SCENARIO: Scenario = Scenario {
    name: pgcalm_report::tenants::SCENARIO,
    summary: "many instances on one capped device, checkpoints in lockstep: does any of them stand still?",
};

/// The options unless told otherwise.
pub fn full() -> Options {
    Options {
        dir: DEFAULT_DIR.into(),
        pg_bindir: None,
        instances: 20,
        rows: 300_000,
        shared_buffers: Size(8 << 20),
        clients: 4,
        rate: 15,
        data_iops: Limit(Some(800)),
        data_bps: Limit(Some(Size(125 << 20))),
        wal_iops: Limit(Some(4000)),
        device_iops: Limit(Some(1000)),
        device_bps: Limit(Some(Size(125 << 20))),
        seconds: Seconds(120),
        checkpoint_timeout: Seconds(60),
        sysctl: SysctlProfile::Default,
        contestants: CONTESTANTS.iter().collect(),
        set: Vec::new(),
        volume: None,
        mount_options: None,
        set_contestant: Vec::new(),
        keep: false,
    }
}

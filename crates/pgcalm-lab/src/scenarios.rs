//! What the lab can reproduce.

/// A scenario as `lab list` shows it.
#[derive(Debug)]
pub struct Scenario {
    /// As on the command line.
    pub name: &'static str,
    /// What it shows, in one line.
    pub summary: &'static str,
}

/// All scenarios.
pub const SCENARIOS: [Scenario; 10] = [
    Scenario {
        name: "checkpoint",
        summary: "upserts of random rows on an IOPS-capped data volume: do checkpoints and writeback stall them?",
    },
    Scenario {
        name: crate::archive::report::SCENARIO,
        summary: "a backlog of WAL is drained beside pgbench: how fast, at what cost, and does it survive a power cut?",
    },
    Scenario {
        name: crate::interference::report::SCENARIO,
        summary: "two instances, one capped and making databases: does the other hang in the journal, and which layout helps?",
    },
    Scenario {
        name: crate::replica::report::SCENARIO,
        summary: "a primary floods its standby with WAL over a slow link: how far does it fall behind, and does it come back?",
    },
    Scenario {
        name: crate::tenants::report::SCENARIO,
        summary: "many instances on one capped device, checkpoints in lockstep: does any of them stand still?",
    },
    Scenario {
        name: crate::torture::report::SCENARIO,
        summary: "crashes under load with pg_calm: is anything lost that was acknowledged, is anything corrupt?",
    },
    Scenario {
        name: crate::archive_crash::report::SCENARIO,
        summary: "power cuts at every step of archiving: is a finished WAL segment lost, changed or announced in vain?",
    },
    Scenario {
        name: crate::guard::report::SCENARIO,
        summary: "a load that the data volume can't take: does the server get through it, with pg_calm_guard and without?",
    },
    Scenario {
        name: crate::wal_full::report::SCENARIO,
        summary: "archive down, slot forgotten, standby slow: WAL fills its volume; does the guard warn in time, and hold?",
    },
    Scenario {
        name: crate::predict::report::SCENARIO,
        summary: "a grid of tables, loads, caps and buffers: is what is predicted for pg_calm what it then does?",
    },
];

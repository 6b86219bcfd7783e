//! What is done to the same pair under the same load.

use crate::options::Named;
use crate::options::one_of;

/// One case.
#[derive(Debug, PartialEq, Eq)]
pub struct Case {
    /// As on the command line.
    pub name: &'static str,
    /// What sets it apart, in one sentence.
    pub description: &'static str,
    /// Whether the WAL devices of both sides are capped.
    pub wal_capped: bool,
    /// Whether the link has its limit.
    pub link_limited: bool,
    /// Whether the standby has a replication slot, for which the primary keeps WAL without limit.
    pub slot: bool,
    /// Whether the primary archives WAL and the standby may restore it from there.
    pub archive: bool,
    /// Whether the governor has a limit of lag.
    pub governed: bool,
}

impl Case {
    /// Whether the primary runs with pg_calm.
    pub fn needs_module(&self) -> bool {
        self.archive || self.governed
    }
}

/// All that there are.
pub const CASES: [Case; 5] = [
    Case {
        name: "capped",
        description: "The WAL devices of both sides are capped, the link is not.",
        wal_capped: true,
        link_limited: false,
        slot: true,
        archive: false,
        governed: false,
    },
    Case {
        name: "slow-link",
        description: "The link is slower than WAL is made; a slot keeps WAL for the standby.",
        wal_capped: false,
        link_limited: true,
        slot: true,
        archive: false,
        governed: false,
    },
    Case {
        name: "recycled",
        description: "The same link, and nothing keeps WAL for the standby: it is recycled before it was sent.",
        wal_capped: false,
        link_limited: true,
        slot: false,
        archive: false,
        governed: false,
    },
    Case {
        name: "restore",
        description: "As recycled, but pg_calm archives WAL, and the standby restores it by pgcalm wal-restore. The archive \
                      is not behind the link.",
        wal_capped: false,
        link_limited: true,
        slot: false,
        archive: true,
        governed: false,
    },
    Case {
        name: "governed",
        description: "As recycled, but pg_calm's governor holds writers to a limit of lag.",
        wal_capped: false,
        link_limited: true,
        slot: false,
        archive: false,
        governed: true,
    },
];

impl Named for Case {
    fn name(&self) -> &'static str {
        self.name
    }
}

/// Reads one name.
pub fn parse(name: &str) -> Result<&'static Case, String> {
    one_of(&CASES, "case", name)
}

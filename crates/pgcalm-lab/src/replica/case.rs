//! What is done to the same pair under the same load.

use crate::options::{Named, one_of};

/// When the caps of the devices are in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capped {
    /// Never.
    No,
    /// From the beginning of the load until the standby has caught up.
    Throughout,
    /// In the first half of the load.
    FirstHalf,
}

/// What the primary keeps WAL for the standby by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// Nothing: it is recycled at the next checkpoint's end.
    No,
    /// A replication slot, without limit.
    BySlot,
    /// wal_keep_size.
    BySize,
}

/// One case.
#[derive(Debug, PartialEq, Eq)]
pub struct Case {
    /// As on the command line.
    pub name: &'static str,
    /// What sets it apart, in one sentence.
    pub description: &'static str,
    /// When the devices of both sides are capped.
    pub capped: Capped,
    /// Whether the link has its limit.
    pub link_limited: bool,
    /// What keeps WAL for the standby.
    pub kept: Kept,
    /// Whether the primary archives WAL and the standby may restore it from there.
    pub archive: bool,
    /// Whether the guard has a limit of lag.
    pub governed: bool,
}

impl Case {
    /// Whether the primary runs with pg_calm.
    pub fn needs_module(&self) -> bool {
        self.archive || self.governed
    }
}

/// Nothing is limited, and a slot keeps WAL for the standby.
pub(super) const PLAIN: Case = Case {
    name: "plain",
    description: "Neither link nor devices are limited.",
    capped: Capped::No,
    link_limited: false,
    kept: Kept::BySlot,
    archive: false,
    governed: false,
};

/// All that there are.
pub const CASES: [Case; 8] = [
    Case {
        name: "capped",
        description: "The devices of both sides are capped, the link is not.",
        capped: Capped::Throughout,
        ..PLAIN
    },
    Case {
        name: "uncapped",
        description: "As capped, but the caps are lifted in the middle of the load: the standby has to catch up under it.",
        capped: Capped::FirstHalf,
        ..PLAIN
    },
    Case {
        name: "governed-capped",
        description: "As capped, but nothing keeps WAL for the standby, and pg_calm_guard holds writers to a limit of \
                      lag.",
        capped: Capped::Throughout,
        kept: Kept::No,
        governed: true,
        ..PLAIN
    },
    Case {
        name: "slow-link",
        description: "The link is slower than WAL is made; a slot keeps WAL for the standby.",
        link_limited: true,
        ..PLAIN
    },
    Case {
        name: "recycled",
        description: "The same link, and nothing keeps WAL for the standby: it is recycled before it was sent.",
        link_limited: true,
        kept: Kept::No,
        ..PLAIN
    },
    Case {
        name: "keep",
        description: "As recycled, but wal_keep_size keeps WAL for the standby.",
        link_limited: true,
        kept: Kept::BySize,
        ..PLAIN
    },
    Case {
        name: "restore",
        description: "As recycled, but pg_calm archives WAL, and the standby restores it by pgcalm wal-restore. The archive \
                      is not behind the link.",
        link_limited: true,
        kept: Kept::No,
        archive: true,
        ..PLAIN
    },
    Case {
        name: "governed",
        description: "As recycled, but pg_calm_guard holds writers to a limit of lag.",
        link_limited: true,
        kept: Kept::No,
        governed: true,
        ..PLAIN
    },
];

impl Named for Case {
    fn name(&self) -> &'static str {
        self.name
    }
}

/// Reads one name.
pub(super) fn parse(name: &str) -> Result<&'static Case, String> {
    one_of(&CASES, "case", name)
}

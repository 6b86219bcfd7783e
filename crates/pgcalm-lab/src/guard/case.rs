//! The cases: how a server is run, and what for.

use crate::contestant::Contestant;
use crate::options::{Named, one_of};

/// What a case is to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Clients as fast as they can, under caps that are too low for them.
    Overload,
    /// Clients that keep to a rate, under the same caps, for each of some rates.
    Paced,
    /// A load that no limit is needed for, without caps, with the guard off and on in turn.
    Idle,
}

/// A case that can be named.
#[derive(Debug, PartialEq, Eq)]
pub struct Case {
    /// As on the command line.
    pub name: &'static str,
    /// What it is, in one sentence.
    pub description: &'static str,
    /// What it is to show.
    pub kind: Kind,
    /// How servers are run in it; in turn, if there are several.
    pub contestants: &'static [Contestant],
}

/// The contestant of `idle` without limits.
pub const IDLE_OFF: &str = "off";

/// That with limits.
pub const IDLE_ON: &str = "on";

pub(crate) type Settings = &'static [(&'static str, &'static str)];

pub(crate) const LIBRARIES: (&str, &str) = ("shared_preload_libraries", "pg_calm, pg_calm_guard");

pub(crate) const ON: (&str, &str) = ("pg_calm_guard.mode", "on");

/// The lab's clients are superusers.
pub(crate) const ALL_ARE_HELD: (&str, &str) = ("pg_calm_guard.exempt_superusers", "off");

const WAL_SPACE: (&str, &str) = ("pg_calm_guard.wal_space", "-1");

pub(crate) const fn contestant(name: &'static str, description: &'static str, settings: Settings) -> Contestant {
    Contestant { name, description, settings, module: !settings.is_empty(), data_capped: true, operations: 1 }
}

const STOCK: &str = "PostgreSQL as it comes: WAL grows until its volume is full, and that is a PANIC.";
const GOVERNED: &str = "With pg_calm that holds writers to what leaves room for WAL.";
const UNBRIDGED: &str = "As governed, without bridging: the data volume takes no more than stock's pages.";
const PACED: &str = "PostgreSQL as it comes, with clients that keep to a rate: which is the highest that it holds?";
const IDLE: &str = "A small table without caps, the guard off and on in turn: what does it cost?";

/// All that there are.
pub const CASES: [Case; 5] = [
    Case { name: "stock", description: STOCK, kind: Kind::Overload, contestants: &[contestant("stock", STOCK, &[])] },
    Case {
        name: "governed",
        description: GOVERNED,
        kind: Kind::Overload,
        contestants: &[contestant("governed", GOVERNED, &[LIBRARIES, ON, ALL_ARE_HELD, WAL_SPACE])],
    },
    Case {
        name: "unbridged",
        description: UNBRIDGED,
        kind: Kind::Overload,
        contestants: &[contestant(
            "unbridged",
            UNBRIDGED,
            &[LIBRARIES, ON, ALL_ARE_HELD, WAL_SPACE, ("pg_calm.bridge", "off")],
        )],
    },
    Case { name: "paced", description: PACED, kind: Kind::Paced, contestants: &[contestant("paced", PACED, &[])] },
    Case {
        name: "idle",
        description: IDLE,
        kind: Kind::Idle,
        contestants: &[
            contestant(IDLE_OFF, IDLE, &[LIBRARIES, ALL_ARE_HELD, ("pg_calm_guard.mode", "off")]),
            contestant(IDLE_ON, IDLE, &[LIBRARIES, ON, ALL_ARE_HELD, WAL_SPACE]),
        ],
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

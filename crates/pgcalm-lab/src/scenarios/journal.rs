//! A capped neighbour that makes databases, and what it does to an instance beside it.

use crate::DEFAULT_DIR;
use crate::Seconds;
use crate::Size;
use crate::interference::LAYOUTS;
use crate::interference::Options;
use crate::scenarios::Scenario;

/// For the list.
pub const SCENARIO: Scenario = Scenario {
    name: pgcalm_report::journal::SCENARIO,
    summary: "two instances, one capped and making databases: does the other hang in the journal, and which layout helps?",
};

/// The options of the full form: six layouts in some five minutes.
pub fn full() -> Options {
    Options {
        dir: DEFAULT_DIR.into(),
        pg_bindir: None,
        layouts: LAYOUTS.iter().collect(),
        seconds: Seconds(12),
        lead: Seconds(8),
        write_iops: 100,
        sessions: 16,
        clients: 4,
        scale: 20,
        size: Size(2 << 30),
        set: Vec::new(),
        volume: None,
    }
}

/// The options of the quick form.
pub fn quick() -> Options {
    Options {
        seconds: Seconds(8),
        lead: Seconds(6),
        scale: 10,
        ..full()
    }
}

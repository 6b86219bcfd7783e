//! Upserts of random rows with checkpoints on an IOPS-capped data volume.

use crate::scenarios::Scenario;

/// For the list. Its options, and what they are if not given, are [`contest::Options`](crate::contest::Options).
pub const SCENARIO: Scenario = Scenario {
    name: "checkpoint",
    summary: "upserts of random rows on an IOPS-capped data volume: do checkpoints and writeback stall them?",
};

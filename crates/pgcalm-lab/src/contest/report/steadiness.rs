//! Whether a run was long enough to tell what goes on and on.

use serde::{Deserialize, Serialize};

use crate::contest::report::BacklogAt;

/// What became of a run with --steady. Steady is one in whose measured part at least three checkpoints ended, with as much
/// dirty after the last of them as after the one at its beginning: within 10 % of the larger amount, or 32 MiB; with pg_calm no
/// more than that, since to write more than is dirtied flatters nobody.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Steadiness {
    /// Why it is not steady; absent where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objection: Option<String>,
    /// Load before the measured part, which begins where the first checkpoint ended after the warm-up that was asked for.
    pub warm_up_s: f64,
    /// What was dirty when checkpoints had ended: the one at the beginning, and those in the measured part.
    pub dirty: Vec<DirtyAt>,
}

/// What was dirty when a checkpoint had ended.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DirtyAt {
    /// Seconds since the end of the checkpoint at the beginning.
    pub at_s: f64,
    /// The amounts.
    #[serde(flatten)]
    pub dirty: BacklogAt,
}

impl Steadiness {
    /// Whether it is.
    pub fn is_steady(&self) -> bool {
        self.objection.is_none()
    }
}

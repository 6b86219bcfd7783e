//! The lines of `pgcalm trace checkpoint`.

pub mod html;
pub mod text;

use serde::Deserialize;
use serde::Serialize;

use crate::trace::End;
use crate::trace::Start;

/// A line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Line {
    /// First.
    Start(Start),
    /// Last.
    End(End),
}

//! The rules, one after another: what each looks at, when it applies and why then, what to do and what that brings.
//!
//! docs/reference/doctor-rules.md shows this table (`pgcalm doctor --rules` prints it): a file of each severity, in which the order is
//! that of findings. Kernel functions are those of Linux 6.18, server functions those of PostgreSQL 15.

mod blind;
mod outage;
mod slow;
mod stall;

use std::sync::LazyLock;

use crate::rules::Rule;

/// All rules, worst first.
pub static RULES: LazyLock<Vec<Rule>> =
    LazyLock::new(|| [outage::RULES, stall::RULES, slow::RULES, blind::RULES].concat());

//! What pg_calm would gain on a server.
//!
//! [`observe`] looks at a running server, with the module in shadow mode or without it; [`predict`] is a pure function of
//! what was seen, [`report`] what both say as data and text.

mod checkpoint;
mod model;

pub mod observe;
pub mod report;

pub use model::predict;

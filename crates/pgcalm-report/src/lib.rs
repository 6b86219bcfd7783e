//! One result model, and its renderings.
//!
//! [`model`] is the contract: the lab fills it, everything else here only reads it. A figure that more than one
//! rendering shows is computed once ([`metric`], [`reading`]), so that text and HTML cannot disagree.

pub mod archive;
pub mod chart;
mod device_rates;
pub mod doctor;
pub mod html;
pub mod isolate;
pub mod journal;
pub mod json;
pub mod metric;
pub mod model;
pub mod number;
mod page;
pub mod predict;
pub mod reading;
pub mod replica;
pub mod seconds;
pub mod settings;
pub mod suite;
pub mod tenants;
pub mod text;
pub mod torture;
pub mod trace;

#[cfg(test)]
mod schema;

pub use json::Document;
pub use json::JsonError;
pub use json::from_json;
pub use json::read;
pub use json::to_json_pretty;

//! Many instances on one host: which there are, what limits they are under, and putting them under limits.
//!
//! Nothing is changed but control groups that are made here, and the membership of processes of the instance that was
//! named. What was changed is noted under /run/pgcalm before it is done, and undone from there.

mod inventory;
mod need_root;
mod plan;
mod select;
mod setting;
mod state;
mod systemd;

pub mod check;
pub mod clear;
pub mod hold;
pub mod report;
pub mod set;
pub mod show;

pub use need_root::need_root;
pub use setting::Setting;
pub(crate) use systemd::unit_of;

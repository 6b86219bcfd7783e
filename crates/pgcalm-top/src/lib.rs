//! `pgcalm top`: a live picture of the host's PostgreSQL instances in the terminal.
//!
//! - [`state`] is what the user has chosen, [`keys`] what a key asks for; neither knows the terminal.
//! - [`track`] keeps the figures that curves are drawn of.
//! - A [`scene::Scene`] is all that a picture depends on. [`screen::draw`] makes a picture of a given size of it,
//!   [`once::text`] plain text; both depend on nothing else, not even on the time of day.
//! - [`section`] holds the parts of an instance's picture, one file each. They make rows with a rank; what does not fit
//!   into a small terminal is left out by rank ([`row::fit`]).
//! - [`run`] is the loop: samples of the monitor and keys come in, pictures go out.
//! - [`terminal`] prepares the terminal and restores it.

pub mod bar;
pub mod format;
pub mod keys;
pub mod once;
pub mod palette;
pub mod row;
pub mod run;
pub mod scene;
pub mod screen;
pub mod section;
pub mod series;
pub mod state;
pub mod terminal;
pub mod track;

//! Traces of real servers.

mod arena;
mod io;
mod why;

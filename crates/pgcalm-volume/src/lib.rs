//! A block volume that behaves like a cloud's: a number of operations and of bytes per second that reads and writes share or
//! have for themselves, operations counted as the provider counts them, a latency, a bounded queue.
//!
//! A [`Volume`] is what somebody asks for, its [`Limits`] are what that comes to, a [`Limiter`] says when a request is done,
//! and a [`Server`] is a file in FUSE that keeps to it. A loop device with direct I/O over that file is the block device.

mod answer;
mod backing;
mod buffer;
mod completion;
mod file_system;

pub mod control;
pub mod counters;
pub mod latency;
pub mod limiter;
pub mod limits;
pub mod profiles;
pub mod server;
pub mod volume;

pub use counters::Counters;
pub use limiter::Limiter;
pub use limits::Limits;
pub use server::Server;
pub use volume::Volume;

//! Pictures of samples, and the terminal.

mod pictures;
// The program that panics does without half of it.
#[allow(dead_code)]
#[path = "support/pty.rs"]
mod pty;
mod support;
mod terminal;

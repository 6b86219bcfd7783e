//! What tests need of the machine, and real PostgreSQL servers for them.
//!
//! For tests only: everything here panics where something fails, with what the program said.

/// Of lines of a report, what is in those of one kind: `of_kind!(lines, Line::Second)`.
#[macro_export]
macro_rules! of_kind {
    ($lines:expr, $kind:path) => {
        $lines.iter().filter_map(|line| if let $kind(it) = line { Some(it) } else { None })
    };
}

pub mod libpq;
pub mod need;
pub mod programs;
pub mod schema;
pub mod server;

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// As long as a slow machine may need.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until something holds; panics, and names it, if that takes longer than [`PATIENCE`].
pub fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "{what} did not come");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Sources of the module, with `pg_calm.so` once it is built.
pub fn module_directory() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../extension/pg_calm"))
}

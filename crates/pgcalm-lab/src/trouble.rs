//! Trouble for a run: what happens to servers, volumes and hosts while a load is on.
//!
//! There is one list of them, [`TROUBLES`], which command line, `lab list` and documentation are made of, and a file each. All
//! that one changes is in the lab's journal or ends by itself, so that a lab that is killed leaves none of it; what it has
//! started ends with the run.

mod base_backup;
mod big_delete;
mod caps_halve;
pub(crate) mod caps_told;
mod copy;
mod cpu_quota;
mod create_index;
mod drop_table;
mod files_read;
mod ground;
mod idle;
mod list;
mod memory_halves;
pub mod neighbour;
mod pg_dump;
mod play;
mod process_stopped;
mod program;
mod restart;
mod running;
mod scheduled;
mod second_server;
mod small_tables;
mod vacuum_freeze;
mod volume_hangs;
mod wal_kept;
mod worker_killed;

pub(crate) use files_read::reads_files;
pub(crate) use ground::{Before, Ground, Table};
pub use list::{Need, TROUBLES, Trouble, WAL_KEPT};
pub(crate) use running::{Told, Troubles};
pub use scheduled::Scheduled;
pub(crate) use scheduled::check;

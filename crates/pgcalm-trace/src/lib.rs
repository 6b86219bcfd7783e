//! Traces a running, unmodified PostgreSQL with eBPF.
//!
//! How it is built:
//!
//! - `probes/GROUP/mod.bpf.c` are the programs of one probe group, `mod.rs` beside it loads and attaches them and reads
//!   their maps. `build.rs` lists the groups; `bpf/*.h` is what they share. A group aggregates in the kernel; only rare
//!   events go through its ring buffer, and what finds it or a map full is counted.
//! - [`target`] finds the server and its program file.
//! - [`session`] is what all verbs do alike: it watches the server's processes (group `server_processes`), attaches probes
//!   and keeps the links, polls the ring buffers ([`ring`]), and knows when to end: a signal, the time, the server's end. Dropping
//!   it detaches everything; so does the kernel if this process is killed.
//! - [`usdt`] attaches to the server's own probes, [`tracefs`] makes the kernel's tracepoints reachable.
//! - One module per verb ([`checkpoint`], [`locks`], [`why`], [`io`], [`connect`]) runs its groups and fills the model in its
//!   `report`, which text, JSON lines and HTML are rendered from; [`report`] is what the lines of all verbs have alike.
//! - Without eBPF, `without_ebpf` of each verb uses what is left: [`server_log`], the server's views, /proc.
//! - What more than one group measures is a header in `bpf` and a module here: [`waits`] where a process's time goes,
//!   [`operations`] its system calls.
//!
//! A probe that can't be attached is no error: the session notes which answer is missing and why
//! ([`session::Session::miss`]), and the report says so.
//!
//! No probe changes what the server does: programs only read, and USDT semaphores, which the kernel raises while a probe
//! is attached, do nothing but enable the probe.

pub mod checkpoint;
pub mod checkpoint_flags;
pub mod clock;
pub mod connect;
mod connect_option;
pub mod connection;
pub mod disks;
pub mod error;
pub mod histogram;
pub mod io;
pub mod kernel_symbols;
pub mod locks;
pub mod operations;
pub mod polling;
pub mod probes;
mod random;
mod relation_names;
pub mod report;
pub mod ring;
#[cfg(test)]
mod schema;
pub mod server_log;
pub mod server_memory;
pub mod session;
pub use pgcalm_host::stop;
pub mod syscalls;
pub mod target;
pub mod tracefs;
pub mod usdt;
pub mod waits;
pub mod why;

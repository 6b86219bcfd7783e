//! What runs the lab, of which there is one on a host, and what sets, judges or traces a server on a device of its own.

mod archive;
mod doctor;
mod guard;
mod isolate;
mod journal;
mod lab;
mod lab_load;
#[path = "../support/lab_run/mod.rs"]
mod lab_run;
mod lab_stage;
mod lab_trouble;
mod replica;
mod stop_start;
mod suite;
mod tenants;
mod trace;
mod trace_samples;
mod trace_server;
mod trace_without_ebpf;
mod wal_full;

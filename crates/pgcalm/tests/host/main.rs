//! What runs the lab, of which there is one on a host, or sets, judges or traces what all of the host does: one after the other.

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

//! Crash cycles and volumes, on devices of their own: they run beside the lab.

mod archive_crash;
#[path = "../support/lab_run/mod.rs"]
mod lab_run;
mod torture;
mod volume;

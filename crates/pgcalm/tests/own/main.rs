//! Crash cycles, volumes and a chroot, on devices and mounts of their own: they run beside the lab.

mod archive_crash;
mod chroot;
#[path = "../support/lab_run/mod.rs"]
mod lab_run;
mod torture;
mod volume;

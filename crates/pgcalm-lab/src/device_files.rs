//! Where the files of the loop devices lie.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use rustix::mount::MountFlags;

use crate::Size;
use crate::journal::{Change, Journal, Undo};
use crate::lab_dir::LabDir;
use crate::options::DeviceStore;
use pgcalm_host::Failure;

/// What the kernel, the lab and everything else on the host keep besides.
const REST_OF_HOST: u64 = 1 << 30;

/// The place for the devices' files; must outlive the devices.
#[derive(Debug)]
pub(crate) struct DeviceFiles<'a> {
    lab: &'a LabDir,
    memory: Option<Memory>,
}

/// A tmpfs of our own.
#[derive(Debug)]
struct Memory {
    target: PathBuf,
    // Undone in this order.
    _mount: Undo,
    _directory: Undo,
}

impl<'a> DeviceFiles<'a> {
    /// For `DeviceStore::Memory` mounts a tmpfs that takes `size` bytes at most.
    pub(crate) fn create(lab: &'a LabDir, journal: &Journal, store: DeviceStore, size: Size) -> anyhow::Result<Self> {
        if store == DeviceStore::Disk {
            return Ok(Self { lab, memory: None });
        }
        let target = lab.memory();
        let directory = journal.note(Change::Directory { path: target.clone() })?;
        fs::create_dir_all(&target).with_context(|| format!("create {}", target.display()))?;
        let mount = journal.note(Change::Mount { target: target.clone() })?;
        let options = std::ffi::CString::new(format!("mode=0700,size={}", size.bytes()))?;
        rustix::mount::mount(
            "pgcalm-lab",
            &target,
            "tmpfs",
            MountFlags::NODEV | MountFlags::NOSUID | MountFlags::NOEXEC,
            options.as_c_str(),
        )
        .with_context(|| format!("mount a tmpfs at {}", target.display()))?;
        Ok(Self { lab, memory: Some(Memory { target, _mount: mount, _directory: directory }) })
    }

    /// The file of the device for `role`, e.g. `data` or `wal`.
    pub(crate) fn image(&self, role: &str) -> PathBuf {
        let image = self.lab.image(role);
        match (&self.memory, image.file_name()) {
            (Some(memory), Some(name)) => memory.target.join(name),
            _ => image,
        }
    }
}

/// Fails unless the host has memory for devices of `size`, and beside them for `cached`, what servers and the page cache
/// hold.
pub(crate) fn need_memory(available_kib: u64, size: Size, cached: u64) -> Result<(), Failure> {
    let needed = size.bytes() + cached + REST_OF_HOST;
    let available = available_kib << 10;
    if needed <= available {
        return Ok(());
    }
    Err(Failure::Host(format!(
        "--devices memory: {} MiB of memory needed, {} MiB available: use fewer --rows or --seconds, or --devices disk",
        needed >> 20,
        available >> 20
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_with_too_little_memory_is_told_from_one_with_enough() {
        let available_kib = 20 << 20;
        assert!(need_memory(available_kib, Size(15 << 30), 4 << 30).is_ok());
        let error = need_memory(available_kib, Size(15 << 30), 5 << 30).unwrap_err().to_string();
        assert!(error.contains("21504 MiB of memory needed, 20480 MiB available"));
    }
}

//! Which instance, which disk is meant.

use std::path::{Path, PathBuf};

use pgcalm_host::block_device::Disk;
use pgcalm_host::choice::Known;
use pgcalm_host::instance::Instance;
use pgcalm_host::{Failure, HostRoot, block_device, choice};

use crate::isolate::inventory::Inventory;

/// The instance that `name` means; see [`choice`].
pub(super) fn instance<'a>(inventory: &'a Inventory, name: &str) -> Result<&'a Instance, Failure> {
    let found = &inventory.found;
    let known: Vec<Known> = found.instances.iter().map(Known::from).collect();
    let index = choice::choose(&inventory.root, Some(name), &known, &found.hidden)?;
    Ok(&found.instances[index])
}

/// What `--device` means.
#[derive(Debug)]
pub(super) struct Target {
    /// The disk to set limits on.
    pub disk: Disk,
    /// A node of it for lines that are to last: as it was given, since `/dev/dm-0` may be another device after a boot.
    pub node: PathBuf,
    /// What was given is a partition of it, with this name.
    pub partition: Option<String>,
}

/// The disk that `node` names, or that it is a partition of: the kernel takes limits on whole disks only, and takes
/// device-mapper and md devices for such ([`block_device::BlockDevice::disk`]).
pub(super) fn device(root: &HostRoot, node: &Path) -> anyhow::Result<Target> {
    let device = block_device::by_node(root, node)?.ok_or_else(|| {
        Failure::Usage(format!(
            "--device {}: not a block device; give a node such as /dev/sda or /dev/mapper/vg-pg",
            node.display()
        ))
    })?;
    let partition = device.number != device.disk.number;
    Ok(Target {
        node: if partition { Path::new("/dev").join(&device.disk.name) } else { node.to_path_buf() },
        partition: partition.then_some(device.name),
        disk: device.disk,
    })
}

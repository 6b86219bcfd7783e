//! Which instance, which disk is meant.

use std::path::Path;
use std::path::PathBuf;

use pgcalm_host::HostRoot;
use pgcalm_host::block_device;
use pgcalm_host::block_device::Disk;
use pgcalm_host::instance::Instance;

use crate::IsolateError;
use crate::inventory::Inventory;

/// The instance that `name` means: its data directory, its port, or the process id of its postmaster.
pub fn instance<'a>(inventory: &'a Inventory, name: &str) -> anyhow::Result<&'a Instance> {
    let matching: Vec<&Instance> = inventory
        .found
        .instances
        .iter()
        .filter(|instance| is_named(instance, name))
        .collect();
    match matching[..] {
        [instance] => Ok(instance),
        [] => {
            let hidden = if inventory.found.hidden.is_empty() {
                ""
            } else {
                ", or run it as root: some servers may not be looked at"
            };
            Err(IsolateError::Usage(format!(
                "--instance {name}: no such instance; give one of {}{hidden}",
                names(&inventory.found.instances.iter().collect::<Vec<_>>())
            ))
            .into())
        }
        _ => Err(IsolateError::Usage(format!(
            "--instance {name}: {} instances match; give the data directory or the pid of one: {}",
            matching.len(),
            names(&matching)
        ))
        .into()),
    }
}

fn is_named(instance: &Instance, name: &str) -> bool {
    match name.parse::<i32>() {
        Ok(number) => {
            instance.postmaster.pid == number || instance.port.map(i32::from) == Some(number)
        }
        // Components, so that a slash at the end doesn't matter.
        Err(_) => Path::new(name)
            .components()
            .eq(instance.data_directory.components()),
    }
}

fn names(instances: &[&Instance]) -> String {
    if instances.is_empty() {
        return "none: no instance runs on this host".to_string();
    }
    let names: Vec<String> = instances
        .iter()
        .map(|instance| {
            format!(
                "{} (pid {})",
                instance.data_directory.display(),
                instance.postmaster.pid
            )
        })
        .collect();
    names.join(", ")
}

/// What `--device` means.
#[derive(Debug)]
pub struct Target {
    /// The disk to set limits on.
    pub disk: Disk,
    /// A node of it for lines that are to last: as it was given, since `/dev/dm-0` may be another device after a boot.
    pub node: PathBuf,
    /// What was given is a partition of it, with this name.
    pub partition: Option<String>,
}

/// The disk that `node` names, or that it is a partition of: the kernel takes limits on whole disks only, and takes
/// device-mapper and md devices for such ([`block_device::BlockDevice::disk`]).
pub fn device(root: &HostRoot, node: &Path) -> anyhow::Result<Target> {
    let device = block_device::by_node(root, node)?.ok_or_else(|| {
        IsolateError::Usage(format!(
            "--device {}: not a block device; give a node such as /dev/sda or /dev/mapper/vg-pg",
            node.display()
        ))
    })?;
    let partition = device.number != device.disk.number;
    Ok(Target {
        node: if partition {
            Path::new("/dev").join(&device.disk.name)
        } else {
            node.to_path_buf()
        },
        partition: partition.then_some(device.name),
        disk: device.disk,
    })
}

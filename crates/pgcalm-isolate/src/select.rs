//! Which instance, which disk is meant.

use std::path::Path;

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

/// The whole disk that `node` names.
pub fn disk(root: &HostRoot, node: &Path) -> anyhow::Result<Disk> {
    let usage = |what: String| IsolateError::Usage(format!("--device {}: {what}", node.display()));
    let device = block_device::by_node(root, node)?.ok_or_else(|| {
        usage("not a block device; give the node of a disk such as /dev/sda".to_string())
    })?;
    if device.number != device.disk.number {
        return Err(usage(format!(
            "a partition, and limits are set on whole disks; give /dev/{}",
            device.disk.name
        ))
        .into());
    }
    Ok(device.disk)
}

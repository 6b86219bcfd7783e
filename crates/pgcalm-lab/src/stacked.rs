//! What hosts have between a volume and its file system: LVM, LUKS, software RAID.
//!
//! Made with the kernel's own tools on one device: what a logical volume is to the kernel is a linear mapping, and LUKS is a
//! header before an encrypted one. Limits and statistics stay those of the device below.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, bail};
use pgcalm_host::HostRoot;

use crate::interrupt::Interrupt;
use crate::journal::{Change, Journal, Undo};
use crate::options::Stack;
use crate::tool;
use pgcalm_host::Failure;

/// In sectors, behind the header as LUKS2 has it; it is left empty.
const LUKS_HEADER: u64 = 32768;

/// It protects nothing: what it encrypts ends with the run.
const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\
                   202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f";

/// A device on a device.
#[derive(Debug)]
pub(crate) struct Stacked {
    /// E.g. `dm-0`.
    pub name: String,
    _undo: Undo,
}

impl Stacked {
    /// Puts `stack` on the loop device `lower`, which is on `file`; none if there is nothing to put.
    pub(crate) fn create(
        journal: &Journal,
        stack: Stack,
        lower: &str,
        file: &Path,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Option<Self>> {
        if stack == Stack::None {
            return Ok(None);
        }
        let undo = journal.note(Change::StackedOn { backing_file: file.to_path_buf() })?;
        let root = journal.root();
        let sectors: u64 = root
            .read(Path::new("sys/block").join(lower).join("size"))?
            .trim()
            .parse()
            .with_context(|| format!("size of {lower}"))?;
        let name = format!("pgcalm-lab-{}-{lower}", std::process::id());
        match stack {
            Stack::None => {}
            Stack::Lvm => map(&name, &format!("0 {sectors} linear /dev/{lower} 0\n"))?,
            Stack::Luks => map(
                &name,
                &format!(
                    "0 {} crypt aes-xts-plain64 {KEY} 0 /dev/{lower} {LUKS_HEADER}\n",
                    sectors.saturating_sub(LUKS_HEADER)
                ),
            )?,
            Stack::Md1 => {
                tool::run(
                    tool::command("mdadm")
                        .args(["--create", &format!("/dev/md/{name}")])
                        .args(["--run", "--level=1", "--raid-devices=2"])
                        .args(["--metadata=1.2", "--bitmap=internal"])
                        .args([&format!("/dev/{lower}"), "missing"]),
                    interrupt,
                )?;
            }
        }
        let name = holders(root, lower).into_iter().next().with_context(|| format!("nothing was put on {lower}"))?;
        Ok(Some(Self { name, _undo: undo }))
    }
}

/// Fails unless the kernel has what `stack` takes.
pub(crate) fn need(root: &HostRoot, stack: Stack, interrupt: &Interrupt) -> anyhow::Result<()> {
    let (module, file, what) = match stack {
        Stack::None => return Ok(()),
        Stack::Lvm => ("dm_mod", "sys/class/misc/device-mapper", "device-mapper (CONFIG_BLK_DEV_DM)"),
        Stack::Luks => ("dm_crypt", "sys/class/misc/device-mapper", "device-mapper (CONFIG_DM_CRYPT)"),
        Stack::Md1 => ("raid1", "proc/mdstat", "software RAID (CONFIG_MD_RAID1)"),
    };
    let is_there = || root.path(file).exists();
    if !is_there() {
        // One that can't be loaded shows itself right after.
        let _ = tool::run(tool::command("modprobe").arg(module), interrupt);
    }
    if is_there() {
        return Ok(());
    }
    Err(Failure::Host(format!(
        "--stack {}: this kernel has no {what}: leave it out, or use a host or virtual machine that has it",
        stack.name()
    ))
    .into())
}

/// Makes a mapped device; the table goes to the program's input, where no list of processes shows it.
fn map(name: &str, table: &str) -> anyhow::Result<()> {
    let mut child = tool::spawn(
        tool::command("dmsetup")
            .args(["create", "--noudevsync", name])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped()),
    )?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(table.as_bytes()).context("tell dmsetup")?;
    }
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("dmsetup failed ({}): {}", output.status, tool::last_line(&String::from_utf8_lossy(&output.stderr)));
    }
    Ok(())
}

/// Names of the devices that lie on `lower`.
pub(crate) fn holders(root: &HostRoot, lower: &str) -> Vec<String> {
    root.list(format!("sys/block/{lower}/holders")).unwrap_or_default()
}

/// Takes down what lies on `lower`.
pub(crate) fn take_down(root: &HostRoot, lower: &str) -> anyhow::Result<()> {
    // An interrupt must not stop the clean-up that it asked for: hence a fresh flag.
    let interrupt = Interrupt::default();
    for name in holders(root, lower) {
        let node = format!("/dev/{name}");
        if name.starts_with("md") {
            tool::run(tool::command("mdadm").args(["--stop", &node]), &interrupt)?;
        } else {
            let mapped = root.read(format!("sys/block/{name}/dm/name"))?;
            tool::run(tool::command("dmsetup").args(["remove", "--retry", mapped.trim()]), &interrupt)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_lacks_it_is_told_in_one_line_with_what_is_missing() {
        let root = pgcalm_host::fake::FakeHost::default();
        let interrupt = Interrupt::default();
        need(&root, Stack::None, &interrupt).unwrap();
        for (stack, part) in [
            (Stack::Lvm, "--stack lvm: this kernel has no device-mapper"),
            (Stack::Luks, "CONFIG_DM_CRYPT"),
            (Stack::Md1, "CONFIG_MD_RAID1"),
        ] {
            let error = need(&root, stack, &interrupt).unwrap_err();
            assert!(matches!(error.downcast_ref(), Some(Failure::Host(_))));
            assert!(error.to_string().contains(part), "{error:#}");
        }
        root.put("proc/mdstat", "");
        need(&root, Stack::Md1, &interrupt).unwrap();
    }
}

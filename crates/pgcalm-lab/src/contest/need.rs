//! What a contest needs of the host, asked for before anything is changed.

use crate::LabError;
use crate::contest::Options;
use crate::installation::Installation;
use crate::interrupt::Interrupt;
use crate::lab_dir::LabDir;
use crate::template::Template;

/// Loop devices, mounts, caps and sysctls.
pub(crate) fn root() -> Result<(), LabError> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    Err(LabError::Host(
        "needs root for loop devices, mounts, cgroup limits and vm sysctls: run it with sudo"
            .to_string(),
    ))
}

/// The server module, if a contestant loads it.
pub(crate) fn module(
    options: &Options,
    installation: &Installation,
    interrupt: &Interrupt,
) -> anyhow::Result<()> {
    let Some(contestant) = options.contestants.iter().find(|c| c.module) else {
        return Ok(());
    };
    let module = installation.module_dir(interrupt)?.join("pg_calm.so");
    if module.exists() {
        return Ok(());
    }
    Err(LabError::Host(format!(
        "contestant {}: {} not found: run make install in extension/pg_calm, or choose others with --contestants \
         stock,stock-tuned",
        contestant.name,
        module.display()
    ))
    .into())
}

/// Room for the devices and the loaded table.
pub(crate) fn space(
    options: &Options,
    lab: &LabDir,
    installation: &Installation,
) -> anyhow::Result<()> {
    let space = rustix::fs::statvfs(lab.path())?;
    let available = space.f_bavail * space.f_frsize;
    let template = if Template::place(lab, installation, options.rows).exists() {
        0
    } else {
        options.template_size().bytes()
    };
    let needed = options.data_size().bytes() + options.wal_size().bytes() + template;
    if needed > available {
        return Err(LabError::Host(format!(
            "--dir {}: {} MiB needed, {} MiB free: use fewer --rows or --seconds, or another --dir",
            lab.path().display(),
            needed >> 20,
            available >> 20
        ))
        .into());
    }
    Ok(())
}

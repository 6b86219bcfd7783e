//! What a contest needs of the host, asked for before anything is changed.

use pgcalm_host::HostRoot;
use pgcalm_host::meminfo;

use crate::LabError;
use crate::contest::Options;
use crate::device_files::need_memory;
use crate::installation::Installation;
use crate::interrupt::Interrupt;
use crate::lab_dir::LabDir;
use crate::memory;
use crate::options::DeviceStore;
use crate::progress::Progress;
use crate::template::Template;

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

/// Room for the devices and the loaded table, if need be that of tables that were loaded for other runs, and in memory if that is where the devices are.
pub(crate) fn space(
    root: &HostRoot,
    options: &Options,
    lab: &LabDir,
    installation: &Installation,
    progress: &Progress,
) -> anyhow::Result<()> {
    let place = Template::place(lab, installation, &options.preparation()?);
    let template = if place.exists() {
        0
    } else {
        options.template_size().bytes()
    };
    let devices = match options.devices {
        DeviceStore::Disk => options.device_sizes().bytes(),
        DeviceStore::Memory => {
            let cached = options.template_size().bytes() + options.shared_buffers.bytes();
            need_memory(
                meminfo::available_kib(root)?,
                options.device_sizes(),
                cached,
            )?;
            0
        }
    };
    if let Some(size) = options.memory {
        memory::need(root, size)?;
    }
    let needed = devices + template;
    Template::make_room(lab, &place, needed, || lab.space(), progress)?;
    lab.need_space(needed, "fewer --rows or --seconds")
}

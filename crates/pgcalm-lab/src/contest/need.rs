//! What a contest needs of the host, asked for before anything is changed.

use pgcalm_host::meminfo;

use crate::contest::Options;
use crate::device_files::need_memory;
use crate::options::DeviceStore;
use crate::stage::Stage;
use crate::template::Template;
use crate::{memory, stacked};

/// What the kernel needs for the stack that is asked for.
pub(crate) fn stack(stage: &Stage<'_>, options: &Options) -> anyhow::Result<()> {
    stacked::need(stage.root(), options.stack, stage.interrupt)
}

/// Room for the devices and the loaded table, if need be that of tables that were loaded for other runs, and in memory if that is where the devices are.
pub(crate) fn space(stage: &Stage<'_>, options: &Options) -> anyhow::Result<()> {
    let lab = &stage.dir;
    let place = Template::place(lab, &stage.installation, &options.preparation()?);
    let template = if place.exists() { 0 } else { options.template_size().bytes() };
    let devices = match options.devices {
        DeviceStore::Disk => options.device_sizes().bytes(),
        DeviceStore::Memory => {
            let cached = options.template_size().bytes() + options.shared_buffers.bytes();
            need_memory(meminfo::available_kib(stage.root())?, options.device_sizes(), cached)?;
            0
        }
    };
    if let Some(size) = options.memory {
        memory::need(stage.root(), size)?;
    }
    let needed = devices + template;
    Template::make_room(lab, &place, needed, || lab.space(), &stage.progress)?;
    lab.need_space(needed, "fewer --rows or --seconds")
}

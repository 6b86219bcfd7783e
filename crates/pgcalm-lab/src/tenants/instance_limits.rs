//! What an instance may use of the host: memory, time of processors, and of devices that it shares.

use std::path::Path;

use crate::cap::Capper;
use crate::control_group::ControlGroup;
use crate::interrupt::Interrupt;
use crate::journal::Journal;
use crate::options::Warm;
use crate::progress::Progress;
use crate::tenants::options::{Options, Ownership};
use crate::{cpu, memory, warm};

/// The control groups of one instance, none where its options ask for none. They go when this is dropped, after its server.
#[derive(Debug)]
pub(super) struct InstanceLimits {
    // Where v2 has one group for both, the memory's is the one that was made, and goes last.
    cpu: Option<ControlGroup>,
    memory: Option<ControlGroup>,
    blkio: Option<Capper>,
}

impl InstanceLimits {
    pub(super) fn create(journal: &Journal, options: &Options, number: u32) -> anyhow::Result<Self> {
        let part = format!("-{number}");
        let memory = match options.instance_memory {
            Some(size) => Some(memory::group(journal, size, "instance-memory", &part, None)?),
            None => None,
        };
        let existing = memory.as_ref().and_then(ControlGroup::of_v2);
        let cpu = match options.instance_cpus {
            Some(cpus) => Some(cpu::group(journal, cpus, "instance-cpus", &part, existing)?),
            None => None,
        };
        let blkio = match options.file_systems {
            Ownership::Own => None,
            Ownership::Shared => Some(Capper::of_own_group(journal, &part)?),
        };
        Ok(Self { cpu, memory, blkio })
    }

    /// Fills the page cache; it is charged to the instance.
    pub(super) fn warm(&self, cluster: &Path, progress: &Progress, interrupt: &Interrupt) -> anyhow::Result<()> {
        match &self.memory {
            None => warm::warm(cluster, Warm::Random, progress, interrupt),
            Some(memory) => warm::warm_in(memory, cluster, Warm::Random, progress, interrupt),
        }
    }

    /// Takes the server `pid` and its processes into the groups.
    pub(super) fn admit(&self, pid: i32) -> anyhow::Result<()> {
        [&self.memory, &self.cpu].into_iter().flatten().try_for_each(|group| group.admit(pid))?;
        self.blkio.iter().try_for_each(|capper| capper.admit(pid))
    }

    /// What caps this instance on devices that others use as well; `None` where it has its own.
    pub(super) fn capper(&self) -> Option<&Capper> {
        self.blkio.as_ref()
    }
}

use pgcalm_host::meminfo::MemInfo;
use pgcalm_host::{HostRoot, vm_sysctl};

use crate::installation::Installation;
use crate::report::Host;

/// CPUs and MiB of memory of the machine.
pub(crate) fn machine(root: &HostRoot) -> anyhow::Result<(u32, u64)> {
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    Ok((cpus, MemInfo::read(root)?.total_kib >> 10))
}

/// What a report says about the machine; `module` is the sum of the server module, `cap_mechanism` how devices are capped.
pub(crate) fn collect(
    root: &HostRoot,
    installation: &Installation,
    module: Option<String>,
    started_at: String,
    cap_mechanism: &str,
) -> anyhow::Result<Host> {
    let (cpus, memory_mib) = machine(root)?;
    Ok(Host {
        kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        cpus,
        memory_mib,
        postgres: installation.version.clone(),
        pgcalm: env!("CARGO_PKG_VERSION").to_string(),
        module,
        started_at,
        sysctls: vm_sysctl::read_all(root)?.into_iter().map(|(name, value)| (format!("vm.{name}"), value)).collect(),
        cap_mechanism: cap_mechanism.to_string(),
    })
}

//! What the host tells: the device below the data directory and its caps, and the kernel's limits for dirty pages.

use pgcalm_connect::Client;
use pgcalm_host::HostRoot;
use pgcalm_host::Unknown;
use pgcalm_host::block_device;
use pgcalm_host::block_device::DeviceStat;
use pgcalm_host::block_device::Disk;
use pgcalm_host::cgroup::Hierarchy;
use pgcalm_host::instance;
use pgcalm_host::instance::Instance;
use pgcalm_host::instance::Role;
use pgcalm_host::process;
use pgcalm_host::throttle;
use pgcalm_host::throttle::Kind;
use pgcalm_host::throttle::Limit;
use pgcalm_host::vm_sysctl;

use crate::observe::shadow::ModuleCaps;
use crate::report::Device;
use crate::report::Kernel;

/// What counts as one operation where the device does not tell.
const OPERATION_BYTES: u64 = 1 << 20;

/// The device of the data directory with the caps that the module has found, or else those of the server's control groups; and whether
/// WAL is on it, too.
pub(super) fn device(
    root: &HostRoot,
    instance: Option<&Instance>,
    module: Option<&ModuleCaps>,
) -> anyhow::Result<(Device, bool)> {
    let mut has_wal = false;
    let mut device = Device {
        name: String::new(),
        write_iops: None,
        write_bytes_per_s: None,
        all_iops: None,
        all_bytes_per_s: None,
        operation_bytes: OPERATION_BYTES,
        max_segments: 0,
        caps_source: "no cap found".to_string(),
        operations_per_s: 0.0,
        mib_per_s: 0.0,
        reads_per_s: 0.0,
        read_mib_per_s: 0.0,
        wal_writes_per_s: 0.0,
        other_mib_per_s: 0.0,
        counted_times: 1,
    };
    let on = |role| instance.and_then(|instance| on_disk(instance, role));
    if let (Some(instance), Some(disk)) = (instance, on(Role::Data)) {
        device.name = disk.name.clone();
        has_wal = on(Role::Wal).is_some_and(|wal| wal.name == disk.name);
        device.counted_times = counted_times(root, &disk.name);
        if let Some(bytes) = largest_operation(root, &disk.name) {
            device.operation_bytes = bytes;
        }
        device.max_segments = max_segments(root, &disk.name).unwrap_or(0);
        let pid = instance.postmaster.pid.to_string();
        match limits(root, &pid, &disk.number) {
            Ok((limits, unknown)) => {
                let cap = |kind| throttle::tightest(&limits, kind);
                let value = |kind| cap(kind).map(|limit| limit.value as f64);
                device.write_iops = value(Kind::WriteIops);
                device.write_bytes_per_s = value(Kind::WriteBps);
                let found = cap(Kind::WriteIops).or_else(|| cap(Kind::WriteBps));
                if let Some(limit) = found {
                    device.caps_source = limit.file.display().to_string();
                } else if let Some(why) = unknown.first() {
                    device.caps_source = format!("not known: {why}");
                }
            }
            Err(error) => device.caps_source = format!("not known: {error}"),
        }
    }
    if let Some(module) = module {
        device.write_iops = module.write_iops;
        device.write_bytes_per_s = module.write_bytes_per_s;
        device.all_iops = module.all_iops;
        device.all_bytes_per_s = module.all_bytes_per_s;
        device.operation_bytes = module.operation_bytes.unwrap_or(device.operation_bytes);
        device.caps_source = module.source.clone();
    }
    Ok((device, has_wal))
}

/// The limits of process `pid` on disk `number`, and why there may be others.
fn limits(root: &HostRoot, pid: &str, number: &str) -> pgcalm_host::Result<(Vec<Limit>, Vec<Unknown>)> {
    let Some(hierarchy) = Hierarchy::of_block_io(root)? else {
        return Ok(Default::default());
    };
    let group = hierarchy.group_of(root, pid)?;
    Ok(group.map_or_else(Default::default, |group| throttle::limits(root, &hierarchy, &group, number)))
}

/// The instance of this host that serves a session: another may have its data directory by name, as in containers.
pub(super) fn instance(root: &HostRoot, client: &mut Client) -> anyhow::Result<Option<Instance>> {
    let backend = client.query_one("SELECT pg_backend_pid()", &[])?.get::<_, i32>(0);
    let table = process::table(root)?;
    let found = instance::find(root, &table)?.instances;
    Ok(found.into_iter().find(|instance| instance::serves(root, &table, instance.postmaster.pid, backend)))
}

fn on_disk(instance: &Instance, role: Role) -> Option<&Disk> {
    let place = instance.places.iter().find(|place| place.role == role)?;
    Some(&place.device.there()?.disk)
}

/// A loop device's bytes are written to the disk that holds its file, too, and those of a device made of others to these.
fn counted_times(root: &HostRoot, name: &str) -> u32 {
    let made_of_others = root.list(format!("sys/block/{name}/slaves")).is_ok_and(|slaves| !slaves.is_empty());
    let is_loop = root.path(format!("sys/block/{name}/loop")).exists();
    1 + u32::from(made_of_others || is_loop)
}

fn largest_operation(root: &HostRoot, name: &str) -> Option<u64> {
    let kib: u64 = root.read(block_device::max_sectors_path(name)).ok()?.trim().parse().ok()?;
    Some(kib << 10)
}

fn max_segments(root: &HostRoot, name: &str) -> Option<u32> {
    root.read(block_device::max_segments_path(name)).ok()?.trim().parse().ok()
}

/// How the kernel treats dirty pages.
pub(super) fn kernel(root: &HostRoot) -> anyhow::Result<Kernel> {
    let vmstat = root.read("proc/vmstat")?;
    let page_size = super::page_cache::page_size();
    let pages =
        |name: &str| vmstat.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok()).unwrap_or(0);
    let seconds =
        |name: &str| -> anyhow::Result<f64> { Ok(vm_sysctl::read(root, name)?.parse::<f64>().unwrap_or(0.0) / 100.0) };
    Ok(Kernel {
        background_bytes: pages("nr_dirty_background_threshold ") * page_size,
        limit_bytes: pages("nr_dirty_threshold ") * page_size,
        expire_s: seconds("dirty_expire_centisecs")?,
        interval_s: seconds("dirty_writeback_centisecs")?,
    })
}

/// Cumulative counters of the device and of all disks.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counters {
    operations: u64,
    bytes: u64,
    reads: u64,
    read_bytes: u64,
    bytes_of_all: u64,
}

impl Counters {
    pub fn read(root: &HostRoot, device: &str) -> anyhow::Result<Self> {
        let mut counters = Self::default();
        for name in root.list("sys/block")? {
            // Devices come and go.
            let Ok(stat) = DeviceStat::read(root, &name) else {
                continue;
            };
            counters.bytes_of_all += stat.write_bytes;
            if name == device {
                counters.operations = stat.write_ops;
                counters.bytes = stat.write_bytes;
                counters.reads = stat.read_ops;
                counters.read_bytes = stat.read_bytes;
            }
        }
        Ok(counters)
    }

    /// Tells `device` what came since `earlier`, per second.
    pub fn tell(&self, earlier: &Self, seconds: f64, device: &mut Device) {
        let rate = |counter: fn(&Self) -> u64| counter(self).saturating_sub(counter(earlier)) as f64 / seconds;
        let mib = f64::from(1 << 20);
        let written = rate(|counters| counters.bytes);
        let others = rate(|counters| counters.bytes_of_all) - written * f64::from(device.counted_times);
        device.operations_per_s = rate(|counters| counters.operations);
        device.mib_per_s = written / mib;
        device.reads_per_s = rate(|counters| counters.reads);
        device.read_mib_per_s = rate(|counters| counters.read_bytes) / mib;
        device.other_mib_per_s = others.max(0.0) / mib;
    }
}

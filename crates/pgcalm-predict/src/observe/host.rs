//! What the host tells: the device below the data directory and its caps.

use pgcalm_host::block_device::{BlockDevice, DeviceStat, Disk};
use pgcalm_host::instance::{Instance, Role};
use pgcalm_host::throttle::Kind;
use pgcalm_host::{HostRoot, block_device, instance, process, throttle};
use pgcalm_postgres::Client;

use crate::observe::shadow::ModuleCaps;
use crate::report::{Device, NOT_KNOWN};

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
        caps_source: format!("{NOT_KNOWN}: the device of the data directory can't be seen from here"),
        counted: false,
        operations_per_s: 0.0,
        mib_per_s: 0.0,
        reads_per_s: 0.0,
        read_mib_per_s: 0.0,
        wal_writes_per_s: 0.0,
        wal_is_uncounted: false,
    };
    let on = |role| instance.and_then(|instance| below(instance, role));
    if let (Some(instance), Some(found)) = (instance, on(Role::Data)) {
        device.name = found.disk.name.clone();
        has_wal = on(Role::Wal).is_some_and(|wal| wal.disk == found.disk);
        let pid = instance.postmaster.pid.to_string();
        match throttle::felt_by(root, &pid, found) {
            Ok((limits, unknown)) => {
                let cap = |kind| throttle::tightest(&limits, kind);
                let value = |kind| cap(kind).map(|limit| limit.value as f64);
                device.write_iops = value(Kind::WriteIops);
                device.write_bytes_per_s = value(Kind::WriteBps);
                let found = cap(Kind::WriteIops).or_else(|| cap(Kind::WriteBps));
                device.caps_source = match (found, unknown.first()) {
                    (Some(limit), _) => limit.file.display().to_string(),
                    (None, Some(why)) => format!("{NOT_KNOWN}: {why}"),
                    (None, None) => "no cap found".to_string(),
                };
            }
            Err(error) => device.caps_source = format!("{NOT_KNOWN}: {error}"),
        }
    }
    if let Some(module) = module {
        device.write_iops = module.write_iops;
        device.write_bytes_per_s = module.write_bytes_per_s;
        device.all_iops = module.all_iops;
        device.all_bytes_per_s = module.all_bytes_per_s;
        device.caps_source = module.source.clone();
    }
    Ok((device, has_wal))
}

/// The instance of this host that serves a session: another may have its data directory by name, as in containers.
pub(super) fn instance(root: &HostRoot, client: &mut Client) -> anyhow::Result<Option<Instance>> {
    let backend = client.query_one("SELECT pg_backend_pid()", &[])?.get::<_, i32>(0);
    let table = process::table(root)?;
    let found = instance::find(root, &table)?.instances;
    Ok(instance::serving(root, &table, found, |instance| instance.postmaster.pid, backend))
}

fn below(instance: &Instance, role: Role) -> Option<&BlockDevice> {
    instance.places.iter().find(|place| place.role == role)?.device.there()
}

/// The disk whose counters tell what a volume does for `device`: device-mapper counts flushes as writes, and not how many, so
/// that what stands on one disk alone is looked through.
fn counted(device: &BlockDevice) -> &Disk {
    match device.slaves.as_slice() {
        [only] => counted(only),
        _ => &device.disk,
    }
}

/// Cumulative counters of the device; none if they can't be seen, or are off.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counters(Option<DeviceStat>);

impl Counters {
    /// Of the device below the data directory.
    pub(super) fn read(root: &HostRoot, instance: Option<&Instance>) -> Self {
        Self(instance.and_then(|instance| below(instance, Role::Data)).and_then(|device| Self::of(root, device)))
    }

    fn of(root: &HostRoot, device: &BlockDevice) -> Option<DeviceStat> {
        let name = &counted(device).name;
        let stat = DeviceStat::read(root, name).ok()?;
        block_device::counts(root, name, &stat).is_ok().then_some(stat)
    }

    /// Tells `device` what came since `earlier`, per second.
    pub(super) fn tell(&self, earlier: &Self, seconds: f64, device: &mut Device) {
        let (Some(now), Some(then)) = (self.0, earlier.0) else { return };
        let rate = |counter: fn(&DeviceStat) -> u64| counter(&now).saturating_sub(counter(&then)) as f64 / seconds;
        let mib = f64::from(1 << 20);
        device.counted = true;
        // Nearly all flushes are requests of their own, which no cap of a volume counts.
        device.operations_per_s = (rate(|stat| stat.write_ops) - rate(|stat| stat.flush_ops.unwrap_or(0))).max(0.0);
        device.mib_per_s = rate(|stat| stat.write_bytes) / mib;
        device.reads_per_s = rate(|stat| stat.read_ops);
        device.read_mib_per_s = rate(|stat| stat.read_bytes) / mib;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgcalm_host::fake::FakeHost;

    /// The upper one counts each flush among its writes, and no flush.
    #[test]
    fn flushes_of_a_mapped_device_are_told_from_writes_by_its_disk() {
        let root = FakeHost::default();
        let look = |writes: u64, flushes: u64| {
            let stat = |flushes| format!("5 0 40 0 {writes} 0 8000 0 0 0 0 0 0 0 0 {flushes} 0\n");
            root.put("sys/block/dm-0/stat", &stat(0));
            root.put("sys/block/sda/stat", &stat(flushes));
            let device = |name: &str, slaves| {
                let disk = Disk { name: name.to_string(), number: String::new() };
                BlockDevice { name: disk.name.clone(), number: String::new(), disk, slaves }
            };
            Counters(Counters::of(&root, &device("dm-0", vec![device("sda", Vec::new())])))
        };
        let (before, after) = (look(100, 100), look(500, 400));
        let mut device = crate::model::fixture::observation().device;
        after.tell(&before, 1.0, &mut device);
        assert_eq!(device.operations_per_s, 100.0);
    }
}

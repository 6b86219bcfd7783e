//! What the devices do meanwhile: a limit shows there as a rate far below what the device could do.

use std::time::Instant;

use pgcalm_host::HostRoot;
use pgcalm_host::block_device::DeviceStat;

use crate::device::Device;
use crate::interference::report::DeviceRates;

/// Counters of the devices when it began.
#[derive(Debug)]
pub(super) struct Counters {
    root: HostRoot,
    since: Instant,
    devices: Vec<(&'static str, String, DeviceStat)>,
}

impl Counters {
    /// Reads them; each device has the name that the report gives it.
    pub(super) fn read<'a>(
        root: &HostRoot,
        devices: impl IntoIterator<Item = (&'static str, &'a Device)>,
    ) -> anyhow::Result<Self> {
        let read = |(role, device): (&'static str, &Device)| {
            Ok((role, device.name.clone(), DeviceStat::read(root, &device.name)?))
        };
        let devices = devices.into_iter().map(read).collect::<anyhow::Result<_>>()?;
        Ok(Self { root: root.clone(), since: Instant::now(), devices })
    }

    /// Means since then.
    pub(super) fn rates(&self) -> anyhow::Result<Vec<DeviceRates>> {
        let seconds = self.since.elapsed().as_secs_f64();
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        let rates = |(role, name, before): &(&str, String, DeviceStat)| {
            let now = DeviceStat::read(&self.root, name)?;
            Ok(DeviceRates {
                device: role.to_string(),
                writes_per_s: rate(now.write_ops, before.write_ops),
                write_bytes_per_s: rate(now.write_bytes, before.write_bytes),
                reads_per_s: rate(now.read_ops, before.read_ops),
                read_bytes_per_s: rate(now.read_bytes, before.read_bytes),
            })
        };
        self.devices.iter().map(rates).collect()
    }
}

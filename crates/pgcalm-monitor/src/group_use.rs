//! How much of a control group's limits the group itself uses: the disk's counters are of all that use the disk.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use pgcalm_host::HostRoot;
use pgcalm_host::throttle::{self, Kind};

use crate::model::{DeviceRates, Host};

/// The file of a limit, its device, and what it limits.
type Key = (String, String, &'static str);

/// The counters of groups that have limits, since the last look.
#[derive(Debug, Default)]
pub(crate) struct GroupUse {
    counted: BTreeMap<Key, Counted>,
}

impl GroupUse {
    /// Notes in the caps of all volumes what their groups have used of them; nothing at the first look.
    pub(crate) fn read(&mut self, root: &HostRoot, host: &mut Host) {
        let now = Instant::now();
        let before = std::mem::take(&mut self.counted);
        let Host { devices, instances, .. } = host;
        for volume in instances.iter_mut().flat_map(|instance| &mut instance.volumes) {
            let disk = devices.iter().find(|device| volume.disk.as_ref() == Some(&device.name));
            let rates = disk.and_then(|disk| disk.rates);
            let caps = [
                (Kind::ReadIops, &mut volume.caps.read_operations),
                (Kind::ReadBps, &mut volume.caps.read_bytes),
                (Kind::WriteIops, &mut volume.caps.write_operations),
                (Kind::WriteBps, &mut volume.caps.write_bytes),
            ];
            for (kind, cap) in caps {
                let Some(cap) = cap.as_mut().filter(|cap| cap.is_of_group()) else { continue };
                let key = (cap.source.clone(), cap.device.clone(), kind.name());
                // Instances may share a group.
                let counted = match self.counted.get(&key) {
                    Some(counted) => *counted,
                    None => {
                        let count = throttle::done(root, Path::new(&cap.source), &cap.device, kind);
                        let Some(count) = count else { continue };
                        let counted = Counted::after(before.get(&key), now, count, room(kind, cap.per_second, rates));
                        self.counted.insert(key, counted);
                        counted
                    }
                };
                cap.used_per_second = counted.used_per_second;
            }
        }
    }
}

/// What of a kind can get through a limit per second, on a disk that does so much: of bytes no more than all that it does, while
/// another limit holds the group; of operations more, as the disk takes several as one. What does nothing lets nothing through.
fn room(kind: Kind, per_second: u64, rates: Option<DeviceRates>) -> f64 {
    let limit = per_second as f64;
    let Some(rates) = rates else { return limit };
    match kind {
        Kind::ReadBps => limit.min(rates.read_bytes_per_second),
        Kind::WriteBps => limit.min(rates.write_bytes_per_second),
        Kind::ReadIops | Kind::WriteIops => {
            let is_idle = rates.read_operations_per_second + rates.write_operations_per_second == 0.0;
            if is_idle { 0.0 } else { limit }
        }
    }
}

/// What a group had done at a look.
#[derive(Debug, Clone, Copy)]
struct Counted {
    when: Instant,
    count: u64,
    /// What of that its limit still holds.
    held: f64,
    used_per_second: Option<f64>,
}

impl Counted {
    /// v1 counts what a group asks for, as all pages of an fsync at once; `room` per second gets through, and the rest is held. On v2,
    /// which counts what has passed, nothing is left to be held.
    fn after(before: Option<&Self>, when: Instant, count: u64, room: f64) -> Self {
        let first = Self { when, count, held: 0.0, used_per_second: None };
        let Some(before) = before else { return first };
        let seconds = when.duration_since(before.when).as_secs_f64();
        let Some(grown) = count.checked_sub(before.count).filter(|_| seconds > 0.0) else { return first };
        let asked = before.held + grown as f64;
        let used = asked.min(room * seconds);
        // While a disk does nothing no limit holds anything.
        let held = if room > 0.0 { asked - used } else { 0.0 };
        Self { when, count, held, used_per_second: Some(used / seconds) }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pgcalm_host::fake::FakeHost;

    use super::*;
    use crate::model::{Cap, Caps, Instance, Volume};

    #[test]
    fn what_is_asked_for_at_once_is_used_as_the_limit_lets_it_through() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let first = Counted::after(None, start, 1000, 60.0);
        assert_eq!(first.used_per_second, None);
        let burst = Counted::after(Some(&first), at(1), 1100, 60.0);
        assert_eq!((burst.used_per_second, burst.held), (Some(60.0), 40.0));
        let rest = Counted::after(Some(&burst), at(2), 1110, 60.0);
        assert_eq!((rest.used_per_second, rest.held), (Some(50.0), 0.0));
        let idle = Counted::after(Some(&burst), at(2), 1100, 0.0);
        assert_eq!((idle.used_per_second, idle.held), (Some(0.0), 0.0));
        // A group that was made anew counts from 0.
        assert_eq!(Counted::after(Some(&burst), at(2), 3, 60.0).used_per_second, None);
    }

    #[test]
    fn of_bytes_no_more_gets_through_than_the_disk_does_while_the_limit_on_operations_holds_them() {
        let rates = DeviceRates {
            write_operations_per_second: 3000.0,
            write_bytes_per_second: 24_000_000.0,
            ..DeviceRates::default()
        };
        assert_eq!(room(Kind::WriteBps, 125_000_000, Some(rates)), 24_000_000.0);
        assert_eq!(room(Kind::WriteIops, 4000, Some(rates)), 4000.0);
        assert_eq!(room(Kind::WriteIops, 4000, Some(DeviceRates::default())), 0.0);
        assert_eq!(room(Kind::WriteBps, 125_000_000, None), 125_000_000.0);
    }

    #[test]
    fn a_cap_of_a_group_has_the_group_s_own_use_and_another_none() {
        let root = FakeHost::default();
        let served = "cg/a/blkio.throttle.io_serviced";
        root.put(served, "8:0 Write 5\n");
        let cap = |device: &str| {
            let source = "/cg/a/blkio.throttle.write_iops_device".to_string();
            Some(Cap { per_second: 1_000_000, source, device: device.to_string(), used_per_second: None })
        };
        let volume = Volume {
            caps: Caps { write_operations: cap("8:0"), read_operations: cap(""), ..Caps::default() },
            ..Volume::default()
        };
        let instance = Instance { volumes: vec![volume], ..Instance::default() };
        let mut host = Host { instances: vec![instance.clone(), instance], ..Host::default() };
        let mut group_use = GroupUse::default();
        group_use.read(&root, &mut host);
        let used = |host: &Host, of: fn(&Caps) -> &Option<Cap>| {
            let volumes = host.instances.iter().flat_map(|instance| &instance.volumes);
            volumes.map(|volume| of(&volume.caps).as_ref().unwrap().used_per_second).collect::<Vec<_>>()
        };
        assert_eq!(used(&host, |caps| &caps.write_operations), [None::<f64>; 2]);
        root.put(served, "8:0 Write 7\n");
        group_use.read(&root, &mut host);
        let writes = used(&host, |caps| &caps.write_operations);
        assert!(writes[0].is_some_and(|used| used > 0.0) && writes[0] == writes[1], "{writes:?}");
        assert_eq!(used(&host, |caps| &caps.read_operations), [None::<f64>; 2]);
    }
}

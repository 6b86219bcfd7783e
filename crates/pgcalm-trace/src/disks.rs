//! Disks by the kernel's device numbers.

use std::collections::HashMap;

use pgcalm_host::HostRoot;

use crate::why::report::Disk;

/// A device number as the kernel has it internally, MKDEV of include/linux/kdev_t.h.
pub fn number(major: u32, minor: u32) -> u32 {
    major << 20 | minor
}

/// The disk of each partition, both as kernel's device numbers.
pub fn partitions(root: &HostRoot) -> HashMap<u32, u32> {
    let mut disks = HashMap::new();
    for disk in root.list("sys/block").unwrap_or_default() {
        let Some(whole) = read_number(root, &format!("sys/block/{disk}/dev")) else { continue };
        for entry in root.list(format!("sys/block/{disk}")).unwrap_or_default() {
            let directory = format!("sys/block/{disk}/{entry}");
            if root.path(format!("{directory}/partition")).exists()
                && let Some(part) = read_number(root, &format!("{directory}/dev"))
            {
                disks.insert(part, whole);
            }
        }
    }
    disks
}

/// The names of all disks.
pub fn names(root: &HostRoot) -> HashMap<u32, String> {
    root.list("sys/block")
        .unwrap_or_default()
        .into_iter()
        .filter_map(|disk| Some((read_number(root, &format!("sys/block/{disk}/dev"))?, disk)))
        .collect()
}

/// What a disk has done since the host was started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Requests completed.
    pub requests: u64,
    /// Time of these from queue to completion, ms.
    pub service_ms: u64,
    /// Time in which there was a request under way, ms.
    pub busy_ms: u64,
}

/// Statistics of all disks by name, from /proc/diskstats (Documentation/admin-guide/iostats.rst of the kernel).
pub fn statistics(root: &HostRoot) -> HashMap<String, Statistics> {
    let disks = root.list("sys/block").unwrap_or_default();
    let text = root.read("proc/diskstats").unwrap_or_default();
    text.lines()
        .filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let name = *words.get(2)?;
            // Partitions are part of their disk.
            if !disks.iter().any(|disk| disk == name) {
                return None;
            }
            let field = |number: usize| words.get(number)?.parse::<u64>().ok();
            let statistics =
                Statistics { requests: field(3)? + field(7)?, service_ms: field(6)? + field(10)?, busy_ms: field(12)? };
            Some((name.to_string(), statistics))
        })
        .collect()
}

/// What disks did between two looks, by name; those that had requests.
pub fn between(before: &HashMap<String, Statistics>, now: &HashMap<String, Statistics>, length_s: f64) -> Vec<Disk> {
    let mut found: Vec<Disk> = now
        .iter()
        .filter_map(|(name, now)| {
            let before = before.get(name).copied().unwrap_or_default();
            let requests = now.requests.saturating_sub(before.requests);
            let service_ms = now.service_ms.saturating_sub(before.service_ms) as f64;
            let busy_s = now.busy_ms.saturating_sub(before.busy_ms) as f64 / 1000.0;
            (requests > 0).then(|| Disk {
                name: name.clone(),
                busy: (busy_s / length_s.max(0.001)).clamp(0.0, 1.0),
                requests,
                service_ms: service_ms / requests as f64,
                throttled_bios: 0,
            })
        })
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

fn read_number(root: &HostRoot, path: &str) -> Option<u32> {
    let text = root.read(path).ok()?;
    let (major, minor) = text.trim().split_once(':')?;
    Some(number(major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgcalm_host::fake::FakeHost;

    #[test]
    fn statistics_are_those_of_disks_and_not_of_partitions() {
        let root = FakeHost::default();
        root.make("sys/block/vda");
        root.put(
            "proc/diskstats",
            " 254 0 vda 100 1 800 40 50 2 400 20 0 30 60 0 0 0 0 0 0\n\
             \x20254 1 vda1 90 1 800 40 50 2 400 20 0 30 60 0 0 0 0 0 0\n",
        );
        assert_eq!(
            statistics(&root),
            HashMap::from([("vda".to_string(), Statistics { requests: 150, service_ms: 60, busy_ms: 30 })])
        );
    }

    #[test]
    fn partitions_lead_to_their_disk() {
        let root = FakeHost::with(&[
            ("sys/block/vda/dev", "254:0\n"),
            ("sys/block/vda/vda1/dev", "254:1\n"),
            ("sys/block/vda/vda1/partition", "1\n"),
            ("sys/block/vda/queue/dev", "9:9\n"),
            ("sys/block/loop0/dev", "7:0\n"),
        ]);
        assert_eq!(partitions(&root), HashMap::from([(number(254, 1), number(254, 0))]));
        assert_eq!(names(&root)[&number(7, 0)], "loop0");
    }
}

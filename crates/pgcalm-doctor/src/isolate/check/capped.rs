use std::collections::BTreeMap;
use std::path::Path;

use super::{described, is_on_writes, write_limits};
use crate::isolate::report::{Disk, Hazard, Instance, Place};

/// WAL on a disk on which its instance is limited together with data: each commit waits behind data in the queue. Two
/// device-mapper or md devices share the disks that both are made of.
pub(super) fn wal(instances: &[Instance]) -> Vec<Hazard> {
    instances
        .iter()
        .filter_map(|instance| {
            let wal = of_role(instance, "wal").next()?;
            let data = || of_role(instance, "data").chain(of_role(instance, "tablespace"));
            let mut evidence = Vec::new();
            for disk in distinct(wal.disks()) {
                let Some(shares) = data().find(|place| place.disks().any(|d| d == disk)) else { continue };
                let limits: Vec<String> = write_limits(instance, disk).map(described).collect();
                if !limits.is_empty() {
                    evidence.push(format!("{} and {} are both on {}", wal.path, shares.path, disk.name));
                    evidence.extend(limits);
                }
            }
            if evidence.is_empty() {
                return None;
            }
            Some(Hazard {
                name: "wal-on-capped-device".to_string(),
                instances: vec![instance.data_directory.clone()],
                evidence,
                cure: "move pg_wal to a disk of its own (initdb --waldir, or a symbolic link made while the server is \
                       down), with a limit of its own if it needs one"
                    .to_string(),
            })
        })
        .collect()
}

/// A log file on a disk on which its instance is limited: who writes the log may wait for that disk, and with it all
/// that log.
pub(super) fn logs(instances: &[Instance]) -> Vec<Hazard> {
    instances
        .iter()
        .flat_map(|instance| {
            of_role(instance, "log").filter_map(|log| {
                let mut evidence = Vec::new();
                for disk in distinct(log.disks()) {
                    let limits: Vec<String> = write_limits(instance, disk).map(described).collect();
                    if !limits.is_empty() {
                        evidence.push(format!("{} is on {}", log.path, disk.name));
                        evidence.extend(limits);
                    }
                }
                if evidence.is_empty() {
                    return None;
                }
                Some(Hazard {
                    name: "log-on-capped-device".to_string(),
                    instances: vec![instance.data_directory.clone()],
                    evidence,
                    cure: "set log_directory to a file system on another disk, or log to syslog or journald"
                        .to_string(),
                })
            })
        })
        .collect()
}

/// A journal on a disk with a limit that holds for who writes the journal: on ext4 a kernel thread, which is in the root
/// group; on XFS also the process that forces the log, in its own.
pub(super) fn journals(instances: &[Instance], root_group: Option<&str>) -> Vec<Hazard> {
    let mut found: BTreeMap<&str, Journals<'_>> = BTreeMap::new();
    for instance in instances {
        for place in &instance.places {
            let Some(journal) = place.journal.there() else { continue };
            let felt = instance.limits.iter().filter(|limit| {
                let of_root = root_group.map(Path::new) == Path::new(&limit.file).parent();
                let of_writer = place.fs == "xfs" && limit.in_force;
                let is_below = journal.disks().any(|disk| *disk == limit.disk);
                is_below && is_on_writes(limit) && (of_root || of_writer)
            });
            let mut limits: Vec<String> = felt.map(described).collect();
            if limits.is_empty() {
                continue;
            }
            let Journals { fs, names, evidence } = found.entry(place.device_number.as_str()).or_default();
            *fs = &place.fs;
            names.push(instance.data_directory.clone());
            if evidence.is_empty() {
                let inside = if journal.external {
                    format!("on {}", journal.device.as_deref().unwrap_or("another device"))
                } else {
                    "inside".to_string()
                };
                evidence.push(format!("{} ({}) has its journal {inside}", place.mountpoint, place.fs));
            }
            evidence.append(&mut limits);
        }
    }
    found
        .into_values()
        .map(|journals| {
            let Journals { fs, mut names, mut evidence } = journals;
            names.dedup();
            let mut seen = Vec::new();
            evidence.retain(|line| {
                let is_new = !seen.contains(line);
                seen.push(line.clone());
                is_new
            });
            Hazard {
                name: "journal-device-capped".to_string(),
                instances: names,
                evidence,
                cure: journal_cure(fs).to_string(),
            }
        })
        .collect()
}

/// What is found of one file system.
#[derive(Default)]
struct Journals<'a> {
    fs: &'a str,
    names: Vec<String>,
    evidence: Vec<String>,
}

/// A log of XFS that is elsewhere takes a flush of the data's disk before each of its writes, which counts as an operation.
fn journal_cure(fs: &str) -> &'static str {
    if fs == "xfs" {
        "take the limit off that disk, or give each instance a file system of its own; a log on a disk without a limit \
         (mkfs.xfs -l logdev=) spares others on this file system, and costs who is limited one more write for each of the log"
    } else {
        "put the journal on a disk without a limit (mke2fs -O journal_dev), or take the limit off that disk"
    }
}

fn distinct<'a>(disks: impl Iterator<Item = &'a Disk>) -> Vec<&'a Disk> {
    disks.fold(Vec::new(), |mut known, disk| {
        if !known.contains(&disk) {
            known.push(disk);
        }
        known
    })
}

fn of_role<'a>(instance: &'a Instance, role: &'a str) -> impl Iterator<Item = &'a Place> {
    instance.places.iter().filter(move |place| place.role == role)
}

use std::collections::BTreeMap;
use std::io;
use std::io::{Read, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::path::Path;

use crate::isolate::report as isolate;
use pgcalm_host::backing_device::BackingDevice;
use pgcalm_host::cgroup::Hierarchy;
use pgcalm_host::meminfo::MemInfo;
use pgcalm_host::{HostRoot, Known, dirty_threshold, kernel_release, memory_limit, process, process_file, vm_sysctl};
use pgcalm_postgres::estimate::replay_rate;
use pgcalm_trace::usdt::PROVIDER;
use pgcalm_trace::usdt::notes::Notes;

use crate::collect::{grace, kernel_features};
use crate::facts::{
    Cap, DeviceDirtyLimit, DirtyThresholds, Disk, FileSystem, Host, MemoryLimit, MemoryUse, ReadAhead, RequestQueue,
    WritebackThrottling,
};
use crate::kernel_file;
use crate::rules::stop::MANY_FILES;

/// Reads the host, and of it what concerns `instance`.
pub(crate) fn read(
    root: &HostRoot,
    instance: Option<isolate::Instance>,
    isolate: Option<&isolate::Report>,
    missing: &mut Vec<String>,
) -> Host {
    let mut note = Missing(missing);
    let kernel_release = note.read("the kernel's release", kernel_release::read(root));
    let mut host = Host {
        memory_bytes: note.read("memory", MemInfo::read(root)).map(|info| info.total_kib << 10),
        sysctls: note.read("the writeback sysctls", vm_sysctl::read_all(root)).map(numbers).unwrap_or_default(),
        dirty_thresholds: note.read("the kernel's dirty thresholds", dirty_threshold::DirtyThresholds::read(root)).map(
            |thresholds| DirtyThresholds {
                dirtyable_bytes: thresholds.dirtyable_bytes,
                background_bytes: thresholds.background_bytes,
                limit_bytes: thresholds.limit_bytes,
            },
        ),
        kernel_features: kernel_features::read(root, kernel_release.as_deref()),
        kernel_release,
        ..Host::default()
    };
    host.unflushed_bytes = unflushed(root, None);
    let Some(instance) = instance else { return host };
    let pid = instance.pid;
    host.hazards = isolate
        .map(|report| report.hazards.iter())
        .into_iter()
        .flatten()
        .filter(|hazard| hazard.instances.contains(&instance.data_directory))
        .cloned()
        .collect();
    let root_group = Hierarchy::of_block_io(root).ok().flatten().map(|hierarchy| hierarchy.mountpoint);
    host.disks = disks(root, &instance, root_group.as_deref(), &mut note);
    let memory_limit: Known<_> = memory_limit::of_process(root, pid).into();
    host.memory_limit = memory_limit.map(|limit| {
        limit.as_ref().map(|limit| MemoryLimit { bytes: limit.bytes, file: limit.file.display().to_string() })
    });
    host.huge_pages = process::has_huge_pages(root, pid);
    let limit = host.memory_limit.there().map(|limit| limit.file.clone());
    host.memory_use = limit.as_deref().and_then(|file| memory_use(root, file));
    host.unflushed_bytes = unflushed(root, limit.as_deref());
    host.grace = grace::read(root, pid);
    host.data_files = data_files(root, pid, &instance.data_directory);
    let log = instance.places.iter().find(|place| place.role == "log");
    host.replay_bytes_per_second =
        log.and_then(|log| tail(root, pid, Path::new(&log.path))).and_then(|text| replay_rate(&text));
    if let Some(wal) = instance.places.iter().find(|place| place.role == "wal") {
        let room = process_file::find(root, pid, Path::new(&wal.path)).and_then(room);
        host.wal_file_system = note.read("room on the file system of pg_wal", room);
    }
    host.usdt_probes = note.read(
        "the probes in the server's program",
        Notes::read(&root.path(format!("proc/{pid}/exe"))).map(|notes| {
            let own = notes.sites.iter().filter(|site| site.provider == PROVIDER);
            own.count() as u32
        }),
    );
    host.instance = Some(instance);
    host
}

/// Notes what can't be read.
struct Missing<'a>(&'a mut Vec<String>);

impl Missing<'_> {
    fn read<T, E: std::fmt::Display>(&mut self, what: &str, result: Result<T, E>) -> Option<T> {
        result.map_err(|error| self.0.push(format!("{what}: {error:#}"))).ok()
    }
}

fn numbers(values: BTreeMap<String, String>) -> BTreeMap<String, u64> {
    values.into_iter().filter_map(|(name, value)| Some((name, value.parse().ok()?))).collect()
}

/// What the group of a memory limit uses, by the file of the limit.
fn memory_use(root: &HostRoot, limit: &str) -> Option<MemoryUse> {
    let directory = Path::new(limit).parent()?;
    let number = |name: &str| root.read(directory.join(name)).ok()?.trim().parse().ok();
    let bytes = number("memory.current").or_else(|| number("memory.usage_in_bytes"))?;
    let [cache, shared] = group_amounts(root, limit, [["file", "total_cache"], ["shmem", "total_shmem"]])?;
    Some(MemoryUse { bytes, cache_bytes: cache.saturating_sub(shared) })
}

/// Dirty page cache and that under writeback: of the group of a memory limit, which is the server's alone, else of the host.
pub(crate) fn unflushed(root: &HostRoot, limit: Option<&str>) -> Option<u64> {
    let names = [["file_dirty", "total_dirty"], ["file_writeback", "total_writeback"]];
    if let Some([dirty, writeback]) = limit.and_then(|limit| group_amounts(root, limit, names)) {
        return Some(dirty + writeback);
    }
    let info = MemInfo::read(root).ok()?;
    Some((info.dirty_kib + info.writeback_kib) << 10)
}

/// Amounts of memory.stat beside a limit, by their names on v2 and v1.
fn group_amounts<const N: usize>(root: &HostRoot, limit: &str, names: [[&str; 2]; N]) -> Option<[u64; N]> {
    let text = root.read(Path::new(limit).parent()?.join("memory.stat")).ok()?;
    let amount = |wanted: [&str; 2]| {
        text.lines().find_map(|line| {
            let (name, value) = line.split_once(' ')?;
            wanted.contains(&name).then(|| value.parse().ok())?
        })
    };
    let found: Vec<u64> = names.into_iter().filter_map(amount).collect();
    found.try_into().ok()
}

/// Files below `base`, which is nearly all there are.
fn data_files(root: &HostRoot, pid: i32, data: &str) -> Option<u64> {
    let base = Path::new(data).join("base");
    let mut files = 0;
    for database in process_file::names(root, pid, &base) {
        files += process_file::names(root, pid, &base.join(database)).len() as u64;
        if files > MANY_FILES {
            break;
        }
    }
    (files > 0).then_some(files)
}

/// The end of a file that the server has.
fn tail(root: &HostRoot, pid: i32, path: &Path) -> Option<String> {
    const BYTES: u64 = 4 << 20;
    let mut file = process_file::open_regular(process_file::find_no_link(root, pid, path).ok()?).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(BYTES))).ok()?;
    let mut bytes = Vec::new();
    file.take(BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn room(directory: OwnedFd) -> io::Result<FileSystem> {
    let found = rustix::fs::fstatvfs(directory)?;
    Ok(FileSystem { size_bytes: found.f_blocks * found.f_frsize, available_bytes: found.f_bavail * found.f_frsize })
}

fn disks(
    root: &HostRoot,
    instance: &isolate::Instance,
    root_group: Option<&Path>,
    note: &mut Missing<'_>,
) -> Vec<Disk> {
    let mut disks: Vec<Disk> = Vec::new();
    // The kernel counts dirty pages for the disk that a file system is mounted from, not for those below.
    let mounted: Vec<&isolate::Disk> = instance
        .places
        .iter()
        .flat_map(|place| {
            let journal = place.journal.there();
            let journal = journal.and_then(|journal| journal.disk.known());
            place.disk.there().into_iter().chain(journal)
        })
        .collect();
    for place in &instance.places {
        let own = place.disks().map(|disk| (disk, place.role.as_str()));
        let journal = place.journal.there().into_iter();
        let journal = journal.flat_map(isolate::Journal::disks);
        for (disk, role) in own.chain(journal.map(|disk| (disk, "journal"))) {
            let known = disks.iter_mut().find(|known| known.disk == *disk);
            let roles = match known {
                Some(known) => &mut known.roles,
                None => {
                    disks.push(Disk {
                        disk: disk.clone(),
                        roles: Vec::new(),
                        write_iops: cap(instance, disk, "write-iops", root_group),
                        write_bandwidth: cap(instance, disk, "write-bandwidth", root_group),
                        all_iops: None,
                        all_bandwidth: None,
                        dirty_limit: mounted
                            .contains(&disk)
                            .then(|| BackingDevice::read(root, &disk.number))
                            .and_then(|read| note.read("the kernel's limit on a device's dirty pages", read))
                            .flatten()
                            .map(|device| DeviceDirtyLimit {
                                max_share: device.max_share,
                                no_limit: device.no_limit().to_string(),
                                file: device.file,
                                min_share: device.min_share,
                                min_file: device.min_file,
                            }),
                        writeback_throttling: queue_file(root, &disk.name, "wbt_lat_usec")
                            .map(|(latency_us, file)| WritebackThrottling { latency_us, file }),
                        // Before 6.4 the kernel shows that of mapped disks, too, and takes none.
                        request_queue: (!is_mapped(root, &disk.name))
                            .then(|| queue_file(root, &disk.name, "nr_requests"))
                            .flatten()
                            .map(|(requests, file)| RequestQueue { requests, file }),
                        read_ahead: mounted.contains(&disk).then(|| read_ahead(root, &disk.number)).flatten(),
                    });
                    &mut disks.last_mut().expect("just pushed").roles
                }
            };
            if !roles.iter().any(|known| known == role) {
                roles.push(role.to_string());
            }
        }
    }
    disks
}

/// The tightest cap on what reaches the disk: that of the instance's own group, or on v1 that of the root group, in which
/// the kernel's flusher writes for it.
fn cap(instance: &isolate::Instance, disk: &isolate::Disk, kind: &str, root_group: Option<&Path>) -> Option<Cap> {
    instance
        .limits
        .iter()
        .filter(|limit| limit.disk == *disk && limit.kind == kind)
        .filter(|limit| limit.in_force || Path::new(&limit.file).parent() == root_group)
        .min_by_key(|limit| limit.value)
        .map(|limit| Cap { value: limit.value, source: limit.file.clone() })
}

/// Whether it is made of others, by the device mapper or as a RAID.
fn is_mapped(root: &HostRoot, disk: &str) -> bool {
    let directory = root.path(format!("sys/block/{}", disk.replace('/', "!")));
    ["dm", "md"].iter().any(|kind| directory.join(kind).exists())
}

/// A number of a disk's queue, and its file. A partition has no queue of its own, and a disk with a scheduler that
/// throttles by itself no `wbt_lat_usec`.
fn read_ahead(root: &HostRoot, number: &str) -> Option<ReadAhead> {
    let file = format!("/sys/class/bdi/{number}/read_ahead_kb");
    let kib = kernel_file::read(root, &file).ok()?.parse().ok()?;
    Some(ReadAhead { kib, file })
}

fn queue_file(root: &HostRoot, disk: &str, name: &str) -> Option<(u64, String)> {
    let file = format!("/sys/block/{}/queue/{name}", disk.replace('/', "!"));
    let text = kernel_file::read(root, &file).ok()?;
    Some((text.parse().ok()?, file))
}

//! A device of the lab really is capped, and nothing of it is left. Needs root; says so and passes otherwise.

use std::fs;
use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use pgcalm_host::block_device::DeviceStat;
use pgcalm_host::{HostRoot, block_device};
use pgcalm_lab::Size;
use pgcalm_lab::cap::{Capper, Caps};
use pgcalm_lab::device::{Device, Kind};
use pgcalm_lab::interrupt::Interrupt;
use pgcalm_lab::journal::Journal;
use pgcalm_testkit::need;
use rustix::fs::OFlags;

const DEVICE_SIZE: u64 = 64 << 20;

fn is_root() -> bool {
    need::met("capped devices", &[need::ROOT])
}

/// A directory on a disk: the images need direct I/O.
fn dir() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("pgcalm-test-").tempdir_in("/var/tmp").unwrap()
}

fn device(dir: &Path, max_io: Option<Size>) -> (Journal, Device) {
    let dir = dir.canonicalize().unwrap();
    let journal = Journal::open(HostRoot::default(), &dir.join("journal.json")).unwrap();
    let device = Device::create(
        &journal,
        &dir.join("pgcalm.img"),
        Size(DEVICE_SIZE),
        Kind::Loop { max_io },
        &Interrupt::default(),
    )
    .unwrap();
    (journal, device)
}

/// Writes to the device without cache for two seconds; returns operations and bytes per second as the device counts
/// them.
fn write_for_two_seconds(device: &Device, length: usize) -> (f64, f64) {
    let root = HostRoot::default();
    let file = OpenOptions::new().write(true).custom_flags(OFlags::DIRECT.bits() as i32).open(device.node()).unwrap();
    let buffer = vec![1; length + 4096];
    let start = buffer.as_ptr().align_offset(4096);
    let buffer = &buffer[start..start + length];
    let before = DeviceStat::read(&root, &device.name).unwrap();
    let started = Instant::now();
    let mut offset = 0;
    while started.elapsed() < Duration::from_secs(2) {
        file.write_all_at(buffer, offset).unwrap();
        offset = (offset + 2 * length as u64) % (DEVICE_SIZE - length as u64);
        offset -= offset % 4096;
    }
    let seconds = started.elapsed().as_secs_f64();
    let after = DeviceStat::read(&root, &device.name).unwrap();
    ((after.write_ops - before.write_ops) as f64 / seconds, (after.write_bytes - before.write_bytes) as f64 / seconds)
}

#[test]
fn an_iops_cap_holds_while_it_is_on_and_not_after() {
    let Some(dir) = is_root().then(dir) else { return };
    let (journal, device) = device(dir.path(), None);
    let capper = Capper::new(&journal).unwrap();
    let caps = Caps { write_iops: Some(200), ..Caps::default() };
    let on = capper.apply(&device, caps).unwrap();
    let (capped, _) = write_for_two_seconds(&device, 8192);
    drop(on);
    let (uncapped, _) = write_for_two_seconds(&device, 8192);
    assert!(capped > 100.0, "{capped}");
    // The kernel lets a first part of a second through at once.
    assert!(capped < 200.0 * 1.15, "{capped}");
    assert!(uncapped > capped * 3.0, "{uncapped} against {capped}");
}

#[test]
fn a_bandwidth_cap_holds() {
    let Some(dir) = is_root().then(dir) else { return };
    let (journal, device) = device(dir.path(), None);
    let capper = Capper::new(&journal).unwrap();
    let limit = 8 << 20;
    let caps = Caps { write_bps: Some(limit), ..Caps::default() };
    let on = capper.apply(&device, caps).unwrap();
    let (_, capped) = write_for_two_seconds(&device, 256 << 10);
    drop(on);
    let (_, uncapped) = write_for_two_seconds(&device, 256 << 10);
    assert!(capped < limit as f64 * 1.25, "{capped}");
    assert!(uncapped > capped * 3.0, "{uncapped} against {capped}");
}

#[test]
fn large_writes_reach_the_device_in_operations_of_the_chosen_size() {
    let Some(dir) = is_root().then(dir) else { return };
    let (_journal, device) = device(dir.path(), Some(Size(64 << 10)));
    let (ops, bytes) = write_for_two_seconds(&device, 1 << 20);
    let average = bytes / ops;
    assert!((average - 65536.0).abs() < 1024.0, "{average}");
}

#[test]
fn a_dropped_device_leaves_nothing_on_the_host() {
    let Some(dir) = is_root().then(dir) else { return };
    let root = HostRoot::default();
    let (journal, device) = device(dir.path(), Some(Size(64 << 10)));
    let name = device.name.clone();
    let capper = Capper::new(&journal).unwrap();
    let caps = capper.apply(&device, Caps { write_iops: Some(100), ..Caps::default() }).unwrap();
    let max_sectors = || root.read(block_device::max_sectors_path(&name)).unwrap();
    assert_eq!(max_sectors().trim(), "64");
    drop(caps);
    drop(capper);
    drop(device);
    assert_ne!(max_sectors().trim(), "64");
    let left: Vec<_> = block_device::loop_devices(&root)
        .unwrap()
        .into_iter()
        .filter(|device| device.backing_file.starts_with(dir.path()))
        .collect();
    assert_eq!(left, []);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

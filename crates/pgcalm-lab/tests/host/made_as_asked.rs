//! File systems are what mkfs and mount were asked for. Needs root; says so and passes otherwise.

use std::process::Command;

use pgcalm_host::HostRoot;
use pgcalm_lab::Size;
use pgcalm_lab::device::{Device, Kind};
use pgcalm_lab::filesystem::{FileSystem, Layout};
use pgcalm_lab::interrupt::Interrupt;
use pgcalm_lab::journal::Journal;
use pgcalm_lab::options::FsType;
use pgcalm_testkit::need;

/// What the superblock says, and what the kernel does of the mount; with the log on a device of its own.
fn made(fs_type: FsType, mkfs_options: &str, mount_options: &str) -> anyhow::Result<(String, String)> {
    // A directory on a disk: the images need direct I/O.
    let directory = tempfile::Builder::new().prefix("pgcalm-test-").tempdir_in("/var/tmp").unwrap();
    let path = directory.path().canonicalize().unwrap();
    let interrupt = Interrupt::default();
    let journal = Journal::open(HostRoot::default(), &path.join("journal.json")).unwrap();
    let device = |name: &str, mib: u64| {
        let image = path.join(format!("{name}.img"));
        Device::create(&journal, &image, Size(mib << 20), Kind::LOOP, &interrupt).unwrap()
    };
    let (data, log) = (device("data", 320), device("log", 96));
    let mkfs_options = Some(mkfs_options.parse().unwrap());
    let layout = Layout { mount_options, mkfs_options: mkfs_options.as_ref(), log: Some(&log) };
    let mounted = FileSystem::create_as(&journal, &data, fs_type, layout, &path.join("mounted"), &interrupt)?;
    let mut command = match fs_type {
        FsType::Ext4 => Command::new("dumpe2fs"),
        FsType::Xfs => Command::new("xfs_info"),
    };
    match fs_type {
        FsType::Ext4 => command.args(["-h", &data.node()]),
        FsType::Xfs => command.arg(mounted.path()),
    };
    let superblock = String::from_utf8(command.output().unwrap().stdout).unwrap();
    Ok((superblock, mounted.options()?))
}

#[test]
fn ext4_and_xfs_have_the_options_that_they_were_given() {
    if !need::met("options of mkfs and mount", &[need::ROOT]) {
        return;
    }
    let (superblock, mounted) =
        made(FsType::Ext4, "-O ^metadata_csum -E stride=4 -m 0", "data=ordered,nodelalloc,nobarrier").unwrap();
    let line = |name: &str| superblock.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    assert!(!line("Filesystem features").contains("metadata_csum"), "{superblock}");
    assert!(line("RAID stride").ends_with(" 4"), "{superblock}");
    assert!(line("Reserved block count").ends_with(" 0"), "{superblock}");
    assert!(!line("Journal device").is_empty(), "{superblock}");
    for option in ["nodelalloc", "nobarrier"] {
        assert!(mounted.split(',').any(|in_force| in_force == option), "{mounted}");
    }

    let (superblock, mounted) =
        made(FsType::Xfs, "-d agcount=5,su=64k,sw=2 -l size=70m", "logbsize=256k,nolargeio,swalloc").unwrap();
    assert!(superblock.contains("agcount=5,"), "{superblock}");
    let log = superblock.lines().find(|line| line.starts_with("log ")).unwrap();
    assert!(!log.contains("internal") && superblock.contains("blocks=17920,"), "{superblock}");
    for option in ["logbsize=256k", "swalloc", "sunit=128", "swidth=256"] {
        assert!(mounted.split(',').any(|in_force| in_force == option), "{mounted}");
    }

    for (mkfs_options, mount_options, said) in [
        ("-l size=20m", "", "mkfs.xfs failed (exit status: 1): Log size must be at least 64MB."),
        ("-d agcount=5", "nobarrier", "mount options nobarrier,logdev=/dev/loop"),
    ] {
        let error = format!("{:#}", made(FsType::Xfs, mkfs_options, mount_options).unwrap_err());
        assert!(error.contains(said), "{error}");
    }
}

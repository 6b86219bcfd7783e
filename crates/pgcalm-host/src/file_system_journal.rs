//! Where a file system keeps its journal, and what a commit of it waits for.

use std::path::Path;

use crate::block_device::BlockDevice;
use crate::mounts::Mount;
use crate::{HostRoot, Known, Unknown, block_device};

/// What an ext4 commit does about file data (`data=`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataMode {
    /// It waits until data of newly allocated blocks is written.
    Ordered,
    /// It does not.
    Writeback,
    /// Data goes through the journal.
    Journal,
}

/// The journal of a mounted file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSystemJournal {
    /// The device that it is on, which the file system's own device may be.
    pub device: Known<BlockDevice>,
    /// Whether it is on another device than the file system.
    pub external: bool,
    /// ext4 only.
    pub data_mode: Option<DataMode>,
    /// Whether a commit waits for data that any process has written to newly allocated blocks: ext4 with
    /// `data=ordered`, unless delayed allocation marks such blocks as unwritten until the data is there
    /// (`ext4_map_blocks` and `ext4_should_dioread_nolock` in the kernel's fs/ext4).
    pub waits_for_data: bool,
    /// Whether a block that a commit has given to a file can show, after a crash, what was there before, since its data was not
    /// written yet: ext4 with `data=writeback`, unless it marks such blocks as unwritten, as above.
    pub shows_unwritten: bool,
}

impl FileSystemJournal {
    /// The journal of what is mounted from device `own`; `None` for file systems that have none of their own.
    pub fn of(root: &HostRoot, mount: &Mount, own: Option<&BlockDevice>) -> Result<Option<Self>, Unknown> {
        let Some(own) = own else { return Ok(None) };
        match mount.fs_type.as_str() {
            "ext4" | "ext3" => of_ext4(root, own),
            "xfs" => {
                let mut options = mount.super_options.iter();
                let log = options.find_map(|option| option.strip_prefix("logdev="));
                Ok(Some(Self {
                    device: match log {
                        Some(node) => by_node(root, Path::new(node)),
                        None => Known::Is(own.clone()),
                    },
                    external: log.is_some(),
                    data_mode: None,
                    waits_for_data: false,
                    shows_unwritten: false,
                }))
            }
            _ => Ok(None),
        }
    }
}

fn of_ext4(root: &HostRoot, own: &BlockDevice) -> Result<Option<FileSystemJournal>, Unknown> {
    // A name with a slash has `!` for it here, too.
    let name = own.name.replace('/', "!");
    let options = root.read(format!("proc/fs/ext4/{name}/options"))?;
    let has = |option: &str| options.lines().any(|line| line == option);
    // The options of a file system without a journal have no data mode.
    let data_mode = if has("data=ordered") {
        DataMode::Ordered
    } else if has("data=writeback") {
        DataMode::Writeback
    } else if has("data=journal") {
        DataMode::Journal
    } else {
        return Ok(None);
    };
    let unwritten = has("delalloc") && has("dioread_nolock");
    let (device, external) = match journal_name(root, &name) {
        Ok(journal) if internal(&journal, &name) => (Known::Is(own.clone()), false),
        Ok(journal) => (by_node(root, &Path::new("/dev").join(&journal)), true),
        Err(why) => (Known::Not(why), false),
    };
    Ok(Some(FileSystemJournal {
        device,
        external,
        data_mode: Some(data_mode),
        waits_for_data: data_mode == DataMode::Ordered && !unwritten,
        shows_unwritten: data_mode == DataMode::Writeback && !unwritten,
    }))
}

fn by_node(root: &HostRoot, node: &Path) -> Known<BlockDevice> {
    let none = || Unknown::new(format!("which disk {} is", node.display()));
    let found = block_device::by_node(root, node).map_err(Unknown::from);
    found.and_then(|device| device.ok_or_else(none)).into()
}

/// The name of the journal, as the kernel thread that commits it bears it: `jbd2/NAME`.
fn journal_name(root: &HostRoot, file_system: &str) -> Result<String, Unknown> {
    let file = format!("sys/fs/ext4/{file_system}/journal_task");
    let pid = root.read(&file)?;
    let comm = root.read(format!("proc/{}/comm", pid.trim()))?;
    let name = comm.trim().strip_prefix("jbd2/").map(String::from);
    name.ok_or_else(|| {
        Unknown::new(format!("where the journal of {file_system} is: its thread is called {:?}", comm.trim()))
    })
}

/// What is left of the name before Linux 5.17, which cuts a thread's to 15 characters.
const CUT: usize = 15 - "jbd2/".len();

/// Inside the file system it is called DEVICE-INODE, else just DEVICE (`jbd2_journal_init_inode`, `_init_dev`).
fn internal(journal: &str, file_system: &str) -> bool {
    if journal.len() == CUT && format!("{file_system}-").starts_with(journal) {
        return true;
    }
    journal
        .strip_prefix(file_system)
        .and_then(|rest| rest.strip_prefix('-'))
        .is_some_and(|inode| !inode.is_empty() && inode.chars().all(|c| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeHost;

    fn host() -> FakeHost {
        host_of("loop0")
    }

    fn host_of(own: &str) -> FakeHost {
        let root = FakeHost::default();
        for (name, number) in [(own, "7:0"), ("loop1", "7:1")] {
            root.put(format!("sys/devices/{name}/dev"), number);
            root.link(format!("sys/dev/block/{number}"), format!("../../devices/{name}"));
            root.link(format!("sys/class/block/{name}"), format!("../../devices/{name}"));
            root.put(format!("dev/{name}"), "");
        }
        root
    }

    fn ext4(root: &FakeHost, options: &str, thread: &str) -> Option<FileSystemJournal> {
        ext4_of(root, "loop0", options, thread)
    }

    fn ext4_of(root: &FakeHost, own: &str, options: &str, thread: &str) -> Option<FileSystemJournal> {
        root.put(format!("proc/fs/ext4/{own}/options"), options);
        root.put(format!("sys/fs/ext4/{own}/journal_task"), "99\n");
        root.put("proc/99/comm", thread);
        journal_of(root, &mount("ext4", "rw")).unwrap()
    }

    fn journal_of(root: &HostRoot, mount: &Mount) -> Result<Option<FileSystemJournal>, Unknown> {
        let own = block_device::by_number(root, &mount.device).unwrap();
        FileSystemJournal::of(root, mount, own.as_ref())
    }

    fn mount(fs_type: &str, options: &str) -> Mount {
        Mount {
            id: 1,
            parent: 0,
            device: "7:0".into(),
            fs_root: "/".into(),
            target: "/srv".into(),
            fs_type: fs_type.into(),
            source: "/dev/loop0".into(),
            options: Vec::new(),
            super_options: options.split(',').map(String::from).collect(),
        }
    }

    #[test]
    fn an_ext4_journal_is_inside_or_on_another_device() {
        let root = host();
        let inside = ext4(&root, "rw\ndelalloc\ndata=writeback\n", "jbd2/loop0-8\n").unwrap();
        assert_eq!(inside.device.known().unwrap().name, "loop0");
        assert!(!inside.external);
        assert_eq!(inside.data_mode, Some(DataMode::Writeback));
        let outside = ext4(&root, "data=ordered\n", "jbd2/loop1\n").unwrap();
        assert_eq!(outside.device.known().unwrap().name, "loop1");
        assert!(outside.external);
        assert_eq!(ext4(&root, "rw\ndelalloc\n", "x"), None);
    }

    #[test]
    fn a_journal_whose_name_is_cut_is_inside() {
        for (own, thread) in [("nvme0n1p1", "jbd2/nvme0n1p1-\n"), ("nvme10n1p12", "jbd2/nvme10n1p1\n")] {
            let inside = ext4_of(&host_of(own), own, "data=ordered\n", thread).unwrap();
            assert_eq!((inside.device.known().unwrap().name.as_str(), inside.external), (own, false));
        }
        assert!(!internal("nvme0n1p1", "nvme0n1p12"), "it is whole");
    }

    #[test]
    fn unless_new_blocks_are_unwritten_ordered_waits_for_their_data_and_writeback_shows_them() {
        let root = host();
        for (options, waits, shows) in [
            ("delalloc\ndioread_nolock\ndata=ordered\n", false, false),
            ("nodelalloc\ndioread_nolock\ndata=ordered\n", true, false),
            ("delalloc\ndioread_lock\ndata=ordered\n", true, false),
            ("delalloc\ndioread_nolock\ndata=writeback\n", false, false),
            ("nodelalloc\ndioread_nolock\ndata=writeback\n", false, true),
            ("delalloc\ndioread_lock\ndata=writeback\n", false, true),
            ("nodelalloc\ndioread_lock\ndata=journal\n", false, false),
        ] {
            let journal = ext4(&root, options, "jbd2/loop0-8").unwrap();
            assert_eq!(journal.waits_for_data, waits, "{options}");
            assert_eq!(journal.shows_unwritten, shows, "{options}");
        }
    }

    #[test]
    fn an_xfs_log_is_inside_or_on_logdev() {
        let root = host();
        let of = |options| journal_of(&root, &mount("xfs", options)).unwrap().unwrap();
        let inside = of("rw,attr2");
        assert_eq!(inside.device.known().unwrap().name, "loop0");
        let outside = of("rw,logdev=/dev/loop1,attr2");
        assert_eq!(outside.device.known().unwrap().name, "loop1");
        assert!(outside.external);
    }
}

use crate::options::{FsType, Named, one_of};

/// A way to lay the victim and its neighbour out.
#[derive(Debug, PartialEq, Eq)]
pub struct Layout {
    /// As on the command line.
    pub name: &'static str,
    /// What sets it apart.
    pub description: &'static str,
    /// Of both instances.
    pub fs_type: FsType,
    /// Besides `noatime`.
    pub mount_options: &'static str,
    /// Whether the neighbour has a file system of its own, on a device of its own.
    pub separate: bool,
    /// Whether the log of XFS, or the journal of ext4, is on a device of its own, on which the neighbour is not capped.
    pub external_log: bool,
}

/// All layouts.
pub const LAYOUTS: [Layout; 8] = [
    Layout {
        name: "ext4-nodelalloc",
        description: "One ext4 with data=ordered,nodelalloc: blocks are allocated as files are written, and each commit of \
                      the journal waits for the data in them.",
        fs_type: FsType::Ext4,
        mount_options: "data=ordered,nodelalloc",
        separate: false,
        external_log: false,
    },
    Layout {
        name: "ext4-nodelalloc-writeback",
        description: "One ext4 with data=writeback,nodelalloc: blocks are allocated as files are written, and commits of the \
                      journal wait for no data; a crash can damage tables then.",
        fs_type: FsType::Ext4,
        mount_options: "data=writeback,nodelalloc",
        separate: false,
        external_log: false,
    },
    Layout {
        name: "ext4-ordered",
        description: "One ext4 as it is mounted by itself: data=ordered with delayed allocation into unwritten extents, so \
                      that commits seldom wait for data.",
        fs_type: FsType::Ext4,
        mount_options: "data=ordered",
        separate: false,
        external_log: false,
    },
    Layout {
        name: "ext4-writeback",
        description: "One ext4 with data=writeback: commits of the journal wait for no data.",
        fs_type: FsType::Ext4,
        mount_options: "data=writeback",
        separate: false,
        external_log: false,
    },
    Layout {
        name: "ext4-logdev",
        description: "One ext4 as it is mounted by itself, with its journal on a device of its own, on which the neighbour is \
                      not capped.",
        fs_type: FsType::Ext4,
        mount_options: "data=ordered",
        separate: false,
        external_log: true,
    },
    Layout {
        name: "ext4-separate",
        description: "An ext4 for each instance, on devices of their own, mounted as by themselves.",
        fs_type: FsType::Ext4,
        mount_options: "",
        separate: true,
        external_log: false,
    },
    Layout {
        name: "xfs",
        description: "One XFS with its log inside.",
        fs_type: FsType::Xfs,
        mount_options: "",
        separate: false,
        external_log: false,
    },
    Layout {
        name: "xfs-logdev",
        description: "One XFS with its log on a device of its own, on which the neighbour is not capped.",
        fs_type: FsType::Xfs,
        mount_options: "",
        separate: false,
        external_log: true,
    },
];

impl Named for Layout {
    fn name(&self) -> &'static str {
        self.name
    }
}

/// Reads one name.
pub(super) fn parse(name: &str) -> Result<&'static Layout, String> {
    one_of(&LAYOUTS, "layout", name)
}

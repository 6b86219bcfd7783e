use crate::options::FsType;

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
    /// Whether the log of XFS is on a device of its own, which is not capped.
    pub external_log: bool,
}

/// All layouts.
pub const LAYOUTS: [Layout; 6] = [
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

/// The layouts named in a comma-separated list.
pub fn parse_list(text: &str) -> Result<Vec<&'static Layout>, String> {
    let mut chosen: Vec<&'static Layout> = Vec::new();
    for name in text.split(',').map(str::trim) {
        let layout = LAYOUTS
            .iter()
            .find(|layout| layout.name == name)
            .ok_or_else(|| {
                let names: Vec<_> = LAYOUTS.iter().map(|layout| layout.name).collect();
                format!("no layout {name:?}; choose from {}", names.join(", "))
            })?;
        if chosen.contains(&layout) {
            return Err(format!("{name} is named twice"));
        }
        chosen.push(layout);
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_layouts_keeps_its_order_and_refuses_unknown_and_double_names() {
        let names =
            |text| parse_list(text).map(|list| list.iter().map(|l| l.name).collect::<Vec<_>>());
        assert_eq!(names("xfs, ext4-ordered"), Ok(vec!["xfs", "ext4-ordered"]));
        assert!(names("zfs").unwrap_err().contains("xfs-logdev"));
        assert!(names("xfs,xfs").is_err());
    }
}

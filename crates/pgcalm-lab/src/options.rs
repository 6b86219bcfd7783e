//! Options that more than one part of the lab needs to know.

/// File system to make on the devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FsType {
    /// ext4.
    Ext4,
    /// XFS.
    Xfs,
}

impl FsType {
    /// As mkfs and mount call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
        }
    }
}

/// A set of writeback sysctls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SysctlProfile {
    /// What the kernel comes with.
    Default,
    /// Room for dirty pages and time until the kernel's own flusher comes for them.
    Roomy,
    /// What the kernel's defaults come to on a host with 4 GB of memory, whatever this one has: the limits are ratios
    /// of memory, so that on a large host a short run doesn't come near them.
    Small,
}

impl SysctlProfile {
    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Roomy => "roomy",
            Self::Small => "small",
        }
    }

    /// Names below `vm.` and values.
    pub fn values(self) -> [(&'static str, &'static str); 4] {
        let (background, limit, expire) = match self {
            Self::Default => (
                ("dirty_background_ratio", "10"),
                ("dirty_ratio", "20"),
                "3000",
            ),
            Self::Roomy => (
                ("dirty_background_ratio", "40"),
                ("dirty_ratio", "60"),
                "30000",
            ),
            Self::Small => (
                ("dirty_background_bytes", "400000000"),
                ("dirty_bytes", "800000000"),
                "3000",
            ),
        };
        [
            background,
            limit,
            ("dirty_expire_centisecs", expire),
            ("dirty_writeback_centisecs", "500"),
        ]
    }
}

/// How the page cache is filled before a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Warm {
    /// 8 KiB reads without read-ahead: small folios, as in a server whose cache was filled by index look-ups.
    Random,
    /// Reads with read-ahead: large folios.
    Sequential,
    /// Not at all.
    None,
}

impl Warm {
    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Sequential => "sequential",
            Self::None => "none",
        }
    }
}

/// Which rows the load touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distribution {
    /// All alike.
    Uniform,
    /// Few often, most rarely; the frequent ones are scattered over the table.
    Zipfian,
}

impl Distribution {
    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Zipfian => "zipfian",
        }
    }

    /// The pgbench script.
    pub fn script(self) -> &'static str {
        match self {
            Self::Uniform => include_str!("../workloads/upsert.sql"),
            Self::Zipfian => include_str!("../workloads/upsert-zipfian.sql"),
        }
    }
}

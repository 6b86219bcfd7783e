//! Options that more than one part of the lab needs to know.

use std::str::FromStr;

use clap::ValueEnum;
use serde::Serialize;
use serde::Serializer;

use crate::Size;

/// File system to make on the devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
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
    /// What the kernel's defaults, 10 and 20 % of the memory that can be dirty, come to on a host where that is as
    /// much as given, whatever this one has.
    DefaultOn(Size),
    /// Room for dirty pages and time until the kernel's own flusher comes for them.
    Roomy,
    /// What the kernel's defaults come to on a host with 4 GB of memory (400 and 800 million bytes): the limits are
    /// ratios of memory, so that on a large host a short run doesn't come near them.
    Small,
}

impl SysctlProfile {
    /// As on the command line.
    pub fn name(self) -> String {
        match self {
            Self::Default => "default".into(),
            Self::DefaultOn(memory) => format!("default:{memory}"),
            Self::Roomy => "roomy".into(),
            Self::Small => "small".into(),
        }
    }

    /// Names below `vm.` and values.
    pub fn values(self) -> [(&'static str, u64); 4] {
        let (background, limit, expire) = match self {
            Self::Default => (("dirty_background_ratio", 10), ("dirty_ratio", 20), 3000),
            Self::DefaultOn(memory) => (
                ("dirty_background_bytes", memory.bytes() / 10),
                ("dirty_bytes", memory.bytes() / 5),
                3000,
            ),
            Self::Roomy => (("dirty_background_ratio", 40), ("dirty_ratio", 60), 30000),
            Self::Small => (
                ("dirty_background_bytes", 400_000_000),
                ("dirty_bytes", 800_000_000),
                3000,
            ),
        };
        [
            background,
            limit,
            ("dirty_expire_centisecs", expire),
            ("dirty_writeback_centisecs", 500),
        ]
    }
}

impl FromStr for SysctlProfile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected =
            "give default, default:SIZE, roomy or small; SIZE is a host's memory, 1GB or more";
        match text {
            "default" => Ok(Self::Default),
            "roomy" => Ok(Self::Roomy),
            "small" => Ok(Self::Small),
            _ => text
                .strip_prefix("default:")
                .and_then(|size| size.parse().ok())
                .filter(|memory| *memory >= Size(1 << 30))
                .map(Self::DefaultOn)
                .ok_or_else(|| expected.to_string()),
        }
    }
}

impl Serialize for SysctlProfile {
    /// As on the command line.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.name())
    }
}

/// What the files of the loop devices lie on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceStore {
    /// The lab's directory.
    Disk,
    /// A tmpfs: nothing but the caps slows the devices, on a host whose own disk is slow or shared. Takes from the memory
    /// that can be dirty what the devices hold.
    Memory,
}

impl DeviceStore {
    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Memory => "memory",
        }
    }
}

/// Whether data and WAL have volumes of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum VolumeLayout {
    /// Data and WAL on one volume, as most servers in clouds have them.
    One,
    /// WAL on a volume of its own.
    Two,
}

impl VolumeLayout {
    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::One => "one",
            Self::Two => "two",
        }
    }
}

/// How devices without limits of their own are capped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CapWay {
    /// By the block I/O controller.
    Cgroup,
    /// Not at all.
    None,
}

/// Which control group has the caps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CapIn {
    /// The root group: everything is capped, the kernel's flusher included, as by a volume.
    Root,
    /// The server's own group: its own I/O is capped; with cgroup v1 what the kernel's flusher writes of its pages is not.
    Own,
}

/// How the page cache is filled before a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
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

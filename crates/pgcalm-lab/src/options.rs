//! Options that more than one part of the lab needs to know.

mod common;
mod declared;
mod named;

use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;
use serde::{Serialize, Serializer};

use crate::Size;

pub use common::Common;
#[cfg(test)]
pub(crate) use common::parsed;
pub(crate) use common::{as_text, count, defaults, named};
pub(crate) use common::{range, rows};
pub(crate) use declared::{declared, declared_without_volume};
pub use named::Named;
pub(crate) use named::{each_once, one_of, serialize_names};

/// Options of a file system's type, as mount takes them, e.g. `nodelalloc,data=writeback`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountOptions(String);

impl MountOptions {
    /// As given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for MountOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for MountOptions {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let well_formed = text.split(',').all(|option| {
            !option.is_empty() && option.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_=-.:/".contains(&byte))
        });
        // The kernel's flags, which mount(8) makes of words, and what would change where things are.
        let word = |name: &str| text.split(',').any(|option| option == name);
        if !well_formed || ["ro", "remount", "bind"].iter().any(|name| word(name)) {
            return Err(
                "give options of the file system, separated by commas, e.g. nodelalloc,data=writeback".to_string()
            );
        }
        Ok(Self(text.to_string()))
    }
}

impl Serialize for MountOptions {
    /// As on the command line.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// Options of mkfs, e.g. `-l size=64m,sunit=16 -d agcount=32`: a letter and a value each, which become arguments without a shell. None
/// says what is formatted, since a device that a value names would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MkfsOptions(String);

impl MkfsOptions {
    /// Letters with their dash, and values.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        let words: Vec<&str> = self.0.split_whitespace().collect();
        words.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect::<Vec<_>>().into_iter()
    }

    /// Fails on a letter that mkfs of this type has not, or that is not for file systems of the lab.
    pub fn check(&self, fs_type: FsType) -> Result<(), String> {
        let letters = match fs_type {
            FsType::Ext4 => "-b -C -E -g -G -i -I -J -m -N -O -T",
            FsType::Xfs => "-b -d -i -l -m -n -s",
        };
        match self.pairs().find(|(letter, _)| !letters.split(' ').any(|known| known == *letter)) {
            Some((letter, _)) => Err(format!("{letter}: for {} give some of {letters}", fs_type.name())),
            None => Ok(()),
        }
    }
}

impl FromStr for MkfsOptions {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let names_a_device = |key: &str| ["device", "logdev", "rtdev", "name", "file"].contains(&key);
        let well_formed = |pair: &[&str]| {
            let [letter, value] = pair else { return false };
            let letter = letter.strip_prefix('-').is_some_and(|letter| letter.len() == 1);
            let characters = value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_=^,.-".contains(&byte));
            letter
                && characters
                && !value.starts_with('-')
                && !value.split(',').any(|part| names_a_device(part.split('=').next().unwrap_or_default()))
        };
        if words.is_empty() || !words.chunks(2).all(well_formed) {
            return Err("give letters of mkfs with a value each, e.g. \"-l size=64m -d agcount=32\", and no file or \
                        device: the layout says which"
                .to_string());
        }
        Ok(Self(words.join(" ")))
    }
}

impl Serialize for MkfsOptions {
    /// As on the command line.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// File system to make on the devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FsType {
    /// ext4.
    Ext4,
    /// XFS.
    Xfs,
}

pgcalm_host::names! { pub fn name(FsType): Ext4 "ext4", Xfs "xfs" }

/// File systems on which crashes are played.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileSystems {
    /// ext4.
    Ext4,
    /// XFS.
    Xfs,
    /// Both in turn.
    Both,
}

impl FileSystems {
    /// Those to be taken in turn.
    pub fn in_turn(self) -> &'static [FsType] {
        match self {
            Self::Ext4 => &[FsType::Ext4],
            Self::Xfs => &[FsType::Xfs],
            Self::Both => &[FsType::Ext4, FsType::Xfs],
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
    /// Dirty pages go early: the kernel's flusher looks each second and writes above 102.4 MB, and writers are hardly ever held. The
    /// kernel table of a host with many capped instances.
    Early,
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
            Self::Early => "early".into(),
            Self::Small => "small".into(),
        }
    }

    /// Names below `vm.` and values.
    pub fn values(self) -> [(&'static str, u64); 4] {
        let (background, limit, expire) = match self {
            Self::Default => (("dirty_background_ratio", 10), ("dirty_ratio", 20), 3000),
            Self::DefaultOn(memory) => {
                (("dirty_background_bytes", memory.bytes() / 10), ("dirty_bytes", memory.bytes() / 5), 3000)
            }
            Self::Roomy => (("dirty_background_ratio", 40), ("dirty_ratio", 60), 30000),
            Self::Early => (("dirty_background_bytes", 102_400_000), ("dirty_ratio", 95), 3000),
            Self::Small => (("dirty_background_bytes", 400_000_000), ("dirty_bytes", 800_000_000), 3000),
        };
        let look = if self == Self::Early { 100 } else { 500 };
        [background, limit, ("dirty_expire_centisecs", expire), ("dirty_writeback_centisecs", look)]
    }
}

impl FromStr for SysctlProfile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "give default, default:SIZE, roomy, small or early; SIZE is a host's memory, 1GB or more";
        match text {
            "default" => Ok(Self::Default),
            "roomy" => Ok(Self::Roomy),
            "small" => Ok(Self::Small),
            "early" => Ok(Self::Early),
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

/// Whether data and WAL have volumes of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum VolumeLayout {
    /// Data and WAL on one volume, as most servers in clouds have them.
    One,
    /// WAL on a volume of its own.
    Two,
}

pgcalm_host::names! { pub fn name(VolumeLayout): One "one", Two "two" }

/// What lies between a device and its file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stack {
    /// Nothing.
    None,
    /// dm-linear, as LVM makes it.
    Lvm,
    /// dm-crypt, as LUKS makes it.
    Luks,
    /// md RAID 1, one of its two disks missing.
    Md1,
}

pgcalm_host::names! { pub fn name(Stack): None "none", Lvm "lvm", Luks "luks", Md1 "md1" }

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

pgcalm_host::names! { pub fn name(Warm): Random "random", Sequential "sequential", None "none" }

/// Which rows the load touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Distribution {
    /// All alike.
    Uniform,
    /// Few often, most rarely; the frequent ones are scattered over the table.
    Zipfian,
}

pgcalm_host::names! { pub fn name(Distribution): Uniform "uniform", Zipfian "zipfian" }

impl Distribution {
    /// The pgbench script.
    pub fn script(self) -> &'static str {
        match self {
            Self::Uniform => include_str!("../workloads/upsert.sql"),
            Self::Zipfian => include_str!("../workloads/upsert-zipfian.sql"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_options_are_those_of_the_file_system() {
        for text in ["barrier=0", "nodelalloc,data=writeback", "journal_dev=0x700"] {
            assert_eq!(text.parse::<MountOptions>().unwrap().as_str(), text);
        }
        for text in ["", "a,,b", "ro", "nodelalloc,bind", "data=write back", "x\ny"] {
            assert!(text.parse::<MountOptions>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn mkfs_options_are_letters_with_values_and_name_no_device() {
        let study: MkfsOptions = " -b size=4096  -l size=64m,sunit=16 -d agcount=9".parse().unwrap();
        assert_eq!(study.pairs().last(), Some(("-d", "agcount=9")));
        study.check(FsType::Xfs).unwrap();
        assert!(study.check(FsType::Ext4).unwrap_err().starts_with("-l: for ext4 give some of -b"));
        for text in [
            "",
            "-b",
            "-b 4096 /dev/sda",
            "/dev/sda 4096",
            "-d -f",
            "-J device=UUID",
            "-l size=9,logdev=x",
            "-d file,name=x",
            "-E $(reboot)",
            "-bb 1",
            "b 1",
        ] {
            assert!(text.parse::<MkfsOptions>().is_err(), "{text:?}");
        }
    }
}

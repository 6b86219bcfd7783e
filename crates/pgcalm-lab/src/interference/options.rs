use std::collections::BTreeMap;

use clap::Args;
use serde::Serialize;

use crate::interference::layout;
use crate::interference::layout::Layout;
use crate::options::{Common, MkfsOptions, MountOptions, count, declared, each_once, range, serialize_names};
use crate::{Seconds, Size};
use pgcalm_host::Failure;

/// Bytes that pgbench's tables take per unit of scale, with their indexes.
const SCALE_BYTES: u64 = 16 << 20;

/// Everything that can be chosen.
#[derive(Debug, Clone, Args, Serialize)]
#[command(mut_args(declared))]
#[serde(rename_all = "kebab-case")]
pub struct Options {
    /// The quick form: measures 8 s of each phase after 6 s, scale 10; other options still hold.
    #[serde(skip)]
    #[arg(long)]
    pub quick: bool,
    /// What is run, separated by commas.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = layout::parse,
          default_value = "ext4-nodelalloc,ext4-nodelalloc-writeback,ext4-ordered,ext4-writeback,ext4-logdev,ext4-separate,xfs,xfs-logdev")]
    #[serde(serialize_with = "serialize_names")]
    pub layouts: Vec<&'static Layout>,
    /// Time that is measured of each of the two phases.
    #[arg(long, default_value = "12", default_value_if("quick", "true", "8"))]
    pub seconds: Seconds,
    /// Time under load, and noise, before that.
    #[arg(long, default_value = "8", default_value_if("quick", "true", "6"))]
    pub lead: Seconds,
    /// Write operations per second of the neighbour.
    #[arg(long, value_name = "N", default_value = "100", value_parser = count::<u32>)]
    pub write_iops: u32,
    /// Sessions of the neighbour, each of which makes one database after another.
    #[arg(long, value_name = "N", default_value = "16", value_parser = count::<u32>)]
    pub sessions: u32,
    /// Connections of the victim's pgbench.
    #[arg(long, default_value = "4")]
    pub clients: u32,
    /// Scale of its tables. Each page costs its full size of WAL when first written, so that the victim needs new WAL
    /// segments.
    #[arg(long, value_name = "N", default_value = "20", default_value_if("quick", "true", "10"),
          value_parser = count::<u32>)]
    pub scale: u32,
    /// Size of the device that both are on, and of the neighbour's own; the size of the journal follows it.
    #[arg(long, default_value = "2GB")]
    pub size: Size,
    /// Size of the device with the log of XFS, or the journal of ext4, where that is not inside. By default it is what mkfs makes
    /// inside a file system of 2 GB, so that only the place differs.
    #[arg(long, value_name = "SIZE", default_value = "64MB")]
    pub log_size: Size,
    /// Options of mkfs for all file systems, e.g. "-l size=64m,sunit=16 -d agcount=32"; layouts of one type only.
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    pub mkfs_options: Option<MkfsOptions>,
    /// Options that all file systems are mounted with beside the layout's, e.g. nobarrier; layouts of one type only.
    #[arg(long)]
    pub(crate) mount_options: Option<MountOptions>,
    /// What every scenario has.
    #[command(flatten)]
    #[serde(flatten)]
    pub common: Common,
}

impl Options {
    /// Fails on values that can't work, naming the option.
    pub fn check(&self) -> Result<(), Failure> {
        each_once("layouts", &self.layouts)?;
        range("seconds", self.seconds.0, 3, 3600)?;
        range("lead", self.lead.0, 0, 600)?;
        range("write-iops", self.write_iops, 1, 1_000_000)?;
        range("sessions", self.sessions, 1, 64)?;
        range("clients", self.clients, 1, 100)?;
        range("scale", self.scale, 1, 1000)?;
        self.check_file_system_options()?;
        // Two clusters with their WAL, and databases of which each session has one at a time at least.
        let needed = (400 << 20) + u64::from(self.scale) * SCALE_BYTES * 3 / 2 + u64::from(self.sessions) * (10 << 20);
        if self.size.bytes() < needed {
            return Err(Failure::Usage(format!(
                "--size {}: these tables and sessions need {}MB",
                self.size,
                needed.div_ceil(1 << 20)
            )));
        }
        Ok(())
    }

    /// What one type of file system takes another refuses; and mount must not find a journal that is none of the lab's.
    fn check_file_system_options(&self) -> Result<(), Failure> {
        let given = match (&self.mkfs_options, &self.mount_options) {
            (Some(_), _) => "mkfs",
            (None, Some(_)) => "mount",
            (None, None) => return Ok(()),
        };
        let fs_type = self.layouts[0].fs_type;
        if self.layouts.iter().any(|layout| layout.fs_type != fs_type) {
            return Err(Failure::Usage(format!(
                "--{given}-options: ext4 and XFS take others; give --layouts of one of them, e.g. xfs,xfs-logdev"
            )));
        }
        if self.mount_options.as_ref().is_some_and(|options| options.as_str().contains("dev=")) {
            return Err(Failure::Usage(
                "--mount-options: leave the journal's device out; the layout says which".into(),
            ));
        }
        let check = self.mkfs_options.as_ref().map_or(Ok(()), |options| options.check(fs_type));
        check.map_err(|error| Failure::Usage(format!("--mkfs-options {error}")))
    }

    /// Settings of both servers where they differ from PostgreSQL's.
    pub(super) fn server_settings(&self) -> BTreeMap<String, String> {
        // A quarter of the device for the WAL of each.
        let wal = (self.size.bytes() >> 22).clamp(96, 1024);
        self.common.over([
            ("max_wal_size", format!("{wal}MB")),
            ("max_connections", (self.clients.max(self.sessions) + 20).to_string()),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::parsed;

    #[test]
    fn the_quick_form_is_a_default_that_other_options_override() {
        let all: Options = parsed(&[]).unwrap();
        all.check().unwrap();
        assert_eq!(all.layouts.len(), layout::LAYOUTS.len());
        assert_eq!((all.seconds, all.lead, all.scale), (Seconds(12), Seconds(8), 20));
        for (words, part) in [
            (["--mkfs-options", "-m 0"], "--mkfs-options: ext4 and XFS take others"),
            (["--mount-options", "nobarrier"], "--mount-options: ext4 and XFS"),
        ] {
            let refusal = parsed::<Options>(&words).unwrap().check().unwrap_err().to_string();
            assert!(refusal.contains(part), "{refusal}");
        }
        for (options, part) in [
            (["--mkfs-options", "-E stride=4"], Some("--mkfs-options -E: for xfs")),
            (["--mount-options", "logdev=/dev/sda"], Some("leave the journal's device out")),
            (["--mkfs-options", "-d agcount=32"], None),
        ] {
            let words = [["--layouts", "xfs,xfs-logdev"], options].concat();
            let refusal = parsed::<Options>(&words).unwrap().check().err().map(|refusal| refusal.to_string());
            assert!(refusal.as_deref().unwrap_or_default().contains(part.unwrap_or_default()), "{refusal:?}");
            assert_eq!(refusal.is_some(), part.is_some(), "{refusal:?}");
        }
        let quick: Options = parsed(&["--quick", "--scale", "3"]).unwrap();
        assert_eq!((quick.seconds, quick.lead, quick.scale), (Seconds(8), Seconds(6), 3));
    }
}

use std::collections::BTreeMap;

use clap::Args;
use serde::Serialize;

use crate::interference::layout;
use crate::interference::layout::Layout;
use crate::options::{Common, count, declared, each_once, range, serialize_names};
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
        let quick: Options = parsed(&["--quick", "--scale", "3"]).unwrap();
        assert_eq!((quick.seconds, quick.lead, quick.scale), (Seconds(8), Seconds(6), 3));
    }
}

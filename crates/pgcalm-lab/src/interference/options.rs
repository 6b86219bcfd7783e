use std::collections::BTreeMap;
use std::path::PathBuf;

use pgcalm_volume::Volume;
use serde_json::Value;

use crate::LabError;
use crate::Seconds;
use crate::Size;
use crate::contestant::ServerSetting;
use crate::interference::layout::Layout;

/// Bytes that pgbench's tables take per unit of scale, with their indexes.
const SCALE_BYTES: u64 = 16 << 20;

/// Everything that can be chosen.
#[derive(Debug, Clone)]
pub struct Options {
    /// Directory of the lab.
    pub dir: PathBuf,
    /// Directory of the server programs; the newest installed if not given.
    pub pg_bindir: Option<PathBuf>,
    /// What is run.
    pub layouts: Vec<&'static Layout>,
    /// Time that is measured of each of the two phases.
    pub seconds: Seconds,
    /// Time under load before that.
    pub lead: Seconds,
    /// Write operations per second of the neighbour.
    pub write_iops: u32,
    /// Sessions of the neighbour, each of which makes one database after another.
    pub sessions: u32,
    /// Connections of the victim's pgbench.
    pub clients: u32,
    /// Scale of pgbench's tables.
    pub scale: u32,
    /// Size of the device with the data of both, and of the neighbour's own.
    pub size: Size,
    /// Server settings of both.
    pub set: Vec<ServerSetting>,
    /// The devices are volumes that behave like this, limits included, instead of what caps on them there would be.
    pub volume: Option<Volume>,
}

impl Options {
    /// Fails on values that can't work, naming the option.
    pub fn check(&self) -> Result<(), LabError> {
        for (option, value, low, high) in [
            ("seconds", self.seconds.0, 3, 3600),
            ("lead", self.lead.0, 0, 600),
            ("write-iops", self.write_iops, 1, 1_000_000),
            ("sessions", self.sessions, 1, 64),
            ("clients", self.clients, 1, 100),
            ("scale", self.scale, 1, 1000),
        ] {
            if value < low || value > high {
                return Err(LabError::Usage(format!(
                    "--{option} {value}: use a value from {low} to {high}"
                )));
            }
        }
        // Two clusters with their WAL, and databases of which each session has one at a time at least.
        let needed = (400 << 20)
            + u64::from(self.scale) * SCALE_BYTES * 3 / 2
            + u64::from(self.sessions) * (10 << 20);
        if self.size.bytes() < needed {
            return Err(LabError::Usage(format!(
                "--size {}: these tables and sessions need {}MB",
                self.size,
                needed.div_ceil(1 << 20)
            )));
        }
        Ok(())
    }

    /// By name on the command line, as the report shows them.
    pub(super) fn named(&self) -> BTreeMap<String, Value> {
        let names: Vec<&str> = self.layouts.iter().map(|layout| layout.name).collect();
        let set: Vec<String> = self
            .set
            .iter()
            .map(|s| format!("{}={}", s.name, s.value))
            .collect();
        [
            ("layouts", Value::from(names.join(","))),
            ("seconds", self.seconds.0.into()),
            ("lead", self.lead.0.into()),
            ("write-iops", self.write_iops.into()),
            ("sessions", self.sessions.into()),
            ("clients", self.clients.into()),
            ("scale", self.scale.into()),
            ("size", self.size.to_string().into()),
            (
                "volume",
                self.volume.as_ref().map(ToString::to_string).into(),
            ),
            ("set", set.into()),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_string(), value))
        .collect()
    }

    /// Settings of both servers where they differ from PostgreSQL's.
    pub(super) fn server_settings(&self) -> BTreeMap<String, String> {
        // A quarter of the device for the WAL of each.
        let wal = (self.size.bytes() >> 22).clamp(96, 1024);
        let own = [
            ("max_wal_size", format!("{wal}MB")),
            (
                "max_connections",
                (self.clients.max(self.sessions) + 20).to_string(),
            ),
        ];
        own.into_iter()
            .map(|(name, value)| (name.to_string(), value))
            .chain(self.set.iter().map(|s| (s.name.clone(), s.value.clone())))
            .collect()
    }
}

use std::collections::BTreeMap;
use std::path::PathBuf;

use pgcalm_volume::Volume;
use serde_json::Value;

use crate::LabError;
use crate::Limit;
use crate::Seconds;
use crate::contest;
use crate::contestant::ServerSetting;
use crate::options::FsType;
use crate::options::VolumeLayout;
use crate::predict::grid::GridPoint;

/// Everything that can be chosen about a grid.
#[derive(Debug, Clone)]
pub struct Options {
    /// Directory of the lab.
    pub dir: PathBuf,
    /// Directory of the server programs; the newest installed if not given.
    pub pg_bindir: Option<PathBuf>,
    /// Which points.
    pub points: Vec<&'static GridPoint>,
    /// Rows of all points' tables, instead of their own.
    pub rows: Option<u64>,
    /// Time under load before the server is looked at.
    pub lead: Seconds,
    /// For how long it is looked at in shadow mode.
    pub observe: Seconds,
    /// Time that pg_calm has to get going.
    pub settle: Seconds,
    /// For how long it is measured then.
    pub seconds: Seconds,
    /// checkpoint_timeout.
    pub checkpoint_timeout: Seconds,
    /// Connections of the load.
    pub clients: u32,
    /// Write operations per second of the WAL device.
    pub wal_iops: Limit<u32>,
    /// File system of both devices.
    pub fs: FsType,
    /// Server settings for all points.
    pub set: Vec<ServerSetting>,
    /// The devices are volumes that behave like this, limits included, instead of what caps on them there would be.
    pub volume: Option<Volume>,
}

impl Options {
    /// Fails on values that can't work, naming the option.
    pub fn check(&self) -> Result<(), LabError> {
        for (option, value, low) in [
            ("lead", self.lead, 0),
            ("observe", self.observe, 5),
            ("settle", self.settle, 0),
            ("seconds", self.seconds, 5),
        ] {
            if value.0 < low || value.0 > 3600 {
                return Err(LabError::Usage(format!(
                    "--{option} {value}: use a value from {low} to 3600"
                )));
            }
        }
        for point in &self.points {
            self.of(point).check()?;
        }
        Ok(())
    }

    /// The options of a contest with the conditions of `point`.
    pub(super) fn of(&self, point: &GridPoint) -> contest::Options {
        contest::Options {
            dir: self.dir.clone(),
            pg_bindir: self.pg_bindir.clone(),
            rows: self.rows.unwrap_or(point.rows),
            shared_buffers: point.shared_buffers,
            data_iops: Limit(Some(point.data_iops)),
            data_bps: Limit(Some(point.data_bps)),
            wal_iops: self.wal_iops,
            fs: self.fs,
            clients: self.clients,
            // By which the devices are sized: with a checkpoint each interval WAL is recycled meanwhile.
            seconds: Seconds(self.observe.0 + self.seconds.0),
            checkpoint_timeout: self.checkpoint_timeout,
            sysctl: Some(point.sysctl),
            distribution: Some(point.distribution),
            contestants: vec![super::shadow()],
            // The module is told its limits, as on a cloud volume; WAL has one of its own.
            volume: self.volume,
            layout: Some(VolumeLayout::Two),
            set: self.settings(),
            ..contest::Options::default()
        }
    }

    /// For the server. No autovacuum if not asked for: it would come while a point is measured and not while it is observed,
    /// or the other way round.
    fn settings(&self) -> Vec<ServerSetting> {
        let mut settings = self.set.clone();
        if !settings.iter().any(|set| set.name == "autovacuum") {
            settings.push(ServerSetting {
                name: "autovacuum".to_string(),
                value: "off".to_string(),
            });
        }
        settings
    }

    /// By name on the command line, as the report shows them.
    pub(super) fn named(&self) -> BTreeMap<String, Value> {
        let set: Vec<String> = self
            .settings()
            .iter()
            .map(|setting| format!("{}={}", setting.name, setting.value))
            .collect();
        let mut named: BTreeMap<String, Value> = [
            ("lead", Value::from(self.lead.0)),
            ("observe", self.observe.0.into()),
            ("settle", self.settle.0.into()),
            ("seconds", self.seconds.0.into()),
            ("checkpoint-timeout", self.checkpoint_timeout.0.into()),
            ("clients", self.clients.into()),
            (
                "wal-iops",
                self.wal_iops.0.map_or("none".into(), Value::from),
            ),
            ("fs", self.fs.name().into()),
            (
                "volume",
                self.volume.as_ref().map(ToString::to_string).into(),
            ),
            ("set", set.into()),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_string(), value))
        .collect();
        if let Some(rows) = self.rows {
            named.insert("rows".to_string(), rows.into());
        }
        named
    }
}

#[cfg(test)]
mod tests {
    use crate::predict::grid::POINTS;
    use crate::scenarios;

    #[test]
    fn the_module_is_told_what_a_volume_takes() {
        let mut options = scenarios::predict::quick();
        let settings = |options: &super::Options| {
            options
                .of(&POINTS[0])
                .server_settings(crate::predict::shadow())
        };
        assert!(!settings(&options).contains_key("pg_calm.iops"));
        options.volume = Some("gp3".parse().unwrap());
        assert_eq!(settings(&options)["pg_calm.iops"], "3000");
    }
}

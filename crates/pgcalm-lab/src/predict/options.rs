use std::collections::BTreeMap;

use clap::Args;
use serde::Serialize;
use serde_json::Value;

use crate::contestant::ServerSetting;
use crate::options::{Common, FsType, VolumeLayout, declared, each_once, named, range};
use crate::predict::grid;
use crate::predict::grid::{GridPoint, POINTS};
use crate::{Limit, Seconds, contest};
use pgcalm_host::Failure;

/// Everything that can be chosen about a grid. How a checkpoint's drain and the kernel's visits, each 31 s, fall together
/// shifts by some seconds from one to the next, and in the first ones it is always the same, since both start when pg_calm is
/// switched on: so several intervals are measured after a first one has passed.
#[derive(Debug, Clone, Args, Serialize)]
#[command(mut_args(declared))]
#[serde(rename_all = "kebab-case")]
pub struct Options {
    /// Three points with small tables, measured for 90 s; other options still hold.
    #[serde(skip)]
    #[arg(long)]
    pub quick: bool,
    /// Which points, separated by commas; `pgcalm lab list` tells them [default: all].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = grid::parse,
          default_value_if("quick", "true", "medium,few-operations,large-buffers"))]
    #[serde(skip)]
    pub points: Vec<&'static GridPoint>,
    /// Rows of the table at all points, instead of their own.
    #[arg(long)]
    pub rows: Option<u64>,
    #[arg(long, default_value = "45")]
    pub(crate) lead: Seconds,
    /// For how long it is looked at in shadow mode.
    #[arg(long, value_name = "S", default_value = "30")]
    pub observe: Seconds,
    /// Time that pg_calm has to get going, then; more than checkpoint_timeout.
    #[arg(long, value_name = "S", default_value = "35")]
    pub settle: Seconds,
    /// For how long it is measured, from the end of a checkpoint in it to that of the last.
    #[arg(long, default_value = "180", default_value_if("quick", "true", "90"))]
    pub seconds: Seconds,
    #[arg(long, default_value = "30")]
    pub(crate) checkpoint_timeout: Seconds,
    #[arg(long, default_value = "4")]
    pub(crate) clients: u32,
    #[arg(long, default_value = "4000")]
    pub(crate) wal_iops: Limit<u32>,
    /// File system of both devices.
    #[arg(long, default_value = "ext4")]
    pub fs: FsType,
    /// What every scenario has.
    #[command(flatten)]
    #[serde(flatten)]
    pub common: Common,
}

impl Options {
    /// Fails on values that can't work, naming the option.
    pub fn check(&self) -> Result<(), Failure> {
        for (option, value, low) in [
            ("lead", self.lead, 0),
            ("observe", self.observe, 5),
            ("settle", self.settle, 0),
            ("seconds", self.seconds, 5),
        ] {
            range(option, value.0, low, 3600)?;
        }
        each_once("points", &self.points)?;
        if self.common.module_dir.is_some() {
            return Err(Failure::Usage(
                "--module-dir: what is looked at is the extension: run make install in extension/pg_calm, and leave it out"
                    .to_string(),
            ));
        }
        for point in self.points() {
            self.of(point).check()?;
        }
        Ok(())
    }

    /// The points that are run.
    pub(super) fn points(&self) -> Vec<&'static GridPoint> {
        if self.points.is_empty() { POINTS.iter().collect() } else { self.points.clone() }
    }

    /// The options of a contest with the conditions of `point`.
    pub(super) fn of(&self, point: &GridPoint) -> contest::Options {
        let mut common = self.common.clone();
        common.set = self.settings();
        contest::Options {
            common,
            rows: self.rows.unwrap_or(point.rows),
            shared_buffers: point.shared_buffers,
            layout: Some(VolumeLayout::Two),
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
            ..contest::Options::default()
        }
    }

    /// For the server. No autovacuum if not asked for: it would come while a point is measured and not while it is observed,
    /// or the other way round.
    fn settings(&self) -> Vec<ServerSetting> {
        let mut settings = self.common.set.clone();
        if !settings.iter().any(|set| set.name == "autovacuum") {
            settings.push(ServerSetting { name: "autovacuum".to_string(), value: "off".to_string() });
        }
        settings
    }

    /// By name on the command line, as the report shows them.
    pub(super) fn named(&self) -> BTreeMap<String, Value> {
        let mut all = self.clone();
        all.common.set = self.settings();
        named(&all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::parsed;

    #[test]
    fn the_quick_form_has_fewer_points_and_seconds() {
        let all: Options = parsed(&[]).unwrap();
        assert_eq!((all.points().len(), all.seconds), (12, Seconds(180)));
        let quick: Options = parsed(&["--quick", "--set", "a=1"]).unwrap();
        assert_eq!((quick.points().len(), quick.seconds), (3, Seconds(90)));
        quick.check().unwrap();
        let built: Options = parsed(&["--module-dir", "/x"]).unwrap();
        assert!(built.check().unwrap_err().to_string().contains("make install"));
        let named = quick.named();
        assert_eq!(named["set"], serde_json::json!(["a=1", "autovacuum=off"]));
        assert_eq!((&named["wal-iops"], &named["fs"]), (&4000.into(), &"ext4".into()));
    }

    /// As on a cloud volume; WAL has one of its own.
    #[test]
    fn the_module_is_told_what_a_volume_takes() {
        let settings = |more: &[&str]| {
            let options: Options = parsed(more).unwrap();
            options.of(&POINTS[0]).server_settings(crate::predict::shadow())
        };
        assert!(!settings(&[]).contains_key("pg_calm.iops"));
        assert_eq!(settings(&["--volume", "gp3"])["pg_calm.iops"], "3000");
    }
}

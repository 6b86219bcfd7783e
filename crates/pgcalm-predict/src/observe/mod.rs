//! Looking at a running server: a second at a time, without changing anything.

mod host;
mod rates;
mod server;
mod shadow;

use std::time::{Duration, Instant};

use anyhow::Context;
use pgcalm_host::HostRoot;
use pgcalm_postgres::{Client, Version, Writes};

use crate::observe::host::Counters;
use crate::observe::rates::Rates;
use crate::report::{Device, OPTIONS, Observation};

pub use server::{Statistics, connect, connect_to};
pub use shadow::ModuleCounters;

/// Between two looks.
const INTERVAL: Duration = Duration::from_secs(1);

/// How to look.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// For how long.
    pub seconds: u32,
    /// Write operations per second instead of those found; `Some(None)` for no cap.
    pub write_iops: Option<Option<f64>>,
    /// Bytes per second instead of those found, likewise.
    pub write_bytes_per_s: Option<Option<f64>>,
    /// Operations per second that reads and writes share.
    pub all_iops: Option<f64>,
    /// Bytes per second, likewise.
    pub all_bytes_per_s: Option<f64>,
    /// Reads count, and come as [`Reads`] says; a limit for all that is not given is that of writes.
    pub reads: Option<Reads>,
}

impl Options {
    /// Puts what is given in the place of what was found.
    fn limit(&self, device: &mut Device) {
        let shared_stay = self.reads.is_none() && (device.all_iops.is_some() || device.all_bytes_per_s.is_some());
        let stays = shared_stay
            || (self.write_iops.is_none() && device.write_iops.is_some())
            || (self.write_bytes_per_s.is_none() && device.write_bytes_per_s.is_some());
        if self.write_iops.is_some() || self.write_bytes_per_s.is_some() {
            device.caps_source =
                if stays { format!("{OPTIONS} and {}", device.caps_source) } else { OPTIONS.to_string() };
        }
        device.write_iops = self.write_iops.unwrap_or(device.write_iops);
        device.write_bytes_per_s = self.write_bytes_per_s.unwrap_or(device.write_bytes_per_s);
        if self.reads.is_some() {
            device.all_iops = self.all_iops.or(device.write_iops);
            device.all_bytes_per_s = self.all_bytes_per_s.or(device.write_bytes_per_s);
        }
    }
}

/// Reads of a volume on which they count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reads {
    /// As many as are seen.
    Seen,
    /// So many per second, of a page each.
    PerSecond(f64),
}

/// Looks at the server behind `client` for so long. `go_on` is called before each look and ends it with its error.
pub fn observe(
    root: &HostRoot,
    client: &mut Client,
    options: &Options,
    go_on: &mut dyn FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<Observation> {
    let read = server::settings(client)?;
    let settings = server::shown_settings(&read);
    let in_shadow = shadow::is_there(client, &read)?;
    let instance = host::instance(root, client)?;
    let (mut device, has_wal) = host::device(root, instance.as_ref(), in_shadow.as_ref())?;
    options.limit(&mut device);

    let version = Version::read(client)?;
    let were_late = are_late(client, version)?;
    let mut rates = Rates::default();
    let first = Statistics::read(client)?;
    let first_shadow = in_shadow.is_some().then(|| ModuleCounters::read(client)).transpose()?;
    let counters = Counters::read(root, instance.as_ref());
    rates.add(&first);
    let started = Instant::now();
    let mut next = started;
    let end = started + Duration::from_secs(u64::from(options.seconds.max(2)));
    while Instant::now() < end {
        next += INTERVAL;
        while Instant::now() < next {
            go_on()?;
            std::thread::sleep(next.saturating_duration_since(Instant::now()).min(Duration::from_millis(100)));
        }
        rates.add(&Statistics::read(client)?);
    }
    let seconds = started.elapsed().as_secs_f64();
    let last = Statistics::read(client)?;
    last.check_since(&first)?;
    let written = last.since(&first);
    Counters::read(root, instance.as_ref()).tell(&counters, seconds, &mut device);
    if let Some(Reads::PerSecond(reads)) = options.reads {
        device.reads_per_s = reads;
        device.read_mib_per_s = reads * settings.page_bytes as f64 / f64::from(1 << 20);
    }
    if has_wal {
        device.wal_writes_per_s = written.wal_writes / seconds;
        device.wal_is_uncounted = last.in_recovery && version.major() < 18;
    }
    let shadow = match &first_shadow {
        Some(first) => Some(ModuleCounters::read(client)?.since(first, seconds)),
        None => None,
    };

    Ok(Observation {
        seconds,
        tps: written.transactions / seconds,
        unhindered_tps: rates.unhindered(),
        checkpointer_pages_per_s: written.checkpointer_pages / seconds,
        background_writer_pages_per_s: written.background_writer_pages / seconds,
        backend_pages_per_s: written.backend_pages / seconds,
        wal_bytes_per_s: written.wal_bytes / seconds,
        writes_are_late: are_late(client, version)? || were_late,
        settings,
        device,
        shadow,
    })
}

fn are_late(client: &mut Client, version: Version) -> anyhow::Result<bool> {
    Writes::are_late(client, version).context("look for open transactions")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `--iops 3000 --write-iops 1000`, and `--iops 3000` alone: what reads and writes share is 3000 all the same.
    #[test]
    fn a_tighter_limit_of_writes_is_not_that_of_all() {
        for write_iops in [1000.0, 3000.0] {
            let options = Options {
                write_iops: Some(Some(write_iops)),
                all_iops: Some(3000.0),
                reads: Some(Reads::Seen),
                ..Options::default()
            };
            let mut device = crate::model::fixture::observation().device;
            options.limit(&mut device);
            assert_eq!((device.write_iops, device.all_iops), (Some(write_iops), Some(3000.0)));
            assert_eq!(device.all_bytes_per_s, device.write_bytes_per_s);
        }
    }

    /// `--write-iops` beside `pg_calm.iops`, which reads and writes share all the same.
    #[test]
    fn what_the_options_leave_of_what_was_found_is_told_beside_them() {
        let source = |options: Options, all_iops| {
            let found = Device {
                write_bytes_per_s: None,
                all_iops,
                caps_source: "settings".to_string(),
                ..crate::model::fixture::observation().device
            };
            let mut device = found.clone();
            options.limit(&mut device);
            assert_eq!(device.write_iops, options.write_iops.unwrap_or(found.write_iops));
            device.caps_source
        };
        let writes = || Options { write_iops: Some(Some(1000.0)), ..Options::default() };
        assert_eq!(source(Options::default(), None), "settings");
        assert_eq!(source(writes(), None), OPTIONS);
        assert_eq!(source(writes(), Some(3000.0)), "options and settings");
        let bytes = Options { write_bytes_per_s: Some(None), ..Options::default() };
        assert_eq!(source(bytes, None), "options and settings");
        let all = Options { all_iops: Some(3000.0), reads: Some(Reads::Seen), ..writes() };
        assert_eq!(source(all, Some(9000.0)), OPTIONS);
    }
}

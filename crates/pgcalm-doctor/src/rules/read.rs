//! Reading facts in a condition: what is not there makes the rule unanswered, with the way out.

use crate::isolate::report::Instance;
use pgcalm_postgres::{unit_bytes, unit_seconds};

use crate::facts::{Cap, DirtyThresholds, Disk, DiskRates, Facts, Host, Server};
use crate::rules::found::Unknown;
use crate::words;

const NO_HOST: &str = "the server's host was not looked at";
const NO_SERVER: &str = "no connection to the server: give --connect";
const NO_INSTANCE: &str = "the server's process was not found: run it on the server's host, as root";

pub(crate) fn host(facts: &Facts) -> Result<&Host, Unknown> {
    facts.host.as_ref().ok_or_else(|| NO_HOST.into())
}

pub(crate) fn server(facts: &Facts) -> Result<&Server, Unknown> {
    facts.server.as_ref().ok_or_else(|| NO_SERVER.into())
}

pub(crate) fn instance(facts: &Facts) -> Result<&Instance, Unknown> {
    let instance = host(facts)?.instance.as_ref();
    instance.ok_or_else(|| NO_INSTANCE.into())
}

/// The disk of the data directory.
pub(crate) fn data_disk(facts: &Facts) -> Result<&Disk, Unknown> {
    disk_of(facts, "data")?.ok_or_else(|| "the data directory is on no block device".into())
}

/// The first disk that holds something of that role; none if that is on no block device.
pub(crate) fn disk_of<'a>(facts: &'a Facts, role: &str) -> Result<Option<&'a Disk>, Unknown> {
    let instance = instance(facts)?;
    let mut disks = host(facts)?.disks.iter();
    let disk = disks.find(|disk| disk.roles.iter().any(|of_it| of_it == role));
    let place = instance.places.iter().find(|place| place.role == role);
    match (disk, place) {
        (Some(disk), _) => Ok(Some(disk)),
        (None, Some(place)) => match place.disk.as_ref() {
            Ok(_) => Ok(None),
            Err(why) => Err(why.clone()),
        },
        (None, None) => Err(instance
            .unknown
            .first()
            .cloned()
            .unwrap_or_else(|| Unknown::new(format!("where the server's {role} is")))),
    }
}

pub(crate) fn dirty_thresholds(facts: &Facts) -> Result<DirtyThresholds, Unknown> {
    let thresholds = host(facts)?.dirty_thresholds;
    thresholds.ok_or_else(|| "/proc/meminfo or /proc/sys/vm can't be read".into())
}

/// What of dirty page cache makes the server's writers wait: a control group of v2 has the same part of its own memory
/// (`mem_cgroup_wb_stats`, mm/memcontrol.c).
pub(crate) fn dirty_limit(facts: &Facts) -> Result<u64, Unknown> {
    let thresholds = dirty_thresholds(facts)?;
    let is_of_v2 = |file: &str| file.ends_with("/memory.max") || file.ends_with("/memory.high");
    let group = host(facts)?.memory_limit.there().filter(|limit| is_of_v2(&limit.file));
    let part = group.map_or(1.0, |group| group.bytes as f64 / thresholds.dirtyable_bytes.max(1) as f64);
    Ok((thresholds.limit_bytes as f64 * part.min(1.0)) as u64)
}

/// A writeback sysctl.
pub(crate) fn sysctl(facts: &Facts, name: &str) -> Result<u64, Unknown> {
    let value = host(facts)?.sysctls.get(name).copied();
    value.ok_or_else(|| Unknown::new(format!("/proc/sys/vm/{name} can't be read")))
}

/// The text of a setting.
pub(crate) fn text<'a>(server: &'a Server, name: &str) -> Result<&'a str, Unknown> {
    let setting = server.settings.get(name);
    setting
        .map(|setting| setting.value.as_str())
        .ok_or_else(|| Unknown::new(format!("the server has no setting {name}, or hides it")))
}

pub(crate) fn is_on(server: &Server, name: &str) -> Result<bool, Unknown> {
    Ok(text(server, name)? == "on")
}

/// The value of a numeric setting, in its unit.
pub(crate) fn number(server: &Server, name: &str) -> Result<f64, Unknown> {
    let text = text(server, name)?;
    text.parse().map_err(|_| Unknown::new(format!("{name} = {text} is no number")))
}

/// The value of a setting that is an amount of memory or disk; `None` for its special value -1.
pub(crate) fn bytes(server: &Server, name: &str) -> Result<Option<u64>, Unknown> {
    let value = number(server, name)?;
    let unit = unit(server, name)?;
    let factor = unit_bytes(unit).ok_or_else(|| Unknown::new(format!("{name} has the unknown unit {unit}")))?;
    Ok((value >= 0.0).then_some((value * factor) as u64))
}

/// The value of a setting that is a time.
pub(crate) fn seconds(server: &Server, name: &str) -> Result<f64, Unknown> {
    let value = number(server, name)?;
    let unit = unit(server, name)?;
    let factor = unit_seconds(unit).ok_or_else(|| Unknown::new(format!("{name} has the unknown unit {unit}")))?;
    Ok(value * factor)
}

fn unit<'a>(server: &'a Server, name: &str) -> Result<&'a str, Unknown> {
    let setting = server.settings.get(name);
    setting.and_then(|setting| setting.unit.as_deref()).ok_or_else(|| Unknown::new(format!("{name} has no unit")))
}

/// Whether pg_calm does the writing back.
pub(crate) fn pg_calm_is_on(facts: &Facts) -> bool {
    let server = facts.server.as_ref();
    let calm = server.and_then(|server| server.pg_calm.as_ref());
    calm.is_some_and(|calm| calm.mode == "on" && calm.degraded.is_none())
}

/// pg_calm_guard slows writers down.
pub(crate) fn guard_is_on(server: &Server) -> bool {
    text(server, "pg_calm_guard.mode").is_ok_and(|mode| mode == "on")
}

/// WAL bytes per second: the higher of the rate of the sample and the average since the statistics were reset, which idle
/// times dilute. An average over less than `least` seconds doesn't count: it may be of one burst, as initdb's.
pub(crate) fn wal_rate(facts: &Facts, least: f64) -> Result<f64, Unknown> {
    let average = wal_average(server(facts)?, least);
    let sample = facts.sample.as_ref().and_then(|s| s.wal_bytes_per_second);
    match (average, sample) {
        (Some(average), Some(sample)) => Ok(average.max(sample)),
        (average, sample) => average.or(sample).ok_or_else(|| "the rate of WAL is not known: give --duration".into()),
    }
}

/// The average alone.
pub(crate) fn wal_average(server: &Server, least: f64) -> Option<f64> {
    let wal = &server.wal;
    wal.seconds.filter(|seconds| *seconds > 0.0 && *seconds >= least).map(|seconds| wal.bytes as f64 / seconds)
}

/// The part of a cap that reads and writes share that writes come to, even where reads would take all: both wait in one queue. As
/// pg_calm's worker takes it (`LEAST_SHARE` in extension/pg_calm/src/writeback/controller.c).
const LEAST_SHARE: f64 = 0.3;

/// Write operations per second that a disk takes.
pub(crate) fn write_iops(facts: &Facts, disk: &Disk) -> Result<Cap, Unknown> {
    let reads = rates(facts, disk).map(|rates| rates.read_operations_per_second);
    let (own, all) = (disk.write_iops.as_ref(), disk.all_iops.as_ref());
    of_writes(own, all, reads, |reads| format!("{reads} reads")).ok_or_else(no_cap)
}

/// Bytes per second that may be written to a disk, if a cap is known.
pub(crate) fn write_bandwidth(facts: &Facts, disk: &Disk) -> Option<Cap> {
    let reads = rates(facts, disk).map(|rates| rates.read_bytes_per_second);
    let (own, all) = (disk.write_bandwidth.as_ref(), disk.all_bandwidth.as_ref());
    of_writes(own, all, reads, |reads| format!("{} read", words::size(reads)))
}

/// The rates of the sample.
pub(crate) fn rates<'a>(facts: &'a Facts, disk: &Disk) -> Option<&'a DiskRates> {
    let disks = &facts.sample.as_ref()?.disks;
    disks.iter().find(|rates| rates.name == disk.disk.name)
}

/// Writes' own cap, or what reads leave of the one that they share, whichever is less.
fn of_writes(own: Option<&Cap>, all: Option<&Cap>, reads: Option<f64>, worded: impl Fn(u64) -> String) -> Option<Cap> {
    let reads = reads.unwrap_or(0.0);
    let left = all.map(|all| Cap {
        value: (all.value as f64 - reads).max(all.value as f64 * LEAST_SHARE) as u64,
        source: format!("{}, less {} per second", all.source, worded(reads as u64)),
    });
    // The first of equals: where nothing is read, nothing has to be said of it.
    own.cloned().into_iter().chain(left).min_by_key(|cap| cap.value)
}

/// A cloud volume's cap is nowhere on the host.
pub(crate) fn no_cap() -> Unknown {
    "no cap on writes can be seen; a cloud volume's is nowhere on the host: give --iops and --bandwidth".into()
}

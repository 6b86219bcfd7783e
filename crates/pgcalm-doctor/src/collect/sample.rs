use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use pgcalm_host::block_device::DeviceStat;
use pgcalm_host::throttle::Kind;
use pgcalm_host::{HostRoot, Unknown, block_device, throttle};
use pgcalm_postgres::{Client, Version, is_lost};
use postgres::Error;

use crate::facts::{Disk, DiskRates, Host, Sample, StandbyLag};

/// Bytes of WAL since the cluster was made, by position.
const WAL_POSITION: &str = "\
SELECT (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END - '0/0')::float8";

/// Commits and flushes of WAL since their statistics were reset.
fn commits(client: &mut Client) -> Result<Option<(f64, f64)>, Error> {
    let Some(version) = unless_lost(Version::read(client))? else { return Ok(None) };
    let sql = format!(
        "SELECT (SELECT sum(xact_commit) FROM pg_stat_database)::float8, wal_syncs::float8 FROM {} w",
        version.wal()
    );
    let row = unless_lost(client.query_one(&sql, &[]))?;
    Ok(row.and_then(|row| row.get::<_, Option<f64>>(0).zip(row.get(1))))
}

/// What is not on each standby's disk. No rows without the rights to see them, and of a server in recovery, whose own
/// position is not what it lacks. Nobody fails over to who replays nothing, as pg_receivewal, which syncs whole segments
/// (`close_walfile`, receivelog.c), or to who receives changes, not WAL.
const STANDBYS: &str = "\
SELECT pid, application_name, greatest(pg_current_wal_flush_lsn() - flush_lsn, 0)::int8 FROM pg_stat_replication r \
WHERE state = 'streaming' AND flush_lsn IS NOT NULL AND replay_lsn IS NOT NULL AND NOT pg_is_in_recovery() \
AND NOT EXISTS (SELECT FROM pg_replication_slots s WHERE s.active_pid = r.pid AND s.slot_type = 'logical')";

/// Bytes that standbys are behind, by their walsenders' process id, with their names.
fn standbys(client: &mut Client) -> Result<BTreeMap<i32, (String, u64)>, Error> {
    let rows = unless_lost(client.query(STANDBYS, &[]))?.unwrap_or_default();
    Ok(rows.iter().map(|row| (row.get(0), (row.get(1), row.get::<_, i64>(2) as u64))).collect())
}

/// A server that refuses an answer has none; one that has gone can't be sampled.
fn unless_lost<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Err(error) if is_lost(&error) => Err(error),
        answer => Ok(answer.ok()),
    }
}

/// What the groups whose limits are the caps of a disk have written there: operations and bytes.
fn written_by_groups(root: &HostRoot, disk: &Disk) -> [Option<u64>; 2] {
    [(&disk.write_iops, Kind::WriteIops), (&disk.write_bandwidth, Kind::WriteBps)].map(|(cap, kind)| {
        let cap = cap.as_ref().filter(|cap| cap.is_of_group())?;
        throttle::done(root, Path::new(&cap.source), &disk.disk.number, kind)
    })
}

/// Reads counters twice.
///
/// Errors are those of a server that is gone, or ended meanwhile.
pub(super) fn take(
    root: &HostRoot,
    host: Option<&Host>,
    mut client: Option<&mut Client>,
    time: Duration,
) -> Result<Option<Sample>, Error> {
    let names: Vec<String> =
        host.map(|host| host.disks.iter().map(|disk| disk.disk.name.clone())).into_iter().flatten().collect();
    let mut read = || -> Result<_, Error> {
        let wal = match client.as_mut() {
            Some(client) => {
                unless_lost(client.query_one(WAL_POSITION, &[]))?.and_then(|row| row.get::<_, Option<f64>>(0))
            }
            None => None,
        };
        // A name with a slash has `!` for it in /sys.
        let disks: Vec<Result<DeviceStat, Unknown>> = names
            .iter()
            .map(|name| {
                let name = name.replace('/', "!");
                let stat = DeviceStat::read(root, &name)?;
                block_device::counts(root, &name, &stat).map(|()| stat)
            })
            .collect();
        let of_host = host.into_iter().flat_map(|host| &host.disks);
        let groups: Vec<[Option<u64>; 2]> = of_host.map(|disk| written_by_groups(root, disk)).collect();
        let (standbys, commits) = match client.as_mut() {
            Some(client) => (standbys(client)?, commits(client)?),
            None => Default::default(),
        };
        Ok((Instant::now(), wal, disks, groups, standbys, commits))
    };
    let (start, wal_before, before, groups_before, standbys_before, commits_before) = read()?;
    if wal_before.is_none() && names.is_empty() {
        return Ok(None);
    }
    thread::sleep(time);
    let (end, wal_after, after, groups_after, standbys_after, commits_after) = read()?;
    let seconds = (end - start).as_secs_f64();
    let rate = |before: u64, after: u64| after.saturating_sub(before) as f64 / seconds;
    let mut disks = Vec::new();
    let mut uncounted = BTreeMap::new();
    let by_group = |disk: usize, what: usize| Some(rate(groups_before[disk][what]?, groups_after[disk][what]?));
    for (number, (name, ends)) in names.iter().zip(before.into_iter().zip(after)).enumerate() {
        match ends {
            (Ok(before), Ok(after)) => disks.push(DiskRates {
                name: name.clone(),
                write_operations_per_second: rate(before.write_ops, after.write_ops),
                write_bytes_per_second: rate(before.write_bytes, after.write_bytes),
                read_operations_per_second: rate(before.read_ops, after.read_ops),
                read_bytes_per_second: rate(before.read_bytes, after.read_bytes),
                group_write_operations_per_second: by_group(number, 0),
                group_write_bytes_per_second: by_group(number, 1),
            }),
            (_, Err(why)) | (Err(why), Ok(_)) => {
                uncounted.insert(name.clone(), why);
            }
        }
    }
    let commits = commits_before.zip(commits_after);
    let per_second = |before: f64, after: f64| ((after - before) / seconds).max(0.0);
    Ok(Some(Sample {
        seconds,
        commits_per_second: commits.map(|(before, after)| per_second(before.0, after.0)),
        wal_flushes_per_second: commits.map(|(before, after)| per_second(before.1, after.1)),
        wal_bytes_per_second: wal_before.zip(wal_after).map(|(before, after)| per_second(before, after)),
        disks,
        uncounted,
        standbys: standbys_after
            .into_iter()
            .filter_map(|(pid, (application_name, after_bytes))| {
                Some(StandbyLag { application_name, before_bytes: standbys_before.get(&pid)?.1, after_bytes })
            })
            .collect(),
    }))
}

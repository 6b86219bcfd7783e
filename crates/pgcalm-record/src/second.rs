//! One second of one instance: what of the monitor's model tells whether users were held, and by what.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use pgcalm_host::instance::Role;
use pgcalm_monitor::model::{
    ArchiveState, Blocked, Caps, Checkpoint, Cpu, Device, Group, Host, Instance, Maintenance, Memory, Pressure,
    Reachability, Standby, Volume, WaitCause,
};
use pgcalm_render::number::{bytes, short};

use crate::stuck::Looks;

/// What the server said in a second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Answer {
    /// It was asked and answered.
    #[default]
    Fresh,
    /// Nothing new since the second before.
    Silent,
    /// It has not answered for so many seconds.
    Hung(f64),
    /// It takes no session of anybody: it starts, recovers or stops.
    Closed,
    /// There is no connection for another reason, as it is stopped.
    Away,
}

/// One second. What is not known is `None`, zero or empty.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Second {
    /// When the sample was put together: milliseconds since 1970.
    pub time_ms: u64,
    /// Whether the server answered.
    pub answer: Answer,
    /// How long its answer took.
    pub answer_seconds: f64,
    /// When it was asked: milliseconds since 1970; 0 if not known.
    pub asked_ms: u64,
    /// Since it started.
    pub uptime: Option<f64>,
    /// Whether it takes writes; `None` if not known.
    pub is_primary: Option<bool>,
    /// Transactions committed per second.
    pub commits: Option<f64>,
    /// Bytes of WAL per second.
    pub wal_bytes: f64,
    /// Full-page images per second.
    pub page_images: f64,
    /// Bytes of temporary files per second.
    pub temporary_bytes: f64,
    /// Sessions begun per second.
    pub logins: f64,
    /// Blocks read per second that were not in shared_buffers.
    pub blocks_read: f64,
    /// Whether nothing is known of its sessions: what follows says nothing, and commits can't be judged.
    pub is_blind: bool,
    /// Client connections that run a statement.
    pub active: u64,
    /// Client connections of any state.
    pub connections: u64,
    /// Setting max_connections.
    pub max_connections: u64,
    /// Sessions whose statement has run for more than a second.
    pub slow: u64,
    /// Age of the oldest of their statements.
    pub slow_seconds: f64,
    /// Active sessions by what they wait for.
    pub waits: BTreeMap<WaitCause, u64>,
    /// The same by event, `type:event`.
    pub events: Vec<(String, u64)>,
    /// Who waits for a lock of whom.
    pub blocked: Vec<Blocked>,
    /// The checkpoint.
    pub checkpoint: Option<Checkpoint>,
    /// Checkpoints asked for so far.
    pub checkpoints_requested: u64,
    /// Checkpoints by time so far.
    pub checkpoints_timed: u64,
    /// What runs besides users.
    pub maintenance: Vec<Maintenance>,
    /// Standbys.
    pub standbys: Vec<Standby>,
    /// Whether WAL is archived.
    pub archives: bool,
    /// Files that wait to be archived.
    pub archive_queue: u64,
    /// Whether the last attempt failed.
    pub archive_fails: bool,
    /// For which input of pg_calm_guard sessions are held.
    pub guard: Option<String>,
    /// Of the disks below the data directory and tablespaces the one that hangs, else the busiest.
    pub data: Option<Disk>,
    /// That below pg_wal; the same one where both share it.
    pub wal: Option<Disk>,
    /// Other instances on these disks.
    pub neighbours: Vec<String>,
    /// Dirty memory of the host.
    pub memory: Memory,
    /// Processors of the host.
    pub cpu: Option<Cpu>,
    /// Pressure of the host.
    pub pressure: Option<Pressure>,
    /// The instance's control group.
    pub group: Option<Group>,
    /// Its processes that slept uninterruptibly; not among what a record is judged by again.
    pub looks: Looks,
}

/// A disk in a second.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Disk {
    /// E.g. `sda`.
    pub name: String,
    /// Where files of the instance lie on it.
    pub path: String,
    /// Whether data and WAL are both on it.
    pub is_shared: bool,
    /// Read operations per second.
    pub reads: f64,
    /// Bytes read per second.
    pub read_bytes: f64,
    /// Write operations per second.
    pub writes: f64,
    /// Bytes written per second.
    pub write_bytes: f64,
    /// Part of the time in which anything was in flight.
    pub busy: f64,
    /// Operations in flight at the end of the second.
    pub in_flight: u64,
    /// The cap that is closest to being reached.
    pub cap: Option<CapUse>,
}

/// How much of a cap is used.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CapUse {
    /// E.g. `write operations`.
    pub what: &'static str,
    /// What was done per second.
    pub used: f64,
    /// What is allowed per second.
    pub allowed: f64,
    /// Where that stands.
    pub source: String,
}

impl CapUse {
    /// Part of the cap that is used.
    pub fn share(&self) -> f64 {
        if self.allowed > 0.0 { self.used / self.allowed } else { 0.0 }
    }

    /// How much it is, as the cap was given: bytes in PostgreSQL's units.
    pub fn amount(&self, value: f64) -> String {
        if self.what.starts_with("bytes") { bytes(value) } else { short(value) }
    }
}

impl Disk {
    /// Part of the closest cap that is used; 0 without a cap.
    pub fn cap_share(&self) -> f64 {
        self.cap.as_ref().map_or(0.0, CapUse::share)
    }

    /// Whether it did as much as its cap allows.
    pub fn is_at_cap(&self) -> bool {
        self.cap_share() >= 0.85
    }

    /// Whether it had something to do all the time, or as much as its cap allows.
    pub fn is_full(&self) -> bool {
        self.is_at_cap() || self.busy >= 0.95
    }

    /// What it did per second of what a cap limits, as [`CapUse::what`] has it.
    pub fn done(&self, what: &str) -> f64 {
        match what {
            "write operations" => self.writes,
            "bytes written" => self.write_bytes,
            "read operations" => self.reads,
            "bytes read" => self.read_bytes,
            _ => 0.0,
        }
    }

    /// Whether it had something to do and got nothing done.
    pub fn hangs(&self) -> bool {
        self.in_flight > 0 && self.busy >= 0.95 && self.reads + self.writes < 1.0
    }

    /// How much it has to do, against another.
    fn load(&self) -> (bool, f64, f64, u64) {
        (self.hangs(), self.cap_share(), self.busy, self.in_flight)
    }

    fn of(volume: &Volume, device: &Device, caps: &Caps) -> Self {
        let rates = device.rates.unwrap_or_default();
        let use_of = |what, cap: &Option<pgcalm_monitor::model::Cap>, on_disk: f64| {
            let cap = cap.as_ref()?;
            let used = cap.used(on_disk)?;
            Some(CapUse { what, used, allowed: cap.per_second as f64, source: cap.source.clone() })
        };
        let Caps { read_operations, read_bytes, write_operations, write_bytes } = caps;
        let uses = [
            use_of("write operations", write_operations, rates.write_operations_per_second),
            use_of("bytes written", write_bytes, rates.write_bytes_per_second),
            use_of("read operations", read_operations, rates.read_operations_per_second),
            use_of("bytes read", read_bytes, rates.read_bytes_per_second),
        ];
        Self {
            name: device.name.clone(),
            path: volume.path.clone(),
            is_shared: has_data(volume) && volume.roles.contains(&Role::Wal),
            reads: rates.read_operations_per_second,
            read_bytes: rates.read_bytes_per_second,
            writes: rates.write_operations_per_second,
            write_bytes: rates.write_bytes_per_second,
            busy: rates.busy.unwrap_or(0.0),
            in_flight: device.in_flight,
            cap: uses.into_iter().flatten().max_by(|a, b| a.share().total_cmp(&b.share())),
        }
    }
}

impl Second {
    /// What a sample tells of an instance. `last_asked` is when the server was asked for the second before.
    pub fn of(host: &Host, instance: &Instance, last_asked: Option<u64>) -> Self {
        let disk = |volume: &Volume| Some(Disk::of(volume, host.device(volume)?, &host.caps_of_all(volume)));
        // Of equals the first, which is the data directory's: the last one is taken of those that are equal.
        let data = instance.volumes.iter().rev().filter(|volume| has_data(volume)).filter_map(disk);
        let data = data.max_by(|a, b| a.load().partial_cmp(&b.load()).unwrap_or(Ordering::Equal));
        let mut second = Self {
            time_ms: host.time_ms,
            answer: match &instance.reachability {
                Reachability::Reachable if instance.sampled_ms == last_asked && last_asked.is_some() => Answer::Silent,
                Reachability::Reachable => Answer::Fresh,
                Reachability::Hung { seconds } => Answer::Hung(*seconds),
                Reachability::Unreachable { closed: true, .. } => Answer::Closed,
                Reachability::Connecting | Reachability::Unreachable { .. } => Answer::Away,
            },
            answer_seconds: instance.sample_seconds.unwrap_or(0.0),
            asked_ms: asked_ms(host, instance),
            uptime: instance.uptime_seconds,
            is_blind: instance.activity.is_none(),
            is_primary: instance.role.map(|role| role == pgcalm_monitor::model::ServerRole::Primary),
            checkpoint: instance.checkpoint.clone(),
            maintenance: instance.maintenance.clone(),
            data,
            wal: instance.volumes.iter().find(|volume| volume.roles.contains(&Role::Wal)).and_then(disk),
            neighbours: neighbours(host, instance),
            memory: host.memory.clone().unwrap_or_default(),
            cpu: host.cpu,
            pressure: host.pressure,
            group: instance.group,
            ..Self::default()
        };
        if let Some(rates) = &instance.rates {
            second.commits = Some(rates.commits_per_second);
            second.wal_bytes = rates.wal_bytes_per_second;
            second.page_images = rates.wal_full_page_images_per_second;
            second.temporary_bytes = rates.temporary_bytes_per_second;
            second.logins = rates.sessions_per_second;
            second.blocks_read = rates.blocks_read_per_second;
        }
        if let Some(counters) = &instance.counters {
            second.checkpoints_requested = counters.checkpoints_requested;
            second.checkpoints_timed = counters.checkpoints_timed;
        }
        if let Some(activity) = &instance.activity {
            second.active = activity.connections.active;
            second.connections = activity.connections.total();
            second.max_connections = activity.max_connections;
            second.slow = activity.slow_sessions;
            second.slow_seconds = activity.slow_seconds.unwrap_or(0.0);
            second.waits = activity.sessions_by_cause();
            second.blocked.clone_from(&activity.blocked);
            let event = |wait: &pgcalm_monitor::model::Wait| match wait.event_type.as_str() {
                "" => (wait.cause.name().to_string(), wait.sessions),
                kind => (format!("{kind}:{}", wait.event), wait.sessions),
            };
            second.events = activity.waits.iter().map(event).collect();
        }
        if let Some(archive) = &instance.archive {
            second.archives = archive.state != ArchiveState::Off;
            second.archive_queue = archive.queue_files.unwrap_or(0);
            second.archive_fails = archive.failing;
        }
        if let Some(replication) = &instance.replication {
            second.standbys.clone_from(&replication.standbys);
        }
        if let Some(guard) = instance.guard.as_ref().filter(|guard| !guard.holds.is_empty()) {
            second.guard = guard.inputs.iter().find(|input| input.binding).map(|input| input.input.clone());
        }
        second
    }

    /// Commits per second, if they can be judged.
    pub fn commits_to_judge(&self) -> Option<f64> {
        self.commits.filter(|_| !self.is_blind)
    }

    /// Active sessions that wait for this.
    pub fn waiting(&self, cause: WaitCause) -> u64 {
        self.waits.get(&cause).copied().unwrap_or(0)
    }

    /// Active sessions that wait for anything but their client or a pause they asked for.
    pub fn held(&self) -> u64 {
        let free = [WaitCause::Cpu, WaitCause::Client, WaitCause::Timeout];
        self.waits.iter().filter(|(cause, _)| !free.contains(cause)).map(|(_, sessions)| sessions).sum()
    }

    /// Whether something of this kind runs.
    pub fn runs(&self, kind: &str) -> bool {
        self.maintenance.iter().any(|one| one.kind == kind)
    }

    /// The disks, data first; one where data and WAL share it.
    pub fn disks(&self) -> impl Iterator<Item = &Disk> {
        let wal = self.wal.as_ref().filter(|wal| self.data.as_ref().is_none_or(|data| data.name != wal.name));
        self.data.iter().chain(wal)
    }
}

/// Whether tables lie on it.
fn has_data(volume: &Volume) -> bool {
    volume.roles.iter().any(|role| matches!(role, Role::Data | Role::Tablespace))
}

fn asked_ms(host: &Host, instance: &Instance) -> u64 {
    let (until, seconds) = match (&instance.reachability, instance.sampled_ms, instance.sample_seconds) {
        (Reachability::Hung { seconds }, ..) => (host.time_ms, *seconds),
        (_, Some(sampled_ms), Some(seconds)) => (sampled_ms, seconds),
        _ => return 0,
    };
    until.saturating_sub((seconds * 1000.0) as u64)
}

/// Names of other instances that have files on a disk of this one.
fn neighbours(host: &Host, instance: &Instance) -> Vec<String> {
    let on = |other: &Instance, disk: &str| other.volumes.iter().any(|volume| volume.disk.as_deref() == Some(disk));
    let disks: Vec<&str> = instance.volumes.iter().filter_map(|volume| volume.disk.as_deref()).collect();
    let others = host.instances.iter().filter(|other| other.identity.name != instance.identity.name);
    others.filter(|other| disks.iter().any(|disk| on(other, disk))).map(|other| other.identity.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgcalm_monitor::model::{Cap, DeviceRates, Identity, Rates};

    #[test]
    fn a_second_has_what_the_sample_tells_and_the_cap_that_is_closest() {
        let cap = |per_second| Some(Cap { per_second, source: "io.max".to_string(), ..Cap::default() });
        let device = Device {
            name: "sda".to_string(),
            rates: Some(DeviceRates {
                write_operations_per_second: 90.0,
                write_bytes_per_second: 100.0,
                ..DeviceRates::default()
            }),
            ..Device::default()
        };
        let instance = |name: &str| Instance {
            identity: Identity { name: name.to_string(), ..Identity::default() },
            reachability: Reachability::Reachable,
            sampled_ms: Some(5),
            rates: Some(Rates { commits_per_second: 7.0, ..Rates::default() }),
            volumes: vec![Volume {
                roles: vec![Role::Data, Role::Wal],
                disk: Some("sda".to_string()),
                caps: Caps { write_operations: cap(100), write_bytes: cap(1000), ..Caps::default() },
                ..Volume::default()
            }],
            ..Instance::default()
        };
        let host = Host { devices: vec![device], instances: vec![instance("a"), instance("b")], ..Host::default() };
        let second = Second::of(&host, &host.instances[0], None);
        assert_eq!((second.answer, second.commits), (Answer::Fresh, Some(7.0)));
        let disk = second.data.as_ref().unwrap();
        assert_eq!((disk.cap.as_ref().unwrap().what, disk.cap_share()), ("write operations", 0.9));
        assert!(disk.is_full() && disk.is_shared && !disk.hangs());
        assert_eq!(second.disks().count(), 1);
        assert_eq!(second.neighbours, ["b"]);
        assert_eq!(Second::of(&host, &host.instances[0], Some(5)).answer, Answer::Silent);
        // What both do is no part of what one alone may do.
        let mut host = host;
        host.instances[1].volumes[0].caps = Caps::default();
        let disk = Second::of(&host, &host.instances[0], None).data.unwrap();
        assert!(disk.cap.is_none() && !disk.is_full(), "{disk:?}");
    }

    /// The disk's counters are of all tenants, a control group's limit is for one.
    #[test]
    fn a_group_s_cap_is_compared_with_what_the_group_does_not_with_the_disk() {
        let with = |used_per_second| {
            let device = Device {
                name: "sda".to_string(),
                rates: Some(DeviceRates { write_operations_per_second: 4006.0, ..DeviceRates::default() }),
                ..Device::default()
            };
            let source = "/cg/a/io.max".to_string();
            let cap = Cap { per_second: 60, source, device: "8:0".to_string(), used_per_second };
            let instance = |caps: Caps| {
                let (roles, disk) = (vec![Role::Data], Some("sda".to_string()));
                Instance { volumes: vec![Volume { roles, disk, caps, ..Volume::default() }], ..Instance::default() }
            };
            let caps = Caps { write_operations: Some(cap), ..Caps::default() };
            let instances = vec![instance(caps), instance(Caps::default())];
            let host = Host { devices: vec![device], instances, ..Host::default() };
            Second::of(&host, &host.instances[0], None).data.unwrap()
        };
        let disk = with(Some(30.0));
        assert_eq!((disk.cap_share(), disk.writes), (0.5, 4006.0));
        assert!(!disk.is_full());
        assert!(with(Some(57.0)).is_full());
        // Nothing is said where the group's counters can't be read.
        assert!(with(None).cap.is_none() && !with(None).is_full());
    }

    /// The disk of the data directory may have nothing to do while sessions wait for that of a tablespace.
    #[test]
    fn the_data_s_disk_is_the_one_of_all_tablespaces_that_hangs_or_is_busiest() {
        let device = |name: &str, busy, writes, in_flight| Device {
            name: name.to_string(),
            in_flight,
            rates: Some(DeviceRates {
                busy: Some(busy),
                write_operations_per_second: writes,
                ..DeviceRates::default()
            }),
            ..Device::default()
        };
        let volume = |disk: &str, roles: &[Role]| Volume {
            roles: roles.to_vec(),
            disk: Some(disk.to_string()),
            ..Volume::default()
        };
        let of = |sda: Device, sdb: Device| {
            let volumes = vec![volume("sda", &[Role::Data]), volume("sdb", &[Role::Wal, Role::Tablespace])];
            let host = Host {
                devices: vec![sda, sdb],
                instances: vec![Instance { volumes, ..Instance::default() }],
                ..Host::default()
            };
            Second::of(&host, &host.instances[0], None)
        };
        let second = of(device("sda", 0.0, 0.0, 0), device("sdb", 1.0, 900.0, 8));
        assert_eq!(second.data.as_ref().unwrap().name, "sdb");
        assert!(second.wal.as_ref().unwrap().is_shared);
        assert_eq!(second.disks().count(), 1);
        let hangs = of(device("sda", 0.96, 0.0, 1), device("sdb", 1.0, 900.0, 8));
        assert_eq!(hangs.data.unwrap().name, "sda");
        let idle = of(device("sda", 0.0, 0.0, 0), device("sdb", 0.0, 0.0, 0));
        assert_eq!(idle.data.unwrap().name, "sda");
    }
}

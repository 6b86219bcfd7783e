//! Samples of made-up hosts, and their pictures.

use chrono::FixedOffset;
use pgcalm_host::instance::Role;
use pgcalm_monitor::model::*;
use pgcalm_top::palette::Palette;
use pgcalm_top::scene::Scene;
use pgcalm_top::screen;
use pgcalm_top::state::State;
use pgcalm_top::track::Track;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;

/// 2026-11-21 14:00:00 UTC.
pub(crate) const START: u64 = 1_795_269_600;

pub(crate) const GB: u64 = 1 << 30;
pub(crate) const MB: u64 = 1 << 20;

/// Two minutes of samples, the last of which is shown unless the state says otherwise.
pub(crate) fn history(sample: impl Fn(u64) -> Host) -> Vec<Host> {
    (0..=120).map(|second| Host { time_ms: (START + second) * 1000, ..sample(second) }).collect()
}

/// The picture of the state in a terminal of that size.
pub(crate) fn picture(history: &[Host], state: &State, width: u16, height: u16) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    with_scene(history, state, |scene| {
        terminal.draw(|frame| screen::draw(frame, scene)).unwrap();
    });
    terminal.backend().buffer().clone()
}

/// Calls `show` with the scene of the state.
pub(crate) fn with_scene(history: &[Host], state: &State, show: impl FnOnce(&Scene)) {
    let mut track = Track::default();
    for host in history {
        track.push(host);
    }
    show(&Scene {
        host: state.shown(&track.moments()).map(|at| &history[at]),
        track: &track,
        state,
        palette: Palette::new(true),
        offset: FixedOffset::east_opt(0).unwrap(),
        interval: 1.0,
        now: history.last().map_or(0.0, |host| host.time_ms as f64 / 1000.0),
    });
}

/// Its lines, without spaces at their ends.
pub(crate) fn lines(buffer: &Buffer) -> Vec<String> {
    let area = buffer.area;
    (0..area.height)
        .map(|y| {
            let line: String = (0..area.width).map(|x| buffer[(x, y)].symbol()).collect();
            line.trim_end().to_string()
        })
        .collect()
}

/// The line that begins with a section's name.
pub(crate) fn section<'a>(lines: &'a [String], name: &str) -> &'a str {
    lines.iter().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name} in\n{}", lines.join("\n")))
}

/// An instance with pg_calm in the write phase of a checkpoint, data capped, WAL not, second by second.
pub(crate) fn busy(second: u64) -> Instance {
    let wait = |cause, event_type: &str, event: &str, sessions| Wait {
        cause,
        event_type: event_type.to_string(),
        event: event.to_string(),
        sessions,
    };
    let seconds = second as f64;
    Instance {
        identity: Identity {
            name: "5432".to_string(),
            cluster_name: Some("orders".to_string()),
            port: Some(5432),
            pid: Some(70),
            data_directory: Some("/srv/orders".to_string()),
            version: Some("15.20".to_string()),
        },
        reachability: Reachability::Reachable,
        role: Some(ServerRole::Primary),
        module: Some(Module {
            mode: "on".to_string(),
            worker_running: true,
            rates: Some(ModuleRates {
                flushed_pages_per_second: 3200.0,
                bridged_pages_per_second: 9400.0,
                device_operations_per_second: 140.0,
                written_bytes_per_second: 98.0 * MB as f64,
            }),
            ..Module::default()
        }),
        unflushed: Some(Unflushed { pages: 12_505, in_flight_pages: 256, page_bytes: 8192 }),
        checkpoint: Some(Checkpoint {
            phase: CheckpointPhase::Write,
            source: CheckpointSource::Module,
            kind: Some("checkpoint".to_string()),
            reason: Some("time".to_string()),
            running_seconds: Some(12.0),
            buffers_written: Some(20_395),
            files_synced: Some(0),
            wal_since_redo_bytes: Some(512 * MB),
            max_wal_size_bytes: Some(8 * GB),
            timeout_seconds: Some(300.0),
            since_last_seconds: Some(48.0),
            last: Some(CompletedCheckpoint {
                id: 7,
                reason: "time".to_string(),
                total_seconds: Some(27.1),
                write_seconds: Some(26.93),
                sync_seconds: Some(0.24),
                drain_seconds: Some(0.1),
                fsync_seconds: Some(0.14),
                slowest_file_seconds: Some(0.1),
                slowest_file: Some("base/5/16427".to_string()),
                buffers_written: Some(32_158),
                ..CompletedCheckpoint::default()
            }),
        }),
        activity: Some(Activity {
            connections: Connections { active: 4, idle: 6, idle_in_transaction: 1, other: 0 },
            max_connections: 100,
            waits: vec![wait(WaitCause::WalLock, "LWLock", "WALWrite", 3), wait(WaitCause::Wal, "IO", "WALSync", 1)],
            wait_session_seconds: [
                (WaitCause::WalLock, seconds * 2.4),
                (WaitCause::Wal, seconds),
                (WaitCause::Cpu, seconds * 0.5),
                (WaitCause::DataIo, seconds * 0.1),
            ]
            .into(),
            oldest_transaction_seconds: Some(12.0),
            ..Activity::default()
        }),
        counters: Some(Counters::default()),
        rates: Some(Rates {
            commits_per_second: 3860.0,
            wal_bytes_per_second: 12.0 * MB as f64,
            wal_full_page_images_per_second: 230.0,
            ..Rates::default()
        }),
        volumes: vec![
            Volume {
                roles: vec![Role::Data],
                path: "/srv/orders".to_string(),
                file_system: "ext4".to_string(),
                disk: Some("sdb".to_string()),
                caps: Caps { write_operations: Some(cap(800)), write_bytes: Some(cap(125 * MB)), ..Caps::default() },
            },
            Volume {
                roles: vec![Role::Wal, Role::Log],
                path: "/wal/orders".to_string(),
                file_system: "xfs".to_string(),
                disk: Some("sdc".to_string()),
                caps: Caps::default(),
            },
        ],
        archive: Some(Archive {
            state: ArchiveState::PgCalm,
            queue_files: Some(3),
            queue_bytes: Some(48 * MB),
            oldest_seconds: Some(12.0),
            last_archived_seconds: Some(1.0),
            ..Archive::default()
        }),
        replication: Some(Replication {
            standbys: vec![Standby {
                name: "near".to_string(),
                state: "streaming".to_string(),
                sync_state: "sync".to_string(),
                flush_lag_bytes: Some(MB + MB / 5),
                flush_lag_seconds: Some(0.3),
                replay_lag_bytes: Some(2 * MB),
                ..Standby::default()
            }],
            slots: vec![Slot {
                name: "far".to_string(),
                active: false,
                wal_status: Some("extended".to_string()),
                retained_bytes: Some(3 * GB),
                ..Slot::default()
            }],
            receiver: None,
        }),
        guard: Some(Guard {
            inputs: vec![
                GuardInput {
                    input: "lag".to_string(),
                    state: "watched".to_string(),
                    object: Some("near".to_string()),
                    unit: Some("bytes".to_string()),
                    value: Some(1.2 * MB as f64),
                    value_limit: Some(64.0 * MB as f64),
                    drain_bytes_per_second: Some(12.0 * MB as f64),
                    ..GuardInput::default()
                },
                GuardInput { input: "archive".to_string(), state: "off".to_string(), ..GuardInput::default() },
            ],
            ..Guard::default()
        }),
        sample_seconds: Some(0.01),
        ..Instance::default()
    }
}

fn cap(per_second: u64) -> Cap {
    let source = "/sys/fs/cgroup/blkio/blkio.throttle.write_iops_device".to_string();
    Cap { per_second, source, ..Cap::default() }
}

/// The same without the module, as a user without privileges sees it.
pub(crate) fn plain(second: u64) -> Instance {
    let mut instance = Instance {
        module: None,
        unflushed: None,
        guard: None,
        missing: vec![
            missing(Subject::Module, "not in shared_preload_libraries", Some("add pg_calm there and restart")),
            missing(
                Subject::ArchiveQueue,
                "permission denied for pg_ls_archive_statusdir",
                Some("GRANT pg_monitor TO app"),
            ),
        ],
        ..busy(second)
    };
    instance.identity.cluster_name = None;
    if let Some(checkpoint) = &mut instance.checkpoint {
        checkpoint.source = CheckpointSource::WaitEvent;
        checkpoint.kind = None;
        checkpoint.reason = None;
        checkpoint.files_synced = None;
        checkpoint.last = None;
    }
    if let Some(archive) = &mut instance.archive {
        *archive =
            Archive { state: ArchiveState::Other, failing: true, last_failed_seconds: Some(4.0), ..Archive::default() };
    }
    instance
}

pub(crate) fn missing(subject: Subject, reason: &str, remedy: Option<&str>) -> Missing {
    Missing { subject, reason: reason.to_string(), remedy: remedy.map(ToString::to_string) }
}

/// A server that does not let anyone in.
pub(crate) fn unreachable() -> Instance {
    Instance {
        identity: Identity {
            name: "5433".to_string(),
            port: Some(5433),
            version: Some("15".to_string()),
            data_directory: Some("/srv/ledger".to_string()),
            ..Identity::default()
        },
        reachability: Reachability::Unreachable { why: "connection refused".to_string(), closed: false, denied: false },
        missing: vec![missing(Subject::Connection, "connection refused", Some("start it"))],
        ..Instance::default()
    }
}

/// A host with these instances on its disks.
pub(crate) fn host(instances: Vec<Instance>) -> Host {
    let device = |name: &str, operations: f64, bytes: f64| Device {
        name: name.to_string(),
        number: "8:16".to_string(),
        in_flight: 2,
        rates: Some(DeviceRates {
            read_operations_per_second: 3.0,
            read_bytes_per_second: 24.0 * 1024.0,
            write_operations_per_second: operations,
            write_bytes_per_second: bytes,
            busy: Some(0.98),
        }),
        ..Device::default()
    };
    Host {
        memory: Some(Memory {
            total_bytes: 24 * GB,
            dirty_bytes: 240 * MB,
            writeback_bytes: 2 * MB,
            background_threshold_bytes: Some(2400 * MB),
            dirty_threshold_bytes: Some(4800 * MB),
            dirty_expire_seconds: Some(30.0),
        }),
        devices: vec![device("sdb", 780.0, 12.0 * MB as f64), device("sdc", 410.0, 13.0 * MB as f64)],
        instances,
        ..Host::default()
    }
}

//! The monitor on real servers. Needs root; says so and passes otherwise.

mod support;

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use pgcalm_host::instance::Role;
use pgcalm_monitor::model::{
    ArchiveState, CheckpointPhase, CheckpointSource, Host, Instance, Reachability, ServerRole, StopBasis, Subject,
    WaitCause,
};
use pgcalm_monitor::{Monitor, Options};
use rustix::process::{Pid, Signal};
use support::Servers;

/// Generous: what is waited for comes within a second or two on a machine that has nothing else to do.
const PATIENCE: Duration = Duration::from_secs(60);

fn options(connect: &[String]) -> Options {
    Options { connect: connect.to_vec(), interval: Duration::from_millis(200), ..Options::default() }
}

fn instance_in<'a>(host: &'a Host, servers: &Servers, name: &str) -> Option<&'a Instance> {
    let directory = servers.directory.path().join(name).join("data");
    host.instances.iter().find(|instance| instance.identity.data_directory.as_deref() == directory.to_str())
}

/// A sample in which the condition holds of the instance, which it gives.
fn wait_for(monitor: &Monitor, servers: &Servers, name: &str, condition: impl Fn(&Instance) -> bool) -> Instance {
    let host: Option<Arc<Host>> =
        monitor.wait_for(PATIENCE, |host| instance_in(host, servers, name).is_some_and(&condition));
    match host {
        Some(host) => instance_in(&host, servers, name).unwrap().clone(),
        None => panic!("not seen: {:#?}", instance_in(&monitor.latest(), servers, name)),
    }
}

#[test]
fn a_long_interval_keeps_nobody_waiting_for_the_first_answer() {
    let interval = Duration::from_secs(3600);
    let options = Options { interval, ..options(&["host=127.0.0.1 port=1 user=none".to_string()]) };
    let monitor = Monitor::start(options).unwrap();
    let told = monitor.wait_for(PATIENCE, |host| host.instances[0].reachability != Reachability::Connecting);
    assert!(told.is_some());
}

#[test]
fn a_stock_server_is_found_and_described_and_what_is_missing_is_named() {
    let Some(mut servers) = support::can_run().then(Servers::new) else { return };
    // As Debian has it: root is let in as the OS user of the server only.
    let hba = servers.directory.path().join("pg_hba.conf");
    std::fs::write(&hba, "local all all peer\n").unwrap();
    let hba = hba.to_str().unwrap().to_string();
    let server = servers.start("stock", &[("cluster_name", "shop"), ("hba_file", &hba)]);
    let monitor = Monitor::start(options(&[])).unwrap();
    let instance = wait_for(&monitor, &servers, "stock", |instance| instance.rates.is_some());
    assert_eq!(instance.identity.cluster_name.as_deref(), Some("shop"));
    assert_eq!(instance.identity.pid, Some(servers.servers[server].pid()));
    assert!(instance.identity.version.as_ref().unwrap().contains('.'));
    assert_eq!(instance.role, Some(ServerRole::Primary));
    assert!(instance.counters.unwrap().commits > 0);
    assert_eq!(instance.volumes[0].roles[0], Role::Data);
    assert!(instance.volumes[0].roles.contains(&Role::Wal));
    assert_eq!(instance.archive.as_ref().unwrap().state, ArchiveState::Off);
    assert_eq!(instance.module, None);
    assert_eq!(instance.unflushed, None);
    assert!(
        instance.missing.iter().any(|missing| missing.subject == Subject::Module && missing.remedy.is_some()),
        "{:?}",
        instance.missing
    );
    let stop = instance.stop.unwrap();
    assert!(stop.shared_buffers > 0 && stop.recovery_least_seconds < stop.recovery_most_seconds, "{stop:?}");
    let checkpoint = instance.checkpoint.unwrap();
    assert_eq!(checkpoint.source, CheckpointSource::WaitEvent);
    assert!(checkpoint.max_wal_size_bytes.unwrap() >= 1 << 20);

    let host = monitor.latest();
    assert!(host.memory.as_ref().unwrap().total_bytes > 0);
    if instance.volumes[0].disk.is_some() {
        let device = host.device(&instance.volumes[0]).unwrap();
        assert!(device.write_operations > 0);
    }
    let (first, last) = monitor.history().range().unwrap();
    assert!(first <= last);
    assert!(instance_in(&monitor.history().at(last).unwrap(), &servers, "stock").is_some());
}

#[test]
fn the_module_s_views_are_in_the_sample() {
    let Some(mut servers) = support::can_run_module().then(Servers::with_module) else { return };
    let of_module = servers.module_settings();
    let mut settings = vec![
        ("pg_calm.write_iops", "500"),
        ("pg_calm_guard.max_wal", "1GB"),
        ("checkpoint_completion_target", "0.9"),
        ("checkpoint_timeout", "30s"),
        ("fsync", "on"),
    ];
    settings.extend(of_module.iter().map(|(name, value)| (*name, value.as_str())));
    let server = servers.start("calm", &settings);
    let connect = format!("host={} user=postgres", servers.socket("calm").display());
    let monitor = Monitor::start(options(&[connect])).unwrap();
    let instance = wait_for(&monitor, &servers, "calm", |instance| instance.reachability.is_reachable());
    let missing = instance.missing.iter().find(|missing| missing.subject == Subject::Module).unwrap();
    assert!(missing.remedy.as_ref().unwrap().contains("CREATE EXTENSION"));

    servers.create_extensions(server);
    servers.sql(server, "CREATE TABLE t (i int)");
    servers.sql(server, "INSERT INTO t SELECT generate_series(1, 200000)");
    // The checkpoint of a backup takes its time, unlike that of CHECKPOINT.
    let mut backup = servers.servers[server].psql();
    let mut backup = backup
        .args(["-c", "SELECT pg_backup_start('test', false)"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let instance = wait_for(&monitor, &servers, "calm", |instance| {
        instance.module.is_some()
            && instance.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.phase == CheckpointPhase::Write)
    });
    let stop = instance.stop.unwrap();
    assert_eq!(stop.basis, Some(StopBasis::Measured));
    assert!(stop.dirty_buffers.is_some() && stop.stop_seconds.is_some_and(|seconds| seconds > 0.0), "{stop:?}");
    let module = instance.module.unwrap();
    assert_eq!(module.mode, "on");
    assert!(module.worker_running);
    assert_eq!((module.write_operations_cap, module.operations_cap), (Some(500), None));
    let checkpoint = instance.checkpoint.unwrap();
    assert_eq!(checkpoint.source, CheckpointSource::Module);
    assert!(checkpoint.buffers_written.unwrap() > 0);
    assert!(instance.unflushed.is_some());
    let guard = instance.guard.unwrap();
    assert!(guard.inputs.iter().any(|input| input.input == "max_wal" && input.state != "off"));
    assert_eq!(guard.mode.as_deref(), Some("shadow"));
    // The volume has the module's cap, as the connection is to a server of this host.
    let cap = instance.volumes[0].caps.write_operations.as_ref().unwrap();
    assert!(cap.per_second <= 500);

    // Makes it hurry.
    servers.sql(server, "CHECKPOINT");
    backup.wait().unwrap();
    let instance = wait_for(&monitor, &servers, "calm", |instance| {
        instance
            .checkpoint
            .as_ref()
            .is_some_and(|checkpoint| checkpoint.phase == CheckpointPhase::Idle && checkpoint.last.is_some())
    });
    let last = instance.checkpoint.unwrap().last.unwrap();
    assert!(last.total_seconds.is_some() && last.fsync_seconds.is_some());
    assert!(last.fsync_seconds <= last.sync_seconds);

    // Last, as it changes the pace.
    servers.sql(server, "ALTER SYSTEM SET pg_calm.iops = 600");
    servers.sql(server, "SELECT pg_reload_conf()");
    wait_for(&monitor, &servers, "calm", |instance| {
        instance.module.as_ref().is_some_and(|module| module.operations_cap == Some(600))
    });
}

#[test]
fn waits_and_the_archive_queue_are_seen() {
    let Some(mut servers) = support::can_run().then(Servers::new) else { return };
    let server = servers.start("busy", &[("archive_mode", "on"), ("archive_command", "/bin/false")]);
    servers.sql(server, "CREATE TABLE t (i int); SELECT pg_switch_wal()");
    servers.sql(server, "INSERT INTO t VALUES (1); SELECT pg_switch_wal()");
    let connect = format!("host={} user=postgres", servers.socket("busy").display());
    let monitor = Monitor::start(options(&[connect])).unwrap();
    let waiting = |name: &str, sql: &str| {
        let mut command = servers.servers[server].psql();
        command.env("PGAPPNAME", name).args(["-c", sql]);
        command.stderr(Stdio::null()).spawn().unwrap()
    };
    let mut holder = waiting("holder", "BEGIN; LOCK TABLE t; SELECT pg_sleep(600)");
    let seen = |cause: WaitCause| {
        wait_for(&monitor, &servers, "busy", |instance| {
            instance.activity.as_ref().is_some_and(|activity| {
                activity.sessions_by_cause().contains_key(&cause)
                    && activity.wait_session_seconds.get(&cause) > Some(&0.0)
            })
        })
    };
    seen(WaitCause::Timeout);
    let mut waiter = waiting("waiter", "SELECT * FROM t");
    let instance = seen(WaitCause::Lock);
    let activity = instance.activity.unwrap();
    // pgcalm's own session is not counted.
    assert_eq!(activity.connections.active, 2);
    assert_eq!(activity.connections.total(), 2);
    assert!(activity.oldest_transaction_seconds.unwrap() > 0.0);

    let instance = wait_for(&monitor, &servers, "busy", |instance| {
        instance
            .archive
            .as_ref()
            .is_some_and(|archive| archive.failing && archive.failures > 0 && archive.queue_files >= Some(2))
    });
    let archive = instance.archive.unwrap();
    assert_eq!(archive.state, ArchiveState::Other);
    assert_eq!(archive.queue_bytes.unwrap(), archive.queue_files.unwrap() * (16 << 20));
    assert_eq!(archive.oldest_file.as_deref(), Some("000000010000000000000001"));
    assert!(archive.free_bytes.unwrap() > 0);

    servers.sql(
        server,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name IN ('holder', 'waiter')",
    );
    holder.wait().unwrap();
    waiter.wait().unwrap();
}

#[test]
fn a_server_that_hangs_is_shown_as_hung_and_holds_up_no_other() {
    let Some(mut servers) = support::can_run().then(Servers::new) else { return };
    let hung = servers.start("hung", &[]);
    servers.start("well", &[]);
    let connect: Vec<String> =
        ["hung", "well"].iter().map(|name| format!("host={} user=postgres", servers.socket(name).display())).collect();
    let monitor = Monitor::start(options(&connect)).unwrap();
    for name in ["hung", "well"] {
        wait_for(&monitor, &servers, name, |instance| instance.rates.is_some());
    }
    let family = servers.family(hung);
    let signal = |signal| {
        for pid in &family {
            let _ = rustix::process::kill_process(Pid::from_raw(*pid).unwrap(), signal);
        }
    };
    signal(Signal::STOP);
    let shown = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let instance =
            wait_for(&monitor, &servers, "hung", |instance| matches!(instance.reachability, Reachability::Hung { .. }));
        // Nothing old is shown as if it were new.
        assert_eq!(instance.counters, None);
        assert_eq!(instance.activity, None);
        let before = monitor.latest();
        let commits = |host: &Host| {
            let instance = instance_in(host, &servers, "well")?;
            Some(instance.counters?.commits)
        };
        let commits_before = commits(&before).expect("the other answers");
        let after = monitor.wait_for(PATIENCE, |host| commits(host) > Some(commits_before));
        assert!(after.is_some(), "the other server's samples go on");
    }));
    signal(Signal::CONT);
    shown.unwrap();
    wait_for(&monitor, &servers, "hung", |instance| instance.reachability.is_reachable());
}

#[test]
fn a_server_that_is_not_there_is_unreachable_and_found_once_it_is() {
    let Some(mut servers) = support::can_run().then(Servers::new) else { return };
    let connect = format!("host={} user=postgres", servers.socket("late").display());
    let monitor = Monitor::start(options(&[connect])).unwrap();
    let host =
        monitor.wait_for(PATIENCE, |host| matches!(host.instances[0].reachability, Reachability::Unreachable { .. }));
    let missing = &host.expect("unreachable").instances[0].missing;
    assert_eq!(missing[0].subject, Subject::Connection);
    servers.start("late", &[]);
    wait_for(&monitor, &servers, "late", |instance| instance.reachability.is_reachable());
}

#[test]
fn a_server_that_lets_the_role_not_in_is_not_down() {
    let Some(mut servers) = support::can_run().then(Servers::new) else { return };
    servers.start("strange", &[]);
    for who in ["user=absent", "user=postgres dbname=absent"] {
        let connect = format!("host={} {who}", servers.socket("strange").display());
        let monitor = Monitor::start(options(&[connect])).unwrap();
        let told = |host: &Host| !matches!(host.instances[0].reachability, Reachability::Connecting);
        let host = monitor.wait_for(PATIENCE, told).expect("told");
        let instance = &host.instances[0];
        let is_denied = matches!(instance.reachability, Reachability::Unreachable { denied: true, .. });
        assert!(is_denied, "{who}: {:?}", instance.reachability);
        let text = pgcalm_monitor::metrics::classic(&host);
        assert!(!text.contains("pgcalm_up{") && text.contains("subject=\"connection\""), "{who}: {text}");
    }
}

#[test]
fn counters_go_on_over_a_restart_of_the_server() {
    let Some(mut servers) = support::can_run().then(Servers::new) else { return };
    let hba = servers.directory.path().join("pg_hba.conf");
    std::fs::write(&hba, "local all all peer\n").unwrap();
    let hba = hba.to_str().unwrap().to_string();
    let server = servers.start("again", &[("hba_file", &hba)]);
    servers.sql(server, "CREATE DATABASE dropped");
    let monitor = Monitor::start(options(&[])).unwrap();
    let commits = |condition: &dyn Fn(&Instance, u64) -> bool| {
        let instance = wait_for(&monitor, &servers, "again", |instance| {
            instance.counters.is_some_and(|counters| condition(instance, counters.commits))
        });
        (instance.identity.pid, instance.counters.unwrap().commits)
    };
    let mut psql = servers.servers[server].psql();
    psql.args(["-d", "dropped", "-c", "DO $$BEGIN FOR i IN 1..9000 LOOP COMMIT; END LOOP; END$$"]);
    assert!(psql.status().unwrap().success());
    let (pid, before) = commits(&|_, commits| commits >= 9000);
    servers.sql(server, "DROP DATABASE dropped");
    // The sample after this one was begun without it.
    let seen = monitor.latest().time_ms;
    let (_, after) = commits(&|instance, _| instance.sampled_ms > Some(seen + 1000));
    assert!(after >= before, "{before}, {after}");
    servers.servers[server].stop().unwrap();
    while !servers.servers[server].has_ended().unwrap() {
        std::thread::sleep(Duration::from_millis(50));
    }
    servers.servers[server].start_again().unwrap();
    let (_, again) = commits(&|instance, _| instance.identity.pid != pid);
    assert!(again >= after, "{after}, {again}");
}

#[test]
fn receivers_of_wal_are_seen_and_missed() {
    let Some(mut servers) = support::can_run().then(Servers::new) else { return };
    let server = servers.start("primary", &[]);
    servers.sql(server, "SELECT pg_create_physical_replication_slot('r', true)");
    let directory = servers.own_directory("received", servers.installation.uid);
    let mut receiver = servers.servers[server]
        .client("pg_receivewal")
        .args(["--slot=r", "--directory"])
        .arg(&directory)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let connect = format!("host={} user=postgres", servers.socket("primary").display());
    let monitor = Monitor::start(options(&[connect])).unwrap();
    let seen = |state: &str| {
        wait_for(&monitor, &servers, "primary", |instance| {
            instance
                .replication
                .as_ref()
                .is_some_and(|replication| replication.standbys.len() == 1 && replication.standbys[0].state == state)
        })
    };
    let replication = seen("streaming").replication.unwrap();
    let standby = &replication.standbys[0];
    assert_eq!(standby.name, "pg_receivewal");
    assert!(standby.write_lag_bytes.is_some() && standby.held_up_at.is_some());
    assert!(replication.slots[0].active);
    receiver.kill().unwrap();
    receiver.wait().unwrap();
    servers.sql(server, "CREATE TABLE t (i int)");
    seen("disconnected");
    wait_for(&monitor, &servers, "primary", |instance| {
        let slot = &instance.replication.as_ref().unwrap().slots[0];
        !slot.active && slot.retained_bytes > Some(0)
    });
}

#[test]
fn a_role_without_rights_sees_less_and_is_told_so() {
    let Some(mut servers) = support::can_run().then(Servers::new) else { return };
    let server = servers.start("strict", &[]);
    servers.sql(server, "CREATE ROLE nobody LOGIN; CREATE ROLE monitor LOGIN IN ROLE pg_monitor");
    let socket = servers.socket("strict").display().to_string();
    let look = |user: &str| {
        let connect = format!("host={socket} user={user}");
        let monitor = Monitor::start(options(&[connect])).unwrap();
        let host = monitor.wait_for(PATIENCE, |host| host.instances[0].reachability.is_reachable());
        host.expect("reachable").instances[0].clone()
    };
    let lacks = |instance: &Instance, subject| instance.missing.iter().any(|missing| missing.subject == subject);
    let nobody = look("nobody");
    assert!(lacks(&nobody, Subject::Activity));
    assert!(lacks(&nobody, Subject::Checkpoint));
    assert!(nobody.counters.is_some());
    let monitor = look("monitor");
    assert!(!lacks(&monitor, Subject::Activity), "{:?}", monitor.missing);
    assert!(!lacks(&monitor, Subject::Checkpoint));
    assert!(monitor.checkpoint.is_some());
}

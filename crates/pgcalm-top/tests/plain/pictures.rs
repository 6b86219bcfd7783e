//! Pictures of made-up hosts, at the sizes of a small and of a large terminal.

use crate::support;

use pgcalm_host::instance::Role;
use pgcalm_monitor::model::{
    Caps, CheckpointPhase, Host, Interface, InterfaceRates, Reachability, Stop, StopBasis, Subject, WaitCause,
};
use pgcalm_top::palette::Palette;
use pgcalm_top::scene::Scene;
use pgcalm_top::state::{Command, Moment, Page, State};
use pgcalm_top::{once, screen};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;

use support::{MB, START, busy, history, host, lines, missing, picture, plain, section, unreachable, with_scene};

fn two() -> Vec<Host> {
    history(|second| host(vec![busy(second), unreachable()]))
}

fn page(page: Page) -> State {
    State { page, ..State::default() }
}

/// The second instance chosen.
fn second() -> State {
    State { instance: Some("5433".to_string()), ..State::default() }
}

#[test]
fn a_small_terminal_has_the_whole_picture() {
    let lines = lines(&picture(&two(), &State::default(), 80, 24));
    let expected = "\
pgcalm top   1 overview  2 charts  3 missing                       live 14:02:00
  INSTANCE           VERSION ROLE       TPS ACTIVE CHECKPOINT   UNFL.   CAP
> 5432 orders        15.20   primary   3860      4 write        12505  98 %
  5433 /srv/ledger   15      unreachable: connection refused

Checkpoint  write 12 s, 20395 buffers, time
            max_wal_size: 512 MB of 8 GB
TPS         3860/s                                             █████████████████
WAL         12 MB/s, 230 images/s                              █████████████████
Unflushed   12505 pages, 98 MB                                 █████████████████
data        writes  780 of 800/s        █████████▊  98 %              ██████████
sdb         written 12 MB of 125 MB/s   █·········  10 %              ▂▂▂▂▂▂▂▂▂▂
wal+log     writes  410/s               no cap known                  ██████████
sdc         written 13 MB/s             no cap known                  ██████████
Dirty pages ▌········· 240 MB of 4.7 GB, flushed from 2.3 GB, in writeback 2 MB
Sessions    4 active, 6 idle, 1 idle in transaction of 100, transaction 12 s old
Waits       wal_lock            3 now   2.4 mean ████████████▊    WALWrite 3
            wal                 1 now   1.0 mean █████▍           WALSync 1
            cpu                 0 now   0.5 mean ██▋
Archive     3 files wait, 48 MB, oldest 12 s, last archived 1 s ago
Lag         near streaming sync, flush 1.2 MB 0.30 s, replay 2 MB
            slot far: not in use, keeps 3 GB of WAL, extended
Guard       lag watched, 1.2 MB of 64 MB, by near, drains 12 MB/s
q quit  ? keys  Tab page  ↑↓ instance  Space pause         curves 5 min of 2 min";
    assert_eq!(lines.join("\n"), expected);
}

#[test]
fn a_large_terminal_has_everything_and_charts_beside_it() {
    let lines = lines(&picture(&two(), &State::default(), 160, 50));
    let text = lines.join("\n");
    for part in [
        "pg_calm     on, 3200 flushed pages/s, 9400 bridged/s, 140 operations/s, 98 MB/s",
        "last: 27.1 s, write 26.9 s, drain 0.10 s, fsync 0.14 s, 32158 buffers",
        "reads 3/s, 24 kB/s, busy 98 %, 2 in flight, ext4 on sdb at /srv/orders",
        "data_io             0 now   0.1 mean ▌",
        "TPS  3860/s\n",
        "data sdb writes  780/s  cap 800/s\n",
        "data sdb written  12 MB/s  cap 125 MB/s\n",
        "Unflushed pages  12505\n",
    ] {
        assert!(text.contains(part), "no {part} in\n{text}");
    }
    // Axes: time below, values at the left.
    assert!(text.contains("13:57:00") && text.contains("14:02:00"), "{text}");
    assert!(text.contains("800/s  │"), "{text}");
}

#[test]
fn an_idle_checkpointer_tells_when_the_next_is_due() {
    let history = history(|second| {
        let mut instance = busy(second);
        instance.checkpoint.as_mut().unwrap().phase = CheckpointPhase::Idle;
        host(vec![instance])
    });
    let lines = lines(&picture(&history, &State::default(), 80, 24));
    let at = lines.iter().position(|line| line == "Checkpoint  idle, the last began 48 s ago");
    assert_eq!(lines[at.unwrap() + 1], "            max_wal_size: 512 MB of 8 GB, checkpoint_timeout: 48 s of 5 min");
}

#[test]
fn a_line_tells_how_long_a_stop_and_recovery_would_take() {
    let line = |stop: Stop| {
        let history = history(|second| {
            let mut instance = busy(second);
            instance.stop = Some(stop.clone());
            host(vec![instance])
        });
        section(&lines(&picture(&history, &State::default(), 100, 40)), "Stop").to_string()
    };
    let mut stop = Stop {
        stop_seconds: Some(12.4),
        basis: Some(StopBasis::FromCaps),
        recovery_least_seconds: Some(2.0),
        recovery_most_seconds: Some(32.0),
        ..Stop::default()
    };
    assert_eq!(line(stop.clone()), "Stop        fast stop 12 s (from caps), recovery 2 s to 32 s");
    stop.recovery_least_seconds = Some(32.0);
    stop.stop_seconds = None;
    assert_eq!(line(stop), "Stop        recovery 32 s");
}

#[test]
fn a_tall_terminal_has_charts_below() {
    let lines = lines(&picture(&two(), &State::default(), 80, 50));
    let chart = lines.iter().position(|line| line == "TPS  3860/s").unwrap();
    let guard = lines.iter().position(|line| line.starts_with("Guard")).unwrap();
    assert!(chart > guard, "{}", lines.join("\n"));
}

#[test]
fn without_the_module_the_rest_is_there_and_what_is_missing_is_named() {
    let history = history(|second| host(vec![plain(second)]));
    let lines = lines(&picture(&history, &State::default(), 80, 24));
    assert_eq!(
        section(&lines, "> 5432"),
        "> 5432 /srv/orders   15.20   primary   3860      4 write            –  98 %"
    );
    assert_eq!(section(&lines, "Checkpoint"), "Checkpoint  write 12 s, 20395 buffers");
    assert_eq!(section(&lines, "Archive"), "Archive     what waits is not known");
    assert_eq!(
        section(&lines, "Missing"),
        "Missing     module (not in shared_preload_libraries); archive_queue (permission…"
    );
    for absent in ["Unflushed", "pg_calm", "Guard"] {
        assert!(!lines.iter().any(|line| line.starts_with(absent)));
    }
}

#[test]
fn the_page_of_what_is_missing_has_reasons_and_remedies() {
    let mut history = history(|second| host(vec![plain(second)]));
    for host in &mut history {
        host.missing = vec![missing(Subject::Instances, "2 processes of others", None)];
    }
    let lines = lines(&picture(&history, &page(Page::Missing), 80, 24));
    assert_eq!(
        lines[1..9],
        [
            "",
            "This host, and instance 5432:",
            "",
            "missing: instances: 2 processes of others",
            "missing: module: not in shared_preload_libraries",
            "  add pg_calm there and restart",
            "missing: archive_queue: permission denied for pg_ls_archive_statusdir",
            "  GRANT pg_monitor TO app",
        ]
    );
}

#[test]
fn an_unreachable_instance_says_why_and_leaves_no_empty_charts() {
    let lines = lines(&picture(&two(), &second(), 80, 24));
    assert_eq!(lines[3], "> 5433 /srv/ledger   15      unreachable: connection refused");
    assert_eq!(section(&lines, "Server"), "Server      unreachable: connection refused");
    assert_eq!(section(&lines, "Missing"), "Missing     connection (connection refused)");
    assert!(!lines.iter().any(|line| line.starts_with("TPS")));
}

#[test]
fn a_server_that_hangs_says_since_when() {
    let history = history(|_| {
        let mut instance = unreachable();
        instance.reachability = Reachability::Hung { seconds: 75.0 };
        host(vec![instance])
    });
    let lines = lines(&picture(&history, &State::default(), 80, 24));
    assert_eq!(section(&lines, "Server"), "Server      has not answered for 1 min 15 s");
}

#[test]
fn an_empty_host_says_so() {
    let history = history(|_| Host {
        hidden_processes: 2,
        missing: vec![missing(Subject::Instances, "2 processes of others", Some("run as root"))],
        ..host(vec![])
    });
    let lines = lines(&picture(&history, &State::default(), 80, 24));
    assert_eq!(
        lines[2..7],
        [
            "No PostgreSQL instance was found on this host.",
            "Server processes that this user may not look at: 2; root sees their instances.",
            "",
            "missing: instances: 2 processes of others",
            "  run as root",
        ]
    );
}

#[test]
fn before_the_first_sample_there_is_a_picture_too() {
    let lines = lines(&picture(&[], &State::default(), 80, 24));
    assert_eq!(lines[2], "  The first samples are being taken.");
}

#[test]
fn time_travel_shows_the_figures_of_that_moment_and_curves_up_to_it() {
    let history = history(|second| {
        let mut instance = busy(second);
        let rates = instance.rates.as_mut().unwrap();
        // A stall from 14:00:50 to 14:01:10.
        rates.commits_per_second = if (50..=70).contains(&second) { 0.0 } else { 3860.0 };
        let checkpoint = instance.checkpoint.as_mut().unwrap();
        if second <= 60 {
            checkpoint.phase = CheckpointPhase::Sync;
            checkpoint.files_synced = Some(14);
        }
        host(vec![instance])
    });
    let mut state = State::default();
    state.apply(Command::ShorterSpan, &[], &[]);
    state.moment = Moment::At((START + 60) as f64);
    let past = lines(&picture(&history, &state, 80, 24));
    assert!(past[0].ends_with("PAUSED at 14:01:00, 1 min ago"), "{}", past[0]);
    assert_eq!(section(&past, "Checkpoint"), "Checkpoint  sync 12 s, 20395 buffers, 14 files synced, time");
    let curve = |lines: &[String]| section(lines, "TPS").chars().skip(12 + 27).collect::<String>();
    assert!(section(&past, "TPS").starts_with("TPS         0/s "));
    // The stall is at the end, and nothing after it is shown.
    let past = curve(&past);
    assert!(past.starts_with('█') && past.ends_with("▁▁▁▁▁▁"), "{past}");
    state.moment = Moment::Live;
    let live = curve(&lines(&picture(&history, &state, 80, 24)));
    assert!(live.starts_with('▁') && live.ends_with("██████"), "{live}");
}

#[test]
fn a_stall_of_a_second_shows_however_long_the_curve() {
    let history = history(|second| {
        let mut instance = busy(second);
        if second == 60 {
            instance.rates.as_mut().unwrap().commits_per_second = 0.0;
        }
        host(vec![instance])
    });
    let lines = lines(&picture(&history, &State::default(), 80, 24));
    assert_eq!(section(&lines, "TPS").matches('▁').count(), 1, "{}", section(&lines, "TPS"));
}

#[test]
fn samples_that_stay_away_are_noticed() {
    let history = two();
    with_scene(&history, &State::default(), |scene| {
        let late = Scene { now: scene.now + 65.0, ..*scene };
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal.draw(|frame| screen::draw(frame, &late)).unwrap();
        let title = &lines(terminal.backend().buffer())[0];
        assert!(title.ends_with("no sample since 14:02:00, 1 min 5 s"), "{title}");
    });
}

#[test]
fn a_long_list_shows_the_chosen_instance() {
    let history = history(|second| {
        let instances = (0..30).map(|number| {
            let mut instance = busy(second);
            instance.identity.name = format!("{}", 5432 + number);
            instance
        });
        host(instances.collect())
    });
    for number in [0, 1, 15, 29] {
        let state = State { instance: Some(format!("{}", 5432 + number)), ..State::default() };
        let lines = lines(&picture(&history, &state, 80, 24));
        assert!(lines[1].starts_with(&format!("  INSTANCE {} of 30", number + 1)), "{}", lines[1]);
        section(&lines, &format!("> {}", 5432 + number));
        assert!(lines.iter().any(|line| line.starts_with("TPS")));
    }
}

#[test]
fn a_long_name_loses_its_middle() {
    let history = history(|second| {
        let mut instance = busy(second);
        instance.identity.cluster_name = None;
        instance.identity.data_directory = Some("/srv/postgresql/clusters/main".to_string());
        host(vec![instance])
    });
    let lines = lines(&picture(&history, &State::default(), 80, 24));
    assert_eq!(
        section(&lines, "> 5432"),
        "> 5432 …sql/clusters/main 15.20   primary   3860      4 write        12505  98 %"
    );
}

#[test]
fn the_list_of_keys_covers_the_picture() {
    let state = State { help: true, ..State::default() };
    for (width, height) in [(80, 24), (160, 50)] {
        let text = lines(&picture(&two(), &state, width, height)).join("\n");
        for part in [
            "┌ keys ──",
            "│ Left Right            one picture back, on",
            "│ [ ], PageUp PageDown  a minute back, on",
            "│ q, Ctrl-C             quit",
            "averaged over the time of the curves.",
        ] {
            assert!(text.contains(part), "no {part} in\n{text}");
        }
    }
}

#[test]
fn the_page_of_charts_has_them_side_by_side() {
    for (width, height) in [(80, 24), (160, 50)] {
        let lines = lines(&picture(&two(), &page(Page::Charts), width, height));
        let both = lines.iter().any(|line| line.starts_with("TPS  3860/s") && line.contains("data sdb writes"));
        assert!(both, "{}", lines.join("\n"));
    }
}

#[test]
fn the_cap_of_one_instance_is_not_drawn_against_what_all_do_on_the_disk() {
    let history = history(|second| {
        let mut other = busy(second);
        other.identity.name = "5433".to_string();
        other.volumes[0].caps = Caps::default();
        host(vec![busy(second), other])
    });
    let text = lines(&picture(&history, &page(Page::Charts), 160, 50)).join("\n");
    assert!(text.contains("data sdb writes  780/s") && !text.contains("cap 800/s"), "{text}");
}

/// 780 operations per second are of all on the disk, 400 of the group that may do 800.
#[test]
fn a_group_s_cap_is_compared_with_what_the_group_does() {
    let with = |used_per_second: Option<f64>| {
        let history = history(|second| {
            let mut instance = busy(second);
            let cap = instance.volumes[0].caps.write_operations.as_mut().unwrap();
            (cap.device, cap.used_per_second) = ("8:16".to_string(), used_per_second);
            host(vec![instance])
        });
        lines(&picture(&history, &State::default(), 160, 50))
    };
    let own = with(Some(400.0));
    let data = section(&own, "data");
    assert!(data.contains("writes  400 of 800/s        █████·····  50 %"), "{data}");
    let text = own.join("\n");
    assert!(text.contains("whole disk writes 780/s") && text.contains("data sdb writes, whole disk"), "{text}");
    let unknown = with(None);
    let data = section(&unknown, "data");
    assert!(data.contains("writes  780/s               whole disk"), "{data}");
}

#[test]
fn roles_that_have_no_room_before_the_rows_are_among_the_details() {
    let history = history(|second| {
        let mut instance = busy(second);
        instance.volumes[0].roles = vec![Role::Data, Role::Wal, Role::Log];
        host(vec![instance])
    });
    let lines = lines(&picture(&history, &State::default(), 160, 50));
    assert!(section(&lines, "data+wal").starts_with("data+wal    writes"), "{}", lines.join("\n"));
    assert!(lines.join("\n").contains("data+wal+log, reads 3/s"), "{}", lines.join("\n"));
}

#[test]
fn hardly_any_wait_is_no_full_bar() {
    let history = history(|second| {
        let mut instance = busy(second);
        let activity = instance.activity.as_mut().unwrap();
        activity.waits.clear();
        activity.wait_session_seconds = [(WaitCause::DataIo, second as f64 * 0.02)].into();
        host(vec![instance])
    });
    let lines = lines(&picture(&history, &State::default(), 80, 24));
    let waits = section(&lines, "Waits");
    assert!(waits.contains("0.0 mean ▍") && !waits.contains('█'), "{waits}");
}

#[test]
fn what_goes_to_a_standby_is_told_beside_all_that_its_interface_sends() {
    let with_link = |link_bytes_per_second| {
        let history = history(|second| {
            let mut instance = busy(second);
            let standby = &mut instance.replication.as_mut().unwrap().standbys[0];
            standby.interface = Some("eth0".to_string());
            standby.network_bytes_per_second = Some(12.0 * MB as f64);
            standby.network_packets_per_second = Some(8690.0);
            let mut host = host(vec![instance]);
            host.interfaces = vec![Interface {
                name: "eth0".to_string(),
                link_bytes_per_second,
                rates: Some(InterfaceRates { sent_bytes_per_second: 60.0 * MB as f64, ..InterfaceRates::default() }),
                ..Interface::default()
            }];
            host
        });
        lines(&picture(&history, &State::default(), 160, 50)).join("\n")
    };
    let text = with_link(Some(120 * MB));
    let row = "by eth0 12 MB/s, 8690 packets/s, which sends 60 MB/s, 50 % of 120 MB/s";
    assert!(text.contains(row), "{text}");
    let text = with_link(None);
    assert!(text.contains("which sends 60 MB/s "), "{text}");
}

#[test]
fn names_from_elsewhere_cannot_steer_the_terminal() {
    let history = history(|second| {
        let mut instance = busy(second);
        instance.identity.cluster_name = Some("a\u{1b}[2Jb".to_string());
        instance.replication.as_mut().unwrap().standbys[0].name = "x\u{9b}2J\r\ny".to_string();
        instance.missing = vec![missing(Subject::Module, "a\u{7}b", Some("c\u{1b}d"))];
        host(vec![instance])
    });
    with_scene(&history, &State::default(), |scene| {
        let text = once::text(scene, 80);
        let control = |c: char| c.is_control() && c != '\n';
        assert!(!text.contains(control), "{text:?}");
        assert!(text.contains("a [2Jb"));
    });
    for each in Page::ALL {
        let text = lines(&picture(&history, &page(each), 160, 50)).concat();
        assert!(!text.contains(char::is_control), "{text:?}");
    }
}

#[test]
fn any_size_will_do() {
    let crowded = history(|second| host(vec![busy(second), plain(second), unreachable()]));
    for history in [crowded.as_slice(), &[]] {
        let recent = &history[history.len().saturating_sub(3)..];
        // 0 is no size that a terminal has, but one that it may claim to have.
        for width in [0, 1, 2, 5, 11, 12, 13, 40, 79, 129, 130, 300] {
            for height in [0, 1, 2, 3, 4, 5, 6, 9, 13, 24, 59] {
                for each in Page::ALL {
                    picture(recent, &page(each), width, height);
                }
                let state = State { help: true, ..State::default() };
                picture(recent, &state, width, height);
            }
        }
    }
}

#[test]
fn no_cell_has_a_background_and_without_colours_none_has_any() {
    let history = history(|second| host(vec![plain(second), unreachable()]));
    for each in Page::ALL {
        for (width, height) in [(80, 24), (160, 50)] {
            let buffer = picture(&history, &page(each), width, height);
            let cells = buffer.content();
            assert!(cells.iter().all(|cell| cell.bg == Color::Reset));
            with_scene(&history, &page(each), |scene| {
                let scene = Scene { palette: Palette::new(false), ..*scene };
                let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
                terminal.draw(|frame| screen::draw(frame, &scene)).unwrap();
                let plain = terminal.backend().buffer();
                assert!(plain.content().iter().all(|cell| cell.fg == Color::Reset));
                assert_eq!(lines(plain), lines(&buffer));
            });
        }
    }
}

#[test]
fn one_picture_as_text_has_it_all_and_is_not_cut() {
    let history = history(|second| host(vec![plain(second), unreachable()]));
    with_scene(&history, &State::default(), |scene| {
        let text = once::text(scene, 80);
        assert!(text.starts_with("2026-11-21 14:02:00 +00:00\n\n  INSTANCE "), "{text}");
        for part in [
            "\n  5433 /srv/ledger   15      unreachable: connection refused\n",
            "ext4 on sdb at /srv/orders, caps by /sys/fs/cgroup/blkio/blkio.throttle.write_iops_device\n",
            "\nmissing: module: not in shared_preload_libraries\n  add pg_calm there and restart\n",
        ] {
            assert!(text.contains(part), "no {part} in\n{text}");
        }
        assert!(!text.contains('\u{1b}'), "{text}");
    });
}

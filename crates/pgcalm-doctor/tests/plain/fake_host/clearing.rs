//! Lifting limits: what goes, and what stays.

use std::fs;

use pgcalm_doctor::isolate::report::Report;
use pgcalm_doctor::isolate::{clear, show};

use super::{Host, V1_GROUP, V2_SERVICE, is_root, lines, usage};

#[test]
fn what_is_set_on_v2_is_cleared_again() {
    let Some(host) = is_root().then(Host::v2) else { return };
    let plan = host.set("70", "/dev/sda", true).unwrap();
    let report = host.set("70", "/dev/sda", false).unwrap();
    assert!(report.applied);
    assert_eq!(lines(&report), lines(&plan));
    let group = format!("{V2_SERVICE}/pgcalm-isolate-70");
    // Plain files keep the last write only.
    assert_eq!(host.read(&format!("{group}/io.max")), "8:0 wiops=100 rbps=1048576");
    assert_eq!(host.read(&format!("{group}/cgroup.procs")), "71");
    assert_eq!(host.read(&format!("{V2_SERVICE}/cgroup.subtree_control")), "+io");

    // What the kernel would do: both are in the group, and a child that was forked there.
    host.write(&format!("{group}/cgroup.procs"), "70\n71\n72\n");
    host.process(72, 70, "0::/tenants/pg/pgcalm-isolate-70\n", "/srv/pg");
    assert_eq!(
        lines(&host.clear(true).unwrap()),
        [
            format!("write /{V2_SERVICE}/cgroup.subtree_control -io"),
            format!("move /{V2_SERVICE}/cgroup.procs 70"),
            format!("move /{V2_SERVICE}/cgroup.procs 71"),
            format!("move /{V2_SERVICE}/cgroup.procs 72"),
            format!("remove-group /{group}"),
        ]
    );
    assert_eq!(host.read(&format!("{group}/cgroup.procs")), "70\n71\n72\n");

    // Files don't keep a control group from being removed, and an emptied one lists no process.
    fs::remove_dir_all(host.root.path(&group)).unwrap();
    fs::create_dir(host.root.path(&group)).unwrap();
    let report = host.clear(false).unwrap();
    assert!(report.applied);
    assert_eq!(host.read(&format!("{V2_SERVICE}/cgroup.subtree_control")), "-io");
    assert!(!host.root.path(&group).exists());
    assert_eq!(lines(&host.clear(false).unwrap()), [""; 0]);
}

#[test]
fn on_v2_the_controller_stays_on_in_the_root_group_while_limits_of_others_need_it() {
    let Some(host) = is_root().then(Host::v2) else { return };
    for pid in [70, 71] {
        host.write(&format!("proc/{pid}/cgroup"), "0::/\n");
    }
    let control = "sys/fs/cgroup/cgroup.subtree_control";
    host.write(control, "memory\n");
    host.set("70", "/dev/sda", false).unwrap();
    let is_switched_off = |report: &Report| lines(report).contains(&format!("write /{control} -io"));
    host.write("sys/fs/cgroup/other/io.max", "\n");
    assert!(is_switched_off(&host.clear(true).unwrap()));
    host.write("sys/fs/cgroup/other/io.max", "8:0 rbps=max wbps=9000 riops=max wiops=max\n");
    let report = host.clear(true).unwrap();
    assert!(!is_switched_off(&report));
    assert!(matches!(&report.notes[..], [note] if note.contains("/sys/fs/cgroup/other ")), "{:?}", report.notes);
    // No other group takes its processes back before.
    host.write("sys/fs/cgroup/cgroup.type", "domain\n");
    assert!(is_switched_off(&host.clear(true).unwrap()));
    fs::remove_file(host.root.path("sys/fs/cgroup/cgroup.type")).unwrap();

    let group = host.root.path("sys/fs/cgroup/pgcalm-isolate-70");
    fs::remove_dir_all(&group).unwrap();
    fs::create_dir(&group).unwrap();
    host.clear(false).unwrap();
    assert_eq!((host.read(control).as_str(), group.exists()), ("+io", false));
}

#[test]
fn limits_of_another_server_at_the_same_path_stay() {
    let Some(host) = is_root().then(Host::v1) else { return };
    host.set("70", "/dev/sda", false).unwrap();
    host.at_the_same_path();
    let options = clear::Options { instance: Some("80".to_string()), plan: true };
    let report = clear::clear(&host.root, &options, &|| false).unwrap();
    assert_eq!(lines(&report), [""; 0]);
    assert!(report.notes[0].contains("(pid 80) has no limits"), "{:?}", report.notes);
}

#[test]
fn of_two_servers_at_the_same_path_the_process_id_tells_whose_limits_go() {
    let Some(host) = is_root().then(Host::v1) else { return };
    host.at_the_same_path();
    for pid in ["70", "80"] {
        host.set(pid, "/dev/sda", false).unwrap();
    }
    let clear = |name: &str| {
        let options = clear::Options { instance: Some(name.to_string()), plan: true };
        clear::clear(&host.root, &options, &|| false)
    };
    let error = usage(clear("/srv/pg"));
    assert!(error.contains("give the process id"), "{error}");
    // One has ended, and the path is that of the other, which runs.
    for pid in [70, 71] {
        fs::remove_dir_all(host.root.path(format!("proc/{pid}"))).unwrap();
    }
    let notes = show::show(&host.root).unwrap().notes;
    assert!(notes.iter().any(|note| note.contains("isolate clear --instance 70 removes it")), "{notes:?}");
    let left = format!("remove-group /{V1_GROUP}/db/pgcalm-isolate-70");
    assert_eq!(lines(&clear("70").unwrap()), [left.as_str()]);
    // Another server has that process id.
    host.process(70, 1, "7:blkio:/\n", "/srv/two");
    host.write("proc/70/stat", "70 (postgres) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 999 0\n");
    host.server("srv/two", 70, 5434);
    assert_eq!(lines(&clear("70").unwrap()), [left.as_str()]);
}

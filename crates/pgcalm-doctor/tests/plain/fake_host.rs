//! Every read and write on a fake host, above all for cgroup v2, which not every host offers.

mod checks;
mod clearing;

use std::fs;

use pgcalm_doctor::isolate::report::{Report, text};
use pgcalm_doctor::isolate::{Setting, check, clear, set, show};
use pgcalm_host::fake::FakeHost;
use pgcalm_host::throttle::Kind;
use pgcalm_host::{Failure, Known};
use pgcalm_testkit::need;

const V1_GROUP: &str = "sys/fs/cgroup/blkio";
const V2_SERVICE: &str = "sys/fs/cgroup/tenants/pg";

struct Host {
    root: FakeHost,
}

impl Host {
    fn new(mountinfo: &str) -> Self {
        let host = Self { root: FakeHost::default() };
        host.write("proc/self/mountinfo", mountinfo);
        host.write("sys/devices/sda/dev", "8:0\n");
        host.write("sys/devices/sda/sda1/dev", "8:1\n");
        host.write("sys/devices/sda/sda1/partition", "1\n");
        for (link, target) in [
            ("sys/dev/block/8:1", "../../devices/sda/sda1"),
            ("sys/dev/block/8:0", "../../devices/sda"),
            ("sys/class/block/sda", "../../devices/sda"),
            ("sys/class/block/sda1", "../../devices/sda/sda1"),
        ] {
            host.link(link, target);
        }
        host.write("dev/sda", "");
        host.write("dev/sda1", "");
        host
    }

    /// cgroup v2 with a service that holds the instance 70, 71 alone.
    fn v2() -> Self {
        let host = Self::new("41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        let membership = "0::/tenants/pg\n";
        host.process(70, 1, membership, "/srv/pg");
        host.process(71, 70, membership, "/srv/pg");
        host.process(99, 1, "0::/\n", "/");
        host.server("srv/pg", 70, 5432);
        host.write("sys/fs/cgroup/cgroup.controllers", "cpu io memory\n");
        host.write(&format!("{V2_SERVICE}/cgroup.controllers"), "cpu io memory\n");
        host.write(&format!("{V2_SERVICE}/cgroup.subtree_control"), "\n");
        host.write(&format!("{V2_SERVICE}/cgroup.procs"), "70\n71\n");
        host
    }

    /// cgroup v1 with the instance 70, 71 in a group with a limit of its own, below the root with another.
    fn v1() -> Self {
        let host = Self::new("38 31 0:35 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n");
        host.process(70, 1, "7:blkio:/db\n", "/srv/pg");
        host.process(71, 70, "7:blkio:/db\n", "/srv/pg");
        host.process(99, 1, "7:blkio:/\n", "/");
        host.server("srv/pg", 70, 5432);
        for kind in Kind::ALL {
            host.write(&format!("{V1_GROUP}/{}", kind.v1_file()), "");
            host.write(&format!("{V1_GROUP}/db/{}", kind.v1_file()), "");
        }
        host.write(&format!("{V1_GROUP}/{}", Kind::WriteIops.v1_file()), "8:0 9000\n");
        host.write(&format!("{V1_GROUP}/db/{}", Kind::WriteBps.v1_file()), "8:0 5000\n");
        host
    }

    /// Beside the instance 70 another with the same data directory, in a container.
    fn at_the_same_path(&self) {
        self.process(80, 1, "7:blkio:/\n", "/srv/pg");
        fs::remove_file(self.root.path("proc/80/root")).unwrap();
        self.link("proc/80/root", "../../c2");
        self.server("c2/srv/pg", 80, 5433);
    }

    fn write(&self, path: &str, text: &str) {
        self.root.put(path, text);
    }

    fn link(&self, path: &str, target: &str) {
        self.root.link(path, target);
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.root.path(path)).unwrap()
    }

    fn process(&self, pid: i32, parent: i32, cgroup: &str, cwd: &str) {
        self.write(
            &format!("proc/{pid}/stat"),
            &format!("{pid} (postgres) S {parent} 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {pid}5 0\n"),
        );
        self.write(&format!("proc/{pid}/cgroup"), cgroup);
        self.write(&format!("proc/{pid}/cmdline"), "postgres: x");
        self.write(&format!("proc/{pid}/mountinfo"), "1 0 8:1 / / rw,noatime - xfs /dev/sda1 rw,attr2\n");
        self.link(&format!("proc/{pid}/cwd"), cwd);
        self.link(&format!("proc/{pid}/root"), "../..");
    }

    fn server(&self, data: &str, pid: i32, port: u16) {
        self.write(&format!("{data}/postmaster.pid"), &format!("{pid}\n/{data}\n1\n{port}\n/tmp\n\n"));
        self.write(&format!("{data}/PG_VERSION"), "15\n");
        self.write(&format!("{data}/pg_wal/x"), "");
    }

    fn set(&self, instance: &str, device: &str, plan: bool) -> anyhow::Result<Report> {
        self.set_until(instance, device, plan, &|| false)
    }

    fn set_until(
        &self,
        instance: &str,
        device: &str,
        plan: bool,
        interrupted: &dyn Fn() -> bool,
    ) -> anyhow::Result<Report> {
        set::set(
            &self.root,
            &set::Options {
                instance: instance.into(),
                device: device.into(),
                settings: vec![
                    Setting { kind: Kind::WriteIops, value: Some(100) },
                    Setting { kind: Kind::ReadBps, value: Some(1 << 20) },
                ],
                plan,
                hold: false,
            },
            interrupted,
        )
    }

    /// The data directory's file system on LVM (dm-0) on sda1, with a node without udev's link.
    fn mapped(&self) {
        self.write("sys/devices/dm-0/dev", "253:0\n");
        self.link("sys/devices/dm-0/slaves/sda1", "../../sda/sda1");
        self.link("sys/dev/block/253:0", "../../devices/dm-0");
        self.link("sys/class/block/dm-0", "../../devices/dm-0");
        self.write("dev/dm-0", "");
        self.link("dev/mapper/vg-pg", "../dm-0");
        for pid in [70, 71] {
            self.write(&format!("proc/{pid}/mountinfo"), "1 0 253:0 / / rw - xfs /dev/mapper/vg-pg rw\n");
        }
    }

    /// What the instance's processes see mounted.
    fn mounted(&self, mountinfo: &str) {
        for pid in [70, 71, 99] {
            self.write(&format!("proc/{pid}/mountinfo"), mountinfo);
        }
    }

    fn clear(&self, plan: bool) -> anyhow::Result<Report> {
        clear::clear(&self.root, &clear::Options { instance: None, plan }, &|| false)
    }
}

fn lines(report: &Report) -> Vec<String> {
    report
        .steps
        .iter()
        .map(|step| {
            let value = step.value.as_deref().unwrap_or_default();
            format!("{} {} {value}", step.action, step.path).trim_end().to_string()
        })
        .collect()
}

fn is_root() -> bool {
    need::met("isolate set and clear", &[need::ROOT])
}

fn usage(result: anyhow::Result<Report>) -> String {
    let error = result.unwrap_err();
    assert!(matches!(error.downcast_ref(), Some(Failure::Usage(_))), "{error:#}");
    error.to_string()
}

#[test]
fn show_describes_places_group_and_limits() {
    let host = Host::v1();
    let report = show::show(&host.root).unwrap();
    let [instance] = &report.instances[..] else { panic!("{report:?}") };
    assert_eq!(instance.data_directory, "/srv/pg");
    assert_eq!(instance.port, Some(5432));
    assert_eq!(instance.processes, 2);
    assert_eq!(instance.group.there().unwrap(), "/db");
    let place = &instance.places[1];
    assert_eq!((place.role.as_str(), place.fs.as_str()), ("wal", "xfs"));
    assert_eq!(place.mount_options, ["rw", "noatime", "attr2"]);
    assert_eq!(place.device.as_deref(), Some("sda1"));
    assert_eq!(place.disk.there().unwrap().number, "8:0");
    let limits: Vec<(&str, u64, bool)> =
        instance.limits.iter().map(|limit| (limit.kind.as_str(), limit.value, limit.in_force)).collect();
    // v1 does not pass limits down.
    assert_eq!(limits, [("write-bandwidth", 5000, true), ("write-iops", 9000, false)]);
}

#[test]
fn a_plan_on_v2_tells_every_write_and_makes_none() {
    let host = Host::v2();
    let report = host.set("/srv/pg/", "/dev/sda", true).unwrap();
    let group = format!("/{V2_SERVICE}/pgcalm-isolate-70");
    assert_eq!(
        lines(&report),
        [
            format!("make-group {group}"),
            format!("move {group}/cgroup.procs 70"),
            format!("move {group}/cgroup.procs 71"),
            format!("write /{V2_SERVICE}/cgroup.subtree_control +io"),
            format!("write {group}/io.max 8:0 wiops=100 rbps=1048576"),
        ]
    );
    assert!(!report.applied);
    assert!(!host.root.path(&group).exists());
    assert!(!host.root.path("run").exists());
    assert!(report.permanent.contains(&"IOWriteIOPSMax=/dev/sda 100".to_string()));
}

#[test]
fn on_v2_other_processes_are_not_moved_along() {
    let host = Host::v2();
    host.write(&format!("{V2_SERVICE}/cgroup.procs"), "70\n71\n99\n");
    let error = usage(host.set("70", "/dev/sda", true));
    assert!(error.contains("such as 99"), "{error}");
}

#[test]
fn on_v2_a_unit_that_systemd_has_not_delegated_is_left_to_it() {
    let host = Host::v2();
    let unit = "sys/fs/cgroup/system.slice/pg.service";
    for file in ["cgroup.controllers", "cgroup.subtree_control", "cgroup.procs"] {
        host.write(&format!("{unit}/{file}"), &host.read(&format!("{V2_SERVICE}/{file}")));
    }
    for pid in [70, 71] {
        host.write(&format!("proc/{pid}/cgroup"), "0::/system.slice/pg.service\n");
    }
    let error = host.set("70", "/dev/sda", true).unwrap_err().to_string();
    let command =
        "set-property --runtime 'pg.service' IOWriteIOPSMax='/dev/sda 100' IOReadBandwidthMax='/dev/sda 1048576'";
    assert!(error.contains(command), "{error}");
    // Of LVM it would limit the disk below.
    host.mapped();
    let error = host.set("70", "/dev/mapper/vg-pg", true).unwrap_err().to_string();
    assert!(error.contains("systemctl edit 'pg.service'") && !error.contains("set-property"), "{error}");
    let delegate = |name: &str, value: &[u8]| {
        rustix::fs::setxattr(host.root.path(unit), name, value, rustix::fs::XattrFlags::empty())
    };
    // Not every file system has both.
    let Some(name) = ["user.delegate", "trusted.delegate"].into_iter().find(|name| delegate(name, b"1").is_ok()) else {
        eprintln!("skipped: the file system of temporary files takes no extended attributes");
        return;
    };
    host.set("70", "/dev/sda", true).unwrap();
    delegate(name, b"0").unwrap();
    host.set("70", "/dev/sda", true).unwrap_err();
}

#[test]
fn show_tells_of_limits_that_somebody_else_has_lifted() {
    let Some(host) = is_root().then(Host::v2) else { return };
    host.set("70", "/dev/sda", false).unwrap();
    // What the kernel would do.
    host.write("proc/70/cgroup", "0::/tenants/pg/pgcalm-isolate-70\n");
    assert_eq!(show::show(&host.root).unwrap().notes, [""; 0]);
    host.write(&format!("{V2_SERVICE}/pgcalm-isolate-70/io.max"), "8:0 rbps=1048576 wbps=max riops=max wiops=max\n");
    let notes = show::show(&host.root).unwrap().notes;
    assert!(matches!(&notes[..], [note] if note.contains("write-iops 100 on 8:0")), "{notes:?}");

    // The limits are there, the server is not.
    host.write("proc/70/cgroup", "0::/tenants/pg\n");
    let notes = show::show(&host.root).unwrap().notes;
    let told = format!("to /{V2_SERVICE}; run pgcalm isolate clear --instance 70");
    assert!(matches!(&notes[..], [note] if note.contains(&told)), "{notes:?}");
}

#[test]
fn on_v2_without_the_controller_the_way_out_is_told() {
    let host = Host::v2();
    host.write(&format!("{V2_SERVICE}/cgroup.controllers"), "cpu\n");
    let error = host.set("70", "/dev/sda", true).unwrap_err();
    assert!(matches!(error.downcast_ref(), Some(Failure::Host(_))));
    assert!(error.to_string().contains("IOAccounting"), "{error}");
    // io brings memory with it, unless the host has none: then it works for what isn't buffered, and says so.
    host.write(&format!("{V2_SERVICE}/cgroup.controllers"), "cpu io\n");
    let notes = host.set("70", "/dev/sda", true).unwrap().notes;
    assert!(!notes.iter().any(|note| note.contains("memory controller")));
    host.write("sys/fs/cgroup/cgroup.controllers", "cpu io\n");
    let report = host.set("70", "/dev/sda", true).unwrap();
    assert!(report.notes.iter().any(|note| note.contains("memory controller")));
}

#[test]
fn on_v1_limits_of_the_former_group_are_taken_along() {
    let host = Host::v1();
    let report = host.set("5432", "/dev/sda", true).unwrap();
    let group = format!("/{V1_GROUP}/db/pgcalm-isolate-70");
    assert_eq!(
        lines(&report),
        [
            format!("make-group {group}"),
            format!("write {group}/blkio.throttle.read_bps_device 8:0 1048576"),
            format!("write {group}/blkio.throttle.write_bps_device 8:0 5000"),
            format!("write {group}/blkio.throttle.write_iops_device 8:0 100"),
            format!("move {group}/cgroup.procs 70"),
            format!("move {group}/cgroup.procs 71"),
        ]
    );
    assert!(report.notes.iter().any(|note| note.starts_with("Taken along")));
}

#[test]
fn a_partition_stands_for_its_disk() {
    let host = Host::v2();
    let report = host.set("70", "/dev/sda1", true).unwrap();
    let last = report.steps.last().unwrap();
    assert_eq!(last.value.as_deref(), Some("8:0 wiops=100 rbps=1048576"), "{last:?}");
    assert!(report.notes.iter().any(|note| note.contains("on sda, and counts")), "{:?}", report.notes);
    assert!(report.permanent.contains(&"IOWriteIOPSMax=/dev/sda 100".to_string()));
}

#[test]
fn a_mapped_device_is_limited_itself_and_feels_the_limits_below() {
    let host = Host::v2();
    host.mapped();
    host.write("sys/fs/cgroup/tenants/io.max", "8:0 rbps=max wbps=max riops=max wiops=700\n");
    host.write(&format!("{V2_SERVICE}/io.max"), "253:0 rbps=max wbps=9000 riops=max wiops=max\n");
    let report = show::show(&host.root).unwrap();
    let place = &report.instances[0].places[0];
    assert_eq!(place.disk.there().unwrap().name, "dm-0");
    assert_eq!(place.slaves[0].device, "sda1");
    let limits: Vec<(&str, &str, u64)> = report.instances[0]
        .limits
        .iter()
        .map(|limit| (limit.disk.name.as_str(), limit.kind.as_str(), limit.value))
        .collect();
    assert_eq!(limits, [("dm-0", "write-bandwidth", 9000), ("sda", "write-iops", 700)]);
    let text = pgcalm_doctor::isolate::report::text::render(&report);
    assert!(text.contains("dm-0 (253:0) made of sda1 of disk sda (8:0)"), "{text}");

    let report = host.set("70", "/dev/mapper/vg-pg", true).unwrap();
    let last = report.steps.last().unwrap();
    assert_eq!(last.value.as_deref(), Some("253:0 wiops=100 rbps=1048576"));
    // systemd would set its own properties on sda. The name is the one that lasts.
    let permanent = &report.permanent;
    assert!(permanent.contains(&"Delegate=yes".to_string()), "{permanent:?}");
    assert!(!permanent.iter().any(|line| line.starts_with("IO")), "{permanent:?}");
    let command = " --device \"/dev/mapper/vg-pg\" --write-iops 100 --read-bandwidth 1048576";
    let is_command = |line: &String| line.starts_with("ExecStartPost=-+") && line.ends_with(command);
    assert!(permanent.iter().any(is_command), "{permanent:?}");
    let lies_below = |report: &Report| report.notes.iter().any(|note| note.contains("lies below dm-0"));
    assert!(!lies_below(&report));
    assert!(lies_below(&host.set("70", "/dev/sda", true).unwrap()));
}

#[test]
fn an_interrupted_set_undoes_what_it_did() {
    let Some(host) = is_root().then(Host::v2) else { return };
    for steps in 0..2 {
        let left = std::cell::Cell::new(steps);
        let error = host.set_until("70", "/dev/sda", false, &|| left.replace(left.get() - 1) == 0).unwrap_err();
        assert!(matches!(error.downcast_ref(), Some(Failure::Interrupted(_))), "{error:#}");
        assert!(!host.root.path(V2_SERVICE).join("pgcalm-isolate-70").exists());
        assert_eq!(lines(&host.clear(true).unwrap()), [""; 0]);
    }
}

#[test]
fn what_a_killed_set_has_left_is_named_and_refused_until_it_is_cleared() {
    let Some(host) = is_root().then(Host::v2) else { return };
    host.set("70", "/dev/sda", false).unwrap();
    let note = "run/pgcalm/isolate/pgcalm-isolate-70.json";
    let text = host.read(note);
    host.write(note, &text.replace("\"complete\": true", "\"complete\": false"));
    let notes = show::show(&host.root).unwrap().notes;
    assert!(notes[0].contains("was killed half-way"), "{notes:?}");
    let error = usage(host.set("70", "/dev/sda", true));
    assert!(error.contains("clear --instance 70"), "{error}");
    assert!(!host.clear(true).unwrap().steps.is_empty());

    // Held by a process that was killed.
    let holder = "\"holder\": { \"pid\": 99, \"start_ticks\": 1 }";
    host.write(note, &text.replace("\"holder\": null", holder));
    let notes = show::show(&host.root).unwrap().notes;
    assert!(notes[0].contains("process 99, which was killed"), "{notes:?}");
}

#[test]
fn a_second_set_changes_the_group_that_is_there() {
    let Some(host) = is_root().then(Host::v1) else { return };
    host.set("70", "/dev/sda", false).unwrap();
    let group = format!("{V1_GROUP}/db/pgcalm-isolate-70");
    for pid in [70, 71] {
        host.write(&format!("proc/{pid}/cgroup"), "7:blkio:/db/pgcalm-isolate-70\n");
    }
    let report = host.set("70", "/dev/sda", true).unwrap();
    assert_eq!(
        lines(&report),
        [
            format!("write /{group}/blkio.throttle.read_bps_device 8:0 1048576"),
            format!("write /{group}/blkio.throttle.write_iops_device 8:0 100"),
        ]
    );
    assert!(report.instances[0].isolated);

    // Another server with the same process id must not inherit it.
    host.write("proc/70/stat", "70 (postgres) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 999 0\n");
    let error = usage(host.set("70", "/dev/sda", true));
    assert!(error.contains("clear"), "{error}");

    // Its former group has gone, as that of a service that was stopped: it goes where its postmaster was.
    host.write(&format!("{group}/cgroup.procs"), "71\n");
    let cleared = host.clear(true).unwrap();
    assert_eq!(lines(&cleared), [format!("move /{V1_GROUP}/db/cgroup.procs 71"), format!("remove-group /{group}")]);
}

#[test]
fn wrong_names_are_refused_with_the_way_out() {
    let host = Host::v1();
    let error = host.set("/srv/other", "/dev/sda", true).unwrap_err();
    assert!(matches!(error.downcast_ref(), Some(Failure::Unreachable(_))), "{error:#}");
    let error = error.to_string();
    assert!(error.contains("/srv/pg (port 5432, pid 70)"), "{error}");
    for device in ["/dev/sdz", "/srv/pg", "sda"] {
        let error = usage(host.set("70", device, true));
        assert!(error.contains("not a block device"), "{device}: {error}");
    }

    // The same port on another address.
    host.process(80, 1, "7:blkio:/\n", "/srv/two");
    host.server("srv/two", 80, 5432);
    let error = host.set("5432", "/dev/sda", true).unwrap_err();
    assert!(matches!(error.downcast_ref(), Some(Failure::Usage(_))), "{error:#}");
    assert!(error.to_string().contains("more than one server"), "{error}");
    assert!(host.set("/srv/two", "/dev/sda", true).is_ok());
}

#[test]
fn a_host_without_the_controller_can_show_and_not_set() {
    let host = Host::v1();
    host.write("proc/self/mountinfo", "");
    assert_eq!(show::show(&host.root).unwrap().cgroup_version, Known::Is(None));
    let error = host.set("70", "/dev/sda", true).unwrap_err();
    assert!(matches!(error.downcast_ref(), Some(Failure::Host(_))));
    assert!(error.to_string().contains("blkio"), "{error}");
}

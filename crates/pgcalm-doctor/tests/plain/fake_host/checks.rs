//! What `isolate check` says of a host.

use super::*;

#[test]
fn check_reads_the_whole_host() {
    let host = Host::v1();
    let names = |report: Report| -> Vec<String> { report.hazards.into_iter().map(|hazard| hazard.name).collect() };
    assert_eq!(
        names(check::check(&host.root).unwrap()),
        ["journal-device-capped", "wal-on-capped-device", "writeback-escapes-limit", "limit-not-passed-down"]
    );
}

/// What `check` says of a host, for a terminal.
fn checked(host: &Host) -> String {
    let report = check::check(&host.root).unwrap_or_else(|error| panic!("nothing at all: {error:#}"));
    text::render(&report)
}

/// Neither a limit nor a hazard is said not to be there.
fn assert_not_known(text: &str, why: &str) {
    assert!(!text.contains("no limit in force"), "{text}");
    assert!(!text.contains("No hazard found"), "{text}");
    assert!(text.contains("not known"), "{text}");
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(why), "{why}: {text}");
}

#[test]
fn a_btrfs_is_on_the_device_that_its_mount_names() {
    let host = Host::v2();
    host.mounted("1 0 0:40 /@ / rw - btrfs /dev/sda1 rw\n");
    host.write(&format!("{V2_SERVICE}/io.max"), "8:0 wiops=100\n");
    let text = checked(&host);
    assert!(text.contains("sda1 of disk sda (8:0)"), "{text}");
    assert!(text.contains("write-iops 100 on sda"), "{text}");
    assert!(text.contains("wal-on-capped-device"), "{text}");
    // As seen from a service with PrivateDevices=yes, which has no nodes of disks.
    fs::remove_dir_all(host.root.path("dev")).unwrap();
    assert!(checked(&host).contains("write-iops 100 on sda"));
    // Nobody tells on which of several devices a file is.
    for device in ["sda1", "sdb"] {
        host.write(&format!("sys/fs/btrfs/1234/devices/{device}/dev"), "");
    }
    assert_not_known(&checked(&host), "sda1, sdb");
}

#[test]
fn an_overlay_is_where_its_upper_directory_is_if_that_can_be_seen() {
    let host = Host::v2();
    host.mounted("1 0 0:50 / / rw - overlay overlay rw,lowerdir=/l,upperdir=/var/o/upper,workdir=/w\n");
    host.write(&format!("{V2_SERVICE}/io.max"), "8:0 wiops=100\n");
    assert_not_known(&checked(&host), "/var/o/upper");
    host.write(
        "proc/self/mountinfo",
        "41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n31 0 8:1 / / rw - xfs /dev/sda1 rw\n",
    );
    // A directory of that name elsewhere has not the server's files in it.
    host.write("var/o/upper/x", "");
    assert_not_known(&checked(&host), "/var/o/upper");
    host.write("var/o/upper/srv/pg/pg_wal/x", "");
    let text = checked(&host);
    assert!(text.contains("write-iops 100 on sda"), "{text}");
    assert!(text.contains("journal-device-capped"), "{text}");
}

#[test]
fn what_a_file_system_is_on_that_tells_no_device_is_not_known_but_memory_is_on_none() {
    let host = Host::v2();
    host.mounted("1 0 0:60 / / rw - zfs tank/pg rw\n");
    assert_not_known(&checked(&host), "zfs");
    // /sys does not show the device, as in some containers.
    host.mounted("1 0 9:9 / / rw - xfs /dev/md9 rw\n");
    assert_not_known(&checked(&host), "9:9");
    host.mounted("1 0 0:61 / / rw - tmpfs tmpfs rw\n");
    let text = checked(&host);
    assert!(text.contains("no limit in force"), "{text}");
    assert!(text.contains("No hazard found"), "{text}");
}

#[test]
fn control_groups_that_are_covered_or_out_of_sight_are_not_known() {
    let host = Host::v2();
    host.write(
        "proc/self/mountinfo",
        "31 0 8:1 / / rw - xfs /dev/sda1 rw\n41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n\
         60 41 0:99 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n",
    );
    assert_not_known(&checked(&host), "/sys/fs/cgroup is covered");
    let host = Host::v1();
    host.write(
        "proc/self/mountinfo",
        "30 0 0:20 / /sys rw - sysfs sysfs rw\n31 30 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
         38 31 0:35 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n\
         60 31 0:99 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n",
    );
    assert_not_known(&checked(&host), "/sys/fs/cgroup/blkio is covered");
    // Mounted nowhere, though the kernel has them.
    host.write("proc/self/mountinfo", "");
    host.write("proc/self/cgroup", "7:blkio:/\n0::/\n");
    assert_not_known(&checked(&host), "blkio");
    // Inside a container limits of the groups above hold, and are not to be seen; nor are other groups.
    let host = Host::v2();
    host.write("sys/fs/cgroup/cgroup.type", "domain\n");
    assert_not_known(&checked(&host), "groups above");
    let host = Host::v2();
    for pid in [70, 71] {
        host.write(&format!("proc/{pid}/cgroup"), "0::/../other\n");
    }
    assert_not_known(&checked(&host), "/../other");
}

#[test]
fn one_entry_that_cant_be_read_leaves_the_rest_and_its_reason_is_told_once() {
    // A directory in place of a file can't be read by root either.
    let unreadable = |host: &Host, path: &str| {
        let _ = fs::remove_file(host.root.path(path));
        host.write(&format!("{path}/x"), "");
    };
    for path in [
        "sys/devices/sda/sda1/dev",
        "proc/fs/ext4/sda1/options",
        "sys/fs/ext4/sda1/journal_task",
        "sys/fs/cgroup/cgroup.controllers",
        "sys/fs/cgroup/tenants/pg/io.max",
        "sys/fs/cgroup/tenants/io.max",
        "proc/70/cgroup",
        "proc/70/mountinfo",
    ] {
        let host = Host::v2();
        host.server("srv/two", 99, 5433);
        fs::remove_file(host.root.path("proc/99/cwd")).unwrap();
        host.link("proc/99/cwd", "/srv/two");
        host.mounted("1 0 8:1 / / rw - ext4 /dev/sda1 rw\n");
        host.write("proc/fs/ext4/sda1/options", "data=ordered\ndelalloc\ndioread_nolock\n");
        host.write("sys/fs/ext4/sda1/journal_task", "98\n");
        host.write("proc/98/comm", "jbd2/sda1-8\n");
        unreadable(&host, path);
        let report = check::check(&host.root);
        let mut report = report.unwrap_or_else(|error| panic!("{path}: {error:#}"));
        assert_eq!(report.instances.len(), 2, "{path}");
        // What is not known of the one may be known of the other.
        report.instances.retain(|one| one.data_directory == "/srv/pg");
        let text = text::render(&report);
        assert_not_known(&text, path);
        for line in text.lines() {
            assert!(line.matches("os error").count() < 2, "{path}: {line}");
        }
    }
}

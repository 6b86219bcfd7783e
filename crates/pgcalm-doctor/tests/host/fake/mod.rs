//! A host in a temporary directory, with a server that nothing is wrong with, and that server's views.

use std::fs;
use std::time::Duration;

use pgcalm_doctor::collect;
use pgcalm_doctor::collect::Options;
use pgcalm_doctor::facts::{DiskRates, Facts, FileSystem, Grace, Sample, Server, Setting, Slot, Standby};
use pgcalm_host::fake::FakeHost;

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const GIB: u64 = 1 << 30;

/// Group of the server's service.
pub(crate) const SERVICE: &str = "sys/fs/cgroup/system.slice/pg.service";
const MEMBERSHIP: &str = "0::/system.slice/pg.service\n";

/// Data on sda1, WAL on sdb1, both ext4; cgroup v2; the server is 70, a child of it 71.
pub(crate) struct Host {
    pub root: FakeHost,
}

impl Host {
    pub(crate) fn new() -> Self {
        let host = Self { root: FakeHost::default() };
        for (disk, major_minor) in [("sda", "8:0"), ("sdb", "8:16")] {
            let partition = if disk == "sda" { "8:1" } else { "8:17" };
            host.write(&format!("sys/devices/{disk}/dev"), major_minor);

            host.write(&format!("sys/devices/{disk}/queue/wbt_lat_usec"), "1000\n");
            host.write(&format!("sys/devices/{disk}/queue/nr_requests"), "60\n");
            host.write(&format!("sys/devices/{disk}/{disk}1/dev"), partition);
            host.write(&format!("sys/devices/{disk}/{disk}1/partition"), "1\n");
            host.link(&format!("sys/block/{disk}"), &format!("../devices/{disk}"));
            for (link, target) in [
                (format!("sys/dev/block/{major_minor}"), disk.to_string()),
                (format!("sys/dev/block/{partition}"), format!("{disk}/{disk}1")),
            ] {
                host.link(&link, &format!("../../devices/{target}"));
            }
            for (name, target) in
                [(disk.to_string(), disk.to_string()), (format!("{disk}1"), format!("{disk}/{disk}1"))]
            {
                host.link(&format!("sys/class/block/{name}"), &format!("../../devices/{target}"));
                host.write(&format!("dev/{name}"), "");
            }
            host.write(&format!("sys/class/bdi/{major_minor}/max_ratio_fine"), "1000000\n");
            host.write(&format!("sys/class/bdi/{major_minor}/read_ahead_kb"), "1280\n");
            host.write(&format!("sys/class/bdi/{major_minor}/min_ratio_fine"), "250000\n");
            host.ext4(disk, "rw\ndelalloc\ndioread_nolock\ndata=ordered\n");
        }
        host.write("proc/self/mountinfo", "41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        for group in ["sys/fs/cgroup", SERVICE] {
            host.write(&format!("{group}/cgroup.controllers"), "cpu io memory\n");
        }
        host.write(
            "proc/meminfo",
            "MemTotal: 16777216 kB\nMemFree: 2097152 kB\nDirty: 0 kB\nWriteback: 0 kB\n\
             Active(file): 4194304 kB\nInactive(file): 4194304 kB\n",
        );
        for (name, value) in [
            ("dirty_background_bytes", 0),
            ("dirty_background_ratio", 10),
            ("dirty_bytes", 0),
            ("dirty_ratio", 20),
            ("dirty_expire_centisecs", 3000),
            ("dirty_writeback_centisecs", 500),
        ] {
            host.sysctl(name, value);
        }
        host.write("proc/sys/kernel/osrelease", "6.12.1-test\n");
        host.write("proc/sys/kernel/random/boot_id", "boot-1\n");
        host.write("sys/kernel/btf/vmlinux", "");
        host.server(70, "srv/pg", 5432);
        host.process(71, 70, MEMBERSHIP, "/srv/pg");
        host.write("wal/pg_wal/x", "");
        host.link("srv/pg/pg_wal", "/wal/pg_wal");
        host
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        self.root.put(path, text);
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.root.path(path)).unwrap()
    }

    pub(crate) fn link(&self, path: &str, target: &str) {
        let former = self.root.path(path);
        let _ = fs::remove_file(&former).or_else(|_| fs::remove_dir(&former));
        self.root.link(path, target);
    }

    pub(crate) fn sysctl(&self, name: &str, value: u64) {
        self.write(&format!("proc/sys/vm/{name}"), &format!("{value}\n"));
    }

    /// The options of the ext4 on the first partition of a disk.
    pub(crate) fn ext4(&self, disk: &str, options: &str) {
        let pid = if disk == "sda" { 98 } else { 99 };
        self.write(&format!("proc/fs/ext4/{disk}1/options"), options);
        self.write(&format!("sys/fs/ext4/{disk}1/journal_task"), &format!("{pid}\n"));
        self.write(&format!("proc/{pid}/comm"), &format!("jbd2/{disk}1-8\n"));
    }

    pub(crate) fn process(&self, pid: i32, parent: i32, cgroup: &str, cwd: &str) {
        self.write(
            &format!("proc/{pid}/stat"),
            &format!("{pid} (postgres) S {parent} 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {pid}5 0\n"),
        );
        self.write(&format!("proc/{pid}/cgroup"), cgroup);
        self.write(&format!("proc/{pid}/cmdline"), "postgres: x");
        self.mounts(pid, "ext4");
        self.link(&format!("proc/{pid}/cwd"), cwd);
        self.link(&format!("proc/{pid}/root"), "../..");
    }

    /// The data directory's file system; WAL's stays ext4.
    pub(crate) fn mounts(&self, pid: i32, data: &str) {
        self.write(
            &format!("proc/{pid}/mountinfo"),
            &format!("1 0 8:1 / / rw - {data} /dev/sda1 rw\n2 1 8:17 / /wal rw - ext4 /dev/sdb1 rw\n"),
        );
    }

    pub(crate) fn server(&self, pid: i32, data: &str, port: u16) {
        self.process(pid, 1, MEMBERSHIP, &format!("/{data}"));
        self.write(&format!("{data}/postmaster.pid"), &format!("{pid}\n/{data}\n1\n{port}\n/tmp\n\n"));
        self.write(&format!("{data}/PG_VERSION"), "15\n");
        fs::create_dir_all(self.root.path(format!("{data}/pg_wal"))).ok();
    }

    /// A limit of the service's group on the data's disk.
    pub(crate) fn limit_data(&self) {
        self.write(&format!("{SERVICE}/io.max"), "8:0 rbps=max wbps=max riops=max wiops=3000\n");
    }

    /// cgroup v1 instead, the server in /db, with a limit in the group of `directory`.
    pub(crate) fn v1(&self, directory: &str) {
        self.write("proc/self/mountinfo", "38 31 0:35 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n");
        for pid in [70, 71] {
            self.write(&format!("proc/{pid}/cgroup"), "7:blkio:/db\n");
        }
        for group in ["", "/db"] {
            self.write(
                &format!("sys/fs/cgroup/blkio{group}/blkio.throttle.write_iops_device"),
                if group == directory { "8:0 3000\n" } else { "" },
            );
        }
    }

    /// Facts of the host, with those of a server that nothing is wrong with, and a cap that an option names.
    pub(crate) fn facts(&self) -> Facts {
        let options = Options {
            instance: Some("5432".to_string()),
            write_iops: Some(Some(3000)),
            write_bandwidth: Some(Some(125 * MIB)),
            sample: Duration::ZERO,
            ..Options::default()
        };
        let mut facts = collect::collect(&self.root, &options).unwrap().facts;
        facts.server = Some(server());
        facts.sample = Some(Sample {
            seconds: 3.0,
            wal_bytes_per_second: Some(1e6),
            commits_per_second: Some(1500.0),
            wal_flushes_per_second: Some(1499.0),
            disks: ["sda", "sdb"].map(rates).to_vec(),
            uncounted: Default::default(),
            standbys: Vec::new(),
        });
        // What can't be faked by files: the room of this machine's disk, and a program.
        let host = facts.host.as_mut().unwrap();
        host.wal_file_system = Some(FileSystem { size_bytes: 100 * GIB, available_bytes: 90 * GIB });
        host.usdt_probes = Some(70);
        // A fake host has no systemd that could be asked, and no databases.
        host.grace = Some(Grace { stop_seconds: Some(90.0), start_seconds: Some(90.0), source: "systemctl".into() });
        host.data_files = Some(1000);
        let caps = host.disks.iter().filter_map(|disk| disk.write_iops.clone());
        let cap = caps.min_by_key(|cap| cap.value);
        if let Some(disk) = host.disks.iter_mut().find(|disk| disk.disk.name == "sdb") {
            disk.write_iops = disk.write_iops.take().or(cap);
        }
        facts
    }
}

/// Little is done.
fn rates(disk: &str) -> DiskRates {
    DiskRates {
        name: disk.into(),
        write_operations_per_second: 100.0,
        write_bytes_per_second: 1e6,
        read_operations_per_second: 0.0,
        read_bytes_per_second: 0.0,
        group_write_operations_per_second: None,
        group_write_bytes_per_second: None,
    }
}

/// The views of a server with the defaults of PostgreSQL 15 and archiving.
pub(crate) fn server() -> Server {
    let mut server = Server {
        version_num: 150_020,
        system_identifier: "1".into(),
        data_directory: Some("/srv/pg".into()),
        port: 5432,
        database_bytes: Some(20 * GIB),
        blocks_hit: 1_000_000,
        blocks_read: 10_000,
        ..Server::default()
    };
    for (name, value, unit, context) in [
        ("archive_command", "set", None, "sighup"),
        ("archive_library", "", None, "sighup"),
        ("archive_mode", "on", None, "postmaster"),
        ("autovacuum_max_workers", "3", None, "postmaster"),
        ("bgwriter_flush_after", "64", Some("8kB"), "sighup"),
        ("block_size", "8192", None, "internal"),
        ("checkpoint_completion_target", "0.9", None, "sighup"),
        ("checkpoint_flush_after", "32", Some("8kB"), "sighup"),
        ("checkpoint_timeout", "300", Some("s"), "sighup"),
        ("commit_delay", "0", None, "superuser"),
        ("fsync", "on", None, "sighup"),
        ("full_page_writes", "on", None, "sighup"),
        ("log_checkpoints", "on", None, "sighup"),
        ("maintenance_work_mem", "65536", Some("kB"), "user"),
        ("max_slot_wal_keep_size", "20480", Some("MB"), "sighup"),
        ("max_wal_size", "1024", Some("MB"), "sighup"),
        ("recovery_init_sync_method", "fsync", None, "sighup"),
        ("shared_buffers", "16384", Some("8kB"), "postmaster"),
        ("wal_buffers", "512", Some("8kB"), "postmaster"),
        ("wal_compression", "off", None, "superuser"),
        ("wal_keep_size", "0", Some("MB"), "sighup"),
        ("wal_receiver_timeout", "60000", Some("ms"), "sighup"),
        ("wal_segment_size", "16777216", Some("B"), "internal"),
        ("wal_sender_timeout", "60000", Some("ms"), "user"),
        ("wal_writer_delay", "200", Some("ms"), "sighup"),
        ("wal_writer_flush_after", "128", Some("8kB"), "sighup"),
    ] {
        let setting = Setting {
            value: value.into(),
            unit: unit.map(str::to_string),
            context: context.into(),
            source: "configuration file".into(),
            values: Vec::new(),
        };
        server.settings.insert(name.into(), setting);
    }
    let compression = server.settings.get_mut("wal_compression").unwrap();
    compression.values = ["pglz", "lz4", "on", "off"].map(String::from).to_vec();
    server.checkpoints.timed = 100;
    server.checkpoints.requested = 2;
    server.checkpoints.sync_time_ms = 102.0 * 500.0;
    server.buffers.checkpointer = 90_000;
    server.buffers.background_writer = 5_000;
    server.buffers.backends = 5_000;
    server.wal.bytes = 10 * GIB;
    server.wal.full_page_images = 100_000;
    server.wal.seconds = Some(86_400.0);
    server.wal.directory_bytes = Some(GIB);
    server.archiver.archived = 500;
    server.archiver.ready_files = Some(2);
    server.slots = vec![slot("standby", true, 16 * MIB)];
    server.standbys = Some(Vec::new());
    server
}

pub(crate) fn slot(name: &str, active: bool, retained: u64) -> Slot {
    Slot { name: name.into(), active, wal_status: Some("reserved".into()), retained_bytes: Some(retained) }
}

pub(crate) fn standby(slot: Option<&str>) -> Standby {
    Standby { application_name: "near".into(), slot: slot.map(str::to_string) }
}

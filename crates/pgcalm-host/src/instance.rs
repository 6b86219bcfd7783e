//! The PostgreSQL servers that run on the host, and where their files lie.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::block_device::BlockDevice;
use crate::file_system_journal::FileSystemJournal;
use crate::mounts::Mount;
use crate::process::Process;
use crate::unix_socket::ServerSocket;
use crate::{HostRoot, Known, Result, Unknown, file_system, mounts, postmaster, process, process_file, unix_socket};

/// A running server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// Its postmaster.
    pub postmaster: Process,
    /// As the server sees it, without symbolic links.
    pub data_directory: PathBuf,
    /// From postmaster.pid.
    pub port: Option<u16>,
    /// Major version, e.g. `15`; from PG_VERSION.
    pub version: Option<String>,
    /// Where its files lie: data first, then WAL, tablespaces by OID, logs.
    pub places: Vec<Place>,
    /// Why some of them are not among `places`.
    pub places_unknown: Vec<Unknown>,
}

/// What lies in a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The data directory.
    Data,
    /// pg_wal.
    Wal,
    /// A tablespace outside the data directory.
    Tablespace,
    /// The file that the server logs to.
    Log,
}

names! { pub fn name(Role): Data "data", Wal "wal", Tablespace "tablespace", Log "log" }

/// A directory or file of an instance, with the file system below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// What lies there.
    pub role: Role,
    /// As the server sees it, without symbolic links.
    pub path: PathBuf,
    /// The mount that it lies on, as the server sees it; where a chroot or an overlay hides it from the server, as seen from
    /// outside.
    pub mount: Mount,
    /// The device of the file system; none where it is on none, as tmpfs and NFS.
    pub device: Known<Option<BlockDevice>>,
    /// The journal of the file system; none where it has none.
    pub journal: Known<Option<FileSystemJournal>>,
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// By data directory.
    pub instances: Vec<Instance>,
    /// What may not be looked at by this user.
    pub hidden: Hidden,
}

/// Signs of servers that may not be looked at by this user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hidden {
    /// Processes that look like servers by their command lines.
    pub processes: Vec<i32>,
    /// Sockets that are listened on by nobody who may be looked at: `hidepid` hides processes, but not these.
    pub sockets: Vec<ServerSocket>,
}

impl Hidden {
    /// The ports that are known of them.
    pub fn ports(&self) -> BTreeSet<u16> {
        self.sockets.iter().map(|socket| socket.port).collect()
    }

    /// How many servers there are at least.
    pub fn count(&self) -> usize {
        self.processes.len().max(self.ports().len())
    }
}

/// Finds the instances among all processes in `table`.
///
/// A postmaster is a process whose working directory holds a postmaster.pid with its own process id: the server changes
/// into its data directory at start (`ChangeToDataDir`) and writes that file before all else (`CreateDataDirLockFile`).
pub fn find(root: &HostRoot, table: &[Process]) -> Result<Found> {
    let mut found = Found { hidden: hidden(root, table), ..Found::default() };
    for process in table.iter().filter(|process| may_be_postmaster(root, table, process.pid)) {
        let Some(directory) = process_file::working_directory(root, process.pid) else { continue };
        let Some(text) = process_file::read(root, process.pid, &directory.join("postmaster.pid")) else { continue };
        let mut lines = text.lines().map(str::trim);
        if lines.next().and_then(|line| line.parse().ok()) != own_pid(root, process.pid) {
            continue;
        }
        // Data directory, start, port (LOCK_FILE_LINE_* in the server's utils/pidfile.h).
        let port = lines.nth(2).and_then(|line| line.parse().ok());
        let (places, places_unknown) = places(root, table, process, &directory);
        found.instances.push(Instance {
            postmaster: process.clone(),
            port,
            version: process_file::read(root, process.pid, &directory.join("PG_VERSION"))
                .map(|text| text.trim().to_string()),
            places,
            places_unknown,
            data_directory: directory,
        });
    }
    found.instances.sort_by(|a, b| a.data_directory.cmp(&b.data_directory));
    Ok(found)
}

/// Told by /proc alone: the working directory of any other process may be on a file system that hangs. A server whose program has
/// another name is told by its children, which run the same one.
fn may_be_postmaster(root: &HostRoot, table: &[Process], pid: i32) -> bool {
    let Some(program) = process::executable(root, pid) else { return true };
    let mut children = table.iter().filter(|process| process.parent == pid);
    postmaster::is_server(&program)
        || children.any(|child| process::executable(root, child.pid).as_ref() == Some(&program))
}

/// What servers there are that may not be looked at by this user.
pub fn hidden(root: &HostRoot, table: &[Process]) -> Hidden {
    let processes = table.iter().filter(|process| {
        process_file::working_directory(root, process.pid).is_none() && looks_like_server(root, table, process.pid)
    });
    Hidden { processes: processes.map(|process| process.pid).collect(), sockets: hidden_sockets(root) }
}

/// A server may listen in more directories than its postmaster.pid tells, and what listens may be a pooler, so what counts
/// is whether anybody who may be looked at has the socket open.
fn hidden_sockets(root: &HostRoot) -> Vec<ServerSocket> {
    let Ok(mut sockets) = unix_socket::listening(root) else { return Vec::new() };
    let mut names = root.list("proc").unwrap_or_default().into_iter();
    while !sockets.is_empty()
        && let Some(name) = names.next()
    {
        let Ok(pid) = name.parse() else { continue };
        for inode in process_file::sockets(root, pid) {
            sockets.remove(&inode);
        }
    }
    if !sockets.is_empty() {
        // Without those whose server has ended meanwhile.
        let now = unix_socket::listening(root).unwrap_or_default();
        sockets.retain(|inode, _| now.contains_key(inode));
    }
    let mut sockets: Vec<ServerSocket> = sockets.into_values().collect();
    sockets.sort();
    sockets
}

fn places(root: &HostRoot, table: &[Process], postmaster: &Process, data: &Path) -> (Vec<Place>, Vec<Unknown>) {
    let pid = postmaster.pid;
    let mut paths = vec![(Role::Data, data.to_path_buf())];
    let wal = data.join("pg_wal");
    paths.push((Role::Wal, process_file::resolve(root, pid, &wal).unwrap_or(wal)));
    let links = data.join("pg_tblspc");
    let mut tablespaces: Vec<PathBuf> = process_file::names(root, pid, &links)
        .into_iter()
        .filter_map(|name| process_file::resolve(root, pid, &links.join(name)))
        .collect();
    tablespaces.sort();
    paths.extend(tablespaces.into_iter().map(|path| (Role::Tablespace, path)));
    paths.extend(log_files(root, table, postmaster).into_iter().map(|path| (Role::Log, path)));

    let (mounts, error) = match mounts::of_process(root, pid) {
        Ok(mounts) => (mounts, None),
        Err(error) => (Vec::new(), Some(error)),
    };
    let mut unknown = Vec::new();
    let mut outside = None;
    let mut places = Vec::new();
    for (role, path) in paths {
        let seen = mounts::containing(&mounts, &path).cloned();
        let found = seen.or_else(|| {
            let Outside { mounts, chroot } = outside.get_or_insert_with(|| Outside::of(root, table, pid)).as_ref()?;
            let path = chroot.join(path.strip_prefix("/").unwrap_or(&path));
            mounts::containing(mounts, &path).cloned()
        });
        let Some(mount) = found else {
            unknown.push(Unknown::new(match &error {
                Some(error) => format!("what {} is on: {error}", path.display()),
                None => format!("what {} is on: no mount that can be seen", path.display()),
            }));
            continue;
        };
        let below = file_system::below(root, mount, &path);
        places.push(Place { role, path, mount: below.mount, device: below.device, journal: below.journal });
    }
    (places, unknown)
}

/// What a chroot hides of the mounts: the kernel shows a process only those below its root directory
/// (`seq_path_root`), so not the one that this directory itself lies on, unless it is a mount point.
struct Outside {
    mounts: Vec<Mount>,
    /// The root directory of the process, by the same names.
    chroot: PathBuf,
}

impl Outside {
    /// As seen by this process or any that shares the mount namespace and is in no chroot.
    fn of(root: &HostRoot, table: &[Process], pid: i32) -> Option<Self> {
        let namespace = |pid: &str| std::fs::read_link(root.path(format!("proc/{pid}/ns/mnt"))).ok();
        let chroot = process_file::chroot(root, pid)?;
        let its = namespace(&pid.to_string())?;
        if namespace("self").as_ref() == Some(&its) {
            let mounts = mounts::read(root).ok()?;
            return Some(Self { mounts, chroot });
        }
        let other = table.iter().map(|process| process.pid).find(|other| {
            namespace(&other.to_string()).as_ref() == Some(&its) && process_file::chroot(root, *other).is_none()
        })?;
        let mounts = mounts::of_process(root, other).ok()?;
        Some(Self { mounts, chroot })
    }
}

/// What the logging collector has open, or where the postmaster's own standard error goes. Settings don't tell: the file
/// is named by log_filename and the time, and without the collector by who started the server.
fn log_files(root: &HostRoot, table: &[Process], postmaster: &Process) -> Vec<PathBuf> {
    let collector = table.iter().find(|process| {
        process.parent == postmaster.pid
            && process::command_line(root, process.pid)
                .is_ok_and(|line| line.starts_with("postgres: ") && line.trim_end().ends_with("logger"))
    });
    let mut files: Vec<PathBuf> = match collector {
        Some(collector) => process_file::open_for_writing(root, collector.pid),
        None => process_file::open_for_writing(root, postmaster.pid).into_iter().filter(|(fd, _)| *fd == 2).collect(),
    }
    .into_iter()
    .map(|(_, file)| file)
    .collect();
    files.sort();
    files.dedup();
    files
}

/// The process id that a process has in its own namespace, as it writes it to files; `None` if that can't be told.
pub fn own_pid(root: &HostRoot, pid: i32) -> Option<i32> {
    let Ok(status) = root.read(format!("proc/{pid}/status")) else { return Some(pid) };
    match status.lines().find_map(|line| line.strip_prefix("NSpid:")) {
        Some(pids) => pids.split_whitespace().last()?.parse().ok(),
        None => Some(pid),
    }
}

/// Whether a session's backend, with that process id in the server's own namespace, is a child of `postmaster`. A server
/// elsewhere may have the same port, data directory and system identifier, as a standby has.
pub fn serves(root: &HostRoot, table: &[Process], postmaster: i32, backend: i32) -> bool {
    table.iter().any(|process| process.parent == postmaster && own_pid(root, process.pid) == Some(backend))
}

/// The only one of `servers` that [`serves`] a session. Each container has process ids of its own: of two servers that have
/// this one nobody knows whose the session is.
pub fn serving<T>(
    root: &HostRoot,
    table: &[Process],
    servers: impl IntoIterator<Item = T>,
    postmaster: impl Fn(&T) -> i32,
    backend: i32,
) -> Option<T> {
    let mut serving = servers.into_iter().filter(|server| serves(root, table, postmaster(server), backend));
    let first = serving.next()?;
    serving.all(|other| postmaster(&other) == postmaster(&first)).then_some(first)
}

/// By its name and `-D`, or by the titles of its children: a server may be told its data directory by PGDATA.
fn looks_like_server(root: &HostRoot, table: &[Process], pid: i32) -> bool {
    let line_of = |pid| process::command_line(root, pid).unwrap_or_default();
    let line = line_of(pid);
    let mut words = line.split(' ');
    let program = words.next().unwrap_or_default();
    let name = Path::new(program).file_name().unwrap_or_default();
    let mut children = table.iter().filter(|process| process.parent == pid);
    (name == "postgres" || name == "postmaster")
        && (words.any(|word| word.starts_with("-D"))
            || children.any(|child| line_of(child.pid).starts_with("postgres: ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeHost;
    use std::fs;

    /// A host with a server at pid 70 (1 in its container), its collector, a backend, and a program in a copy of its
    /// data directory.
    fn host() -> FakeHost {
        let root = FakeHost::default();
        let mountinfo = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 7:0 / /srv rw - tmpfs x rw\n\
                         3 1 7:1 / /wal rw - tmpfs x rw\n";
        for (pid, parent, title, cwd) in [
            (70, 1, "/usr/bin/postgres\0-D\0/srv/pg", "/srv/pg"),
            (71, 70, "postgres: 15/main: logger \0", "/srv/pg"),
            (72, 70, "postgres: checkpointer \0", "/srv/pg"),
            (90, 1, "postgres\0-D\0/srv/copy", "/srv/copy"),
        ] {
            root.put(
                format!("proc/{pid}/stat"),
                &format!("{pid} (postgres) S {parent} 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 0\n"),
            );
            root.put(format!("proc/{pid}/cmdline"), title);
            root.put(format!("proc/{pid}/mountinfo"), mountinfo);
            root.link(format!("proc/{pid}/cwd"), cwd);
            root.link(format!("proc/{pid}/root"), "../..");
        }
        root.put("proc/70/status", "Name:\tpostgres\nNSpid:\t70\t1\n");
        for place in ["srv/pg", "srv/copy"] {
            root.put(format!("{place}/postmaster.pid"), "1\n/srv/pg\n1700000000\n5433\n/tmp\n*\n");
        }
        root.put("srv/pg/PG_VERSION", "15\n");
        root.put("wal/one/x", "");
        root.put("disk2/ts/x", "");
        root.link("srv/pg/pg_wal", "/wal/one");
        root.link("srv/pg/pg_tblspc/16400", "/disk2/ts");
        root.put("var/log/pg.log", "");
        root.put("proc/71/fdinfo/5", "flags:\t0102001\n");
        root.link("proc/71/fd/5", "/var/log/pg.log");
        root
    }

    #[test]
    fn an_instance_is_found_by_its_pid_file_and_not_by_name() {
        let root = host();
        let found = find(&root, &process::table(&root).unwrap()).unwrap();
        assert_eq!(found.hidden, Hidden::default());
        let [instance] = &found.instances[..] else { panic!("{:?}", found.instances) };
        assert_eq!(instance.postmaster.pid, 70);
        assert_eq!(instance.port, Some(5433));
        assert_eq!(instance.version.as_deref(), Some("15"));
        let places: Vec<(&str, &str, &str)> = instance
            .places
            .iter()
            .map(|place| (place.role.name(), place.path.to_str().unwrap(), place.mount.target.to_str().unwrap()))
            .collect();
        assert_eq!(
            places,
            [
                ("data", "/srv/pg", "/srv"),
                ("wal", "/wal/one", "/wal"),
                ("tablespace", "/disk2/ts", "/"),
                ("log", "/var/log/pg.log", "/"),
            ]
        );
    }

    #[test]
    fn of_two_containers_with_one_process_id_neither_serves() {
        let root = FakeHost::default();
        let put = |pid: i32, parent: i32, own: i32| {
            let stat = format!("{pid} (postgres) S {parent} 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 0\n");
            root.put(format!("proc/{pid}/stat"), &stat);
            root.put(format!("proc/{pid}/status"), &format!("Name:\tpostgres\nNSpid:\t{pid}\t{own}\n"));
        };
        let of = |servers: &[i32]| {
            let table = process::table(&root).unwrap();
            serving(&root, &table, servers.iter().copied(), |pid| *pid, 30)
        };
        for (pid, parent, own) in [(70, 1, 1), (72, 70, 30), (80, 1, 1), (82, 80, 31)] {
            put(pid, parent, own);
        }
        assert_eq!((of(&[70, 80]), of(&[80, 70]), of(&[80])), (Some(70), Some(70), None));
        put(82, 80, 30);
        assert_eq!((of(&[70, 80]), of(&[80, 70])), (None, None));
        // One that is found in two places is one.
        assert_eq!(of(&[70, 70]), Some(70));
    }

    #[test]
    fn where_another_program_runs_is_not_looked_at() {
        let root = host();
        let table = process::table(&root).unwrap();
        let finds = |programs: [&str; 2]| {
            for (pid, program) in [70, 72].into_iter().zip(programs) {
                let _ = fs::remove_file(root.path(format!("proc/{pid}/exe")));
                root.link(format!("proc/{pid}/exe"), program);
            }
            find(&root, &table).unwrap().instances.len() == 1
        };
        assert!(finds(["/usr/bin/postgres (deleted)", "/usr/bin/postgres"]));
        assert!(finds(["/opt/shop-db", "/opt/shop-db"]), "it has a child of its own");
        // Although its working directory has all of a server.
        assert!(!finds(["/bin/bash", "/bin/sleep"]));
    }

    #[test]
    fn a_server_that_may_not_be_looked_at_is_counted() {
        let root = host();
        fs::remove_file(root.path("proc/70/cwd")).unwrap();
        let found = find(&root, &process::table(&root).unwrap()).unwrap();
        assert_eq!(found.instances, []);
        assert_eq!((found.hidden.processes, found.hidden.sockets), (vec![70], vec![]));
        // Told its data directory by PGDATA, as in the official image.
        root.put("proc/70/cmdline", "postgres");
        let table = process::table(&root).unwrap();
        assert_eq!(hidden(&root, &table).processes, [70]);
    }

    #[test]
    fn a_socket_that_nobody_to_be_seen_listens_on_is_of_a_hidden_server() {
        let root = host();
        let line =
            |inode: u32, path: &str| format!("0000000000000000: 00000002 00000000 00010000 0001 01 {inode} {path}\n");
        let text = line(7, "/run/postgresql/.s.PGSQL.5432") + &line(8, "/tmp/.s.PGSQL.5433");
        root.put("proc/net/unix", &text);
        root.link("proc/70/fd/3", "socket:[8]");
        let hidden = hidden(&root, &process::table(&root).unwrap());
        assert_eq!(hidden.ports(), BTreeSet::from([5432]));
        assert_eq!((hidden.processes.len(), hidden.count()), (0, 1));
    }
}

//! Running PostgreSQL servers: which process, which data directory, which port.

use std::fs;
use std::path::{Path, PathBuf};

use crate::process::Process;
use crate::{Error, HostRoot, Result, instance, process, process_file};

/// A running server, found by its first process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Postmaster {
    /// The process.
    pub process: Process,
    /// Data directory as the server itself sees it, which in a container is another path than the host's.
    pub data_directory: PathBuf,
    /// Port number of its sockets.
    pub port: Option<u16>,
    /// First directory of its Unix sockets, as the server sees it; none if it has no Unix socket.
    pub socket_directory: Option<PathBuf>,
    /// What PG_VERSION holds, e.g. `15`.
    pub major_version: String,
}

/// What a process is, if not a postmaster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Candidate {
    /// A postmaster.
    Postmaster(Postmaster),
    /// A child of the postmaster with that process id.
    ChildOf(i32),
    /// Nothing of PostgreSQL's.
    Other,
    /// The postgres program at other work (initdb, --single, -C), or it is just starting or ending.
    NotReady,
}

/// Says what process `pid` is.
///
/// Errors are those of reading /proc/PID: [`Error::is_not_found`] if there is no such process, permission denied for
/// another user's.
pub fn examine(root: &HostRoot, pid: i32) -> Result<Candidate> {
    let process = Process::read(root, pid)?;
    if process.is_zombie() {
        return Err(Error::Read {
            path: root.path(format!("proc/{pid}/exe")),
            source: std::io::Error::from(std::io::ErrorKind::NotFound),
        });
    }
    if !is_postgres(root, pid)? {
        return Ok(Candidate::Other);
    }
    if is_postgres(root, process.parent).unwrap_or(false)
        && matches!(examine(root, process.parent)?, Candidate::Postmaster(_) | Candidate::NotReady)
    {
        return Ok(Candidate::ChildOf(process.parent));
    }
    // Through /proc/PID/cwd the kernel reaches the data directory in whatever mount namespace it is.
    let Ok(lock_file) = process_file::read_in_working_directory(root, pid, "postmaster.pid") else {
        return Ok(Candidate::NotReady);
    };
    let lines: Vec<&str> = lock_file.lines().map(str::trim).collect();
    // Lines as src/include/utils/pidfile.h numbers them. The pid there is of the server's own pid namespace; that of a server
    // without clients (initdb, --single) is negative (`CreateLockFile`), and another's is that of one that has crashed.
    if lines.first().and_then(|line| line.parse().ok()) != instance::own_pid(root, pid) {
        return Ok(Candidate::NotReady);
    }
    let major_version = process_file::read_in_working_directory(root, pid, "PG_VERSION")?;
    let Some(data_directory) = lines.get(1).filter(|line| !line.is_empty()) else { return Ok(Candidate::NotReady) };
    Ok(Candidate::Postmaster(Postmaster {
        process,
        data_directory: PathBuf::from(data_directory),
        port: lines.get(3).and_then(|line| line.parse().ok()),
        socket_directory: lines.get(4).filter(|line| !line.is_empty()).map(PathBuf::from),
        major_version: major_version.trim().to_string(),
    }))
}

/// All servers that run on this host and may be looked at, containers' included.
pub fn running(root: &HostRoot) -> Result<Vec<Postmaster>> {
    let mut found = Vec::new();
    for process in process::table(root)? {
        if let Ok(Candidate::Postmaster(postmaster)) = examine(root, process.pid) {
            found.push(postmaster);
        }
    }
    Ok(found)
}

/// Whether the program of a process, as /proc shows it, has the server's name.
pub(crate) fn is_server(program: &Path) -> bool {
    let program = program.to_string_lossy();
    // As it is shown after an upgrade has replaced the file.
    let program = program.strip_suffix(" (deleted)").unwrap_or(&program);
    matches!(program.rsplit('/').next(), Some("postgres" | "postmaster"))
}

fn is_postgres(root: &HostRoot, pid: i32) -> Result<bool> {
    let path = root.path(format!("proc/{pid}/exe"));
    match fs::read_link(&path) {
        Ok(program) => Ok(is_server(&program)),
        // A kernel thread has no program.
        Err(source) if source.kind() == std::io::ErrorKind::NotFound => Process::read(root, pid).map(|_| false),
        Err(source) => Err(Error::Read { path, source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeHost;

    fn add(root: &FakeHost, pid: i32, parent: i32, program: &str, cwd: Option<&Path>) {
        let zeros = "0 ".repeat(17);
        root.put(format!("proc/{pid}/stat"), &format!("{pid} (postgres) S {parent} {zeros}77 0\n"));
        root.link(format!("proc/{pid}/exe"), program);
        if let Some(cwd) = cwd {
            root.link(format!("proc/{pid}/cwd"), cwd);
        }
    }

    fn host() -> FakeHost {
        let pid_file = "1\n/var/lib/data\n1700000000\n5433\n/run/postgresql\n*\n 5 6\nready   \n";
        let root =
            FakeHost::with(&[("container/data/PG_VERSION", "15\n"), ("container/data/postmaster.pid", pid_file)]);
        let data = root.path("container/data");
        add(&root, 1, 0, "/sbin/init", None);
        add(&root, 10, 1, "/usr/bin/postgres (deleted)", Some(&data));
        root.put("proc/10/status", "Name:\tpostgres\nNSpid:\t10\t1\n");
        add(&root, 11, 10, "/usr/bin/postgres", Some(&data));
        add(&root, 20, 1, "/usr/bin/postgres", Some(Path::new("/nowhere")));
        root
    }

    #[test]
    fn tells_postmasters_from_their_children_and_from_others() {
        let root = host();
        let Candidate::Postmaster(postmaster) = examine(&root, 10).unwrap() else { panic!("10 is a postmaster") };
        assert_eq!(postmaster.port, Some(5433));
        assert_eq!(postmaster.data_directory, Path::new("/var/lib/data"));
        assert_eq!(postmaster.major_version, "15");
        assert_eq!(examine(&root, 11).unwrap(), Candidate::ChildOf(10));
        assert_eq!(examine(&root, 1).unwrap(), Candidate::Other);
        assert_eq!(examine(&root, 20).unwrap(), Candidate::NotReady);
        assert!(examine(&root, 99).unwrap_err().is_not_found());
    }

    #[test]
    fn a_lock_file_that_is_not_of_its_own_makes_no_server() {
        let root = host();
        let data = root.path("alone");
        root.put("alone/PG_VERSION", "15\n");
        add(&root, 30, 1, "/usr/bin/postgres", Some(&data));
        let examined = |first: &str| {
            root.put("alone/postmaster.pid", &format!("{first}\n/data\n1\n5432\n\n"));
            examine(&root, 30).unwrap()
        };
        assert!(matches!(examined("30"), Candidate::Postmaster(_)));
        // As with --single, and after a crash.
        assert_eq!(examined("-30"), Candidate::NotReady);
        assert_eq!(examined("29"), Candidate::NotReady);
    }

    #[test]
    fn lists_servers_only() {
        let root = host();
        let pids: Vec<i32> = running(&root).unwrap().iter().map(|p| p.process.pid).collect();
        assert_eq!(pids, [10]);
    }
}

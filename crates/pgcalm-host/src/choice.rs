//! Which server of this host a user means: what `--instance` takes, for every command that has it.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::instance::{Hidden, Instance};
use crate::postmaster::{Candidate, Postmaster};
use crate::{Failure, HostRoot, postmaster};

/// By what a server that runs here is chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Process id of its postmaster.
    pub pid: i32,
    /// Its port, if it has one.
    pub port: Option<u16>,
    /// As the server sees it.
    pub data_directory: PathBuf,
}

impl From<&Instance> for Known {
    fn from(instance: &Instance) -> Self {
        Self { pid: instance.postmaster.pid, port: instance.port, data_directory: instance.data_directory.clone() }
    }
}

impl From<&Postmaster> for Known {
    fn from(server: &Postmaster) -> Self {
        Self { pid: server.process.pid, port: server.port, data_directory: server.data_directory.clone() }
    }
}

/// The server that `name` means, as an index into `known`: its data directory, its port, or the process id of its
/// postmaster. Without a name, the only one. `hidden` are those besides that this user may not look at.
pub fn choose(root: &HostRoot, name: Option<&str>, known: &[Known], hidden: &Hidden) -> Result<usize, Failure> {
    let matching: Vec<usize> = known
        .iter()
        .enumerate()
        .filter(|(_, server)| name.is_none_or(|name| is_named(root, server, name)))
        .map(|(index, _)| index)
        .collect();
    match (&matching[..], name) {
        ([index], _) => Ok(*index),
        ([], Some(name)) => Err(absent(root, name, known, hidden)),
        ([], None) if hidden.count() > 0 => Err(Failure::Host(
            "the servers of this host are other users': run it as root on the host, or as one of them".to_string(),
        )),
        ([], None) => Err(Failure::Unreachable(list(known))),
        (_, Some(name)) => Err(Failure::Usage(format!(
            "--instance {name}: more than one server; give the process id: {}",
            list(known)
        ))),
        (_, None) => Err(Failure::Usage(format!("more than one server; choose with --instance: {}", list(known)))),
    }
}

fn is_named(root: &HostRoot, server: &Known, name: &str) -> bool {
    if let Ok(number) = name.parse::<i32>() {
        return server.pid == number || server.port.map(i32::from) == Some(number);
    }
    let given = Path::new(name);
    let same_file = || {
        let ours = std::fs::metadata(given).ok()?;
        let theirs = std::fs::metadata(root.path(format!("proc/{}/cwd", server.pid))).ok()?;
        Some(ours.dev() == theirs.dev() && ours.ino() == theirs.ino())
    };
    // Components, so that a slash at the end doesn't matter.
    given.components().eq(server.data_directory.components()) || same_file().unwrap_or(false)
}

/// A number that is no server's is no server's, whatever else may have it for its process id.
fn absent(root: &HostRoot, name: &str, known: &[Known], hidden: &Hidden) -> Failure {
    let number = name.parse::<i32>().ok();
    let may_be_hidden = match number {
        None => hidden.count() > 0,
        Some(number) => {
            let ports = hidden.ports();
            hidden.processes.contains(&number)
                || ports.iter().any(|port| i32::from(*port) == number)
                // Of one of them port or process is not known.
                || ports.len() != hidden.processes.len()
        }
    };
    if may_be_hidden {
        return Failure::Host(format!(
            "--instance {name}: no such server among those that this user may look at: run it as root, with CAP_SYS_PTRACE"
        ));
    }
    let process = match number.map(|pid| postmaster::examine(root, pid)) {
        Some(Ok(Candidate::ChildOf(parent))) => {
            format!(" (that process is of the server with pid {parent})")
        }
        Some(Ok(Candidate::NotReady)) => " (that process is a postgres program, but no server that is up)".to_string(),
        _ => String::new(),
    };
    Failure::Unreachable(format!("--instance {name}: no such server{process}; {}", list(known)))
}

fn list(known: &[Known]) -> String {
    if known.is_empty() {
        return "no server was found on this host: start it, or run this on the host where it runs".to_string();
    }
    let servers: Vec<String> = known
        .iter()
        .map(|server| {
            let port = server.port.map_or("no port".to_string(), |port| format!("port {port}"));
            format!("{} ({port}, pid {})", server.data_directory.display(), server.pid)
        })
        .collect();
    format!("there is {}", servers.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unix_socket::ServerSocket;

    fn known() -> Vec<Known> {
        [(70, 5432, "/srv/a"), (80, 5433, "/srv/b"), (90, 5433, "/srv/c")]
            .map(|(pid, port, directory)| Known { pid, port: Some(port), data_directory: directory.into() })
            .to_vec()
    }

    fn refused(name: Option<&str>, known: &[Known], hidden: &Hidden) -> Failure {
        choose(&crate::fake::FakeHost::default(), name, known, hidden).unwrap_err()
    }

    #[test]
    fn a_server_has_three_names_and_the_only_one_needs_none() {
        let root = HostRoot::new("/nonexistent");
        let index = |name| choose(&root, name, &known(), &Hidden::default()).unwrap();
        assert_eq!(index(Some("5432")), 0);
        assert_eq!(index(Some("80")), 1);
        assert_eq!(index(Some("/srv/c/")), 2);
        assert_eq!(choose(&root, None, &known()[..1], &Hidden::default()).unwrap(), 0);
    }

    #[test]
    fn what_is_not_clear_is_told_apart_from_what_is_not_there() {
        let none = Hidden::default();
        let ports = refused(Some("5433"), &known(), &none);
        assert!(matches!(ports, Failure::Usage(_)), "{ports}");
        // Servers in containers may have the same data directory, too.
        assert!(ports.to_string().contains("give the process id"), "{ports}");
        let several = refused(None, &known(), &none).to_string();
        assert!(several.contains("--instance: there is /srv/a (port 5432, pid 70), "));
        let empty = refused(None, &[], &none);
        assert!(matches!(empty, Failure::Unreachable(_)), "{empty}");
        let absent = refused(Some("1"), &known(), &none);
        assert!(matches!(absent, Failure::Unreachable(_)), "{absent}");
        let two = Hidden { processes: vec![60, 61], sockets: Vec::new() };
        for name in [None, Some("1")] {
            let hidden = refused(name, &[], &two);
            assert!(matches!(hidden, Failure::Host(_)), "{hidden}");
            assert!(hidden.to_string().contains("root"), "{hidden}");
        }
    }

    #[test]
    fn a_number_that_is_no_servers_is_absent_whatever_process_has_it() {
        let hidden =
            Hidden { processes: vec![60], sockets: vec![ServerSocket { directory: "/tmp".into(), port: 5440 }] };
        for name in ["60", "5440"] {
            let error = refused(Some(name), &known(), &hidden);
            assert!(matches!(error, Failure::Host(_)), "{error}");
        }
        // This host's first process, and this one.
        let root = HostRoot::default();
        for pid in [1, std::process::id()] {
            let error = choose(&root, Some(&pid.to_string()), &known(), &hidden).unwrap_err();
            assert!(matches!(error, Failure::Unreachable(_)), "{error}");
        }
    }
}

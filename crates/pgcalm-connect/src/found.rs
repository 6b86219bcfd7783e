//! Servers that were found on this host by their processes or their sockets.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::path::PathBuf;

use pgcalm_host::HostRoot;

use crate::parameters::Parameters;
use crate::peer::Owner;

/// Where such a server listens. It comes before what the environment says: PGHOST means another one.
#[derive(Debug, Clone)]
pub struct Found {
    /// `None`: it has no Unix socket but listens at localhost.
    directory: Option<PathBuf>,
    port: Option<u16>,
    owner: Option<Owner>,
}

impl Found {
    /// A server with a socket in `directory`.
    pub fn socket(directory: &Path, port: u16) -> Self {
        Self {
            directory: Some(directory.to_path_buf()),
            port: Some(port),
            owner: Owner::of_socket(directory, port),
        }
    }

    /// The server of postmaster `pid`, with a socket in `directory` as that process sees it, which may be in a container.
    pub fn process(root: &HostRoot, pid: i32, directory: Option<&Path>, port: Option<u16>) -> Self {
        // An abstract socket is in the network namespace, not in a directory.
        let directory = directory.filter(|directory| directory.is_absolute());
        let process = fs::metadata(root.path(format!("proc/{pid}"))).ok();
        Self {
            directory: directory.map(|directory| reachable(root, pid, directory)),
            port,
            owner: process.map(|process| Owner {
                uid: process.uid(),
                gid: process.gid(),
            }),
        }
    }

    /// Adds what parameters leave out of host and port. A directory that they name is another way to the same server.
    pub(crate) fn add_to(&self, parameters: &mut Parameters) {
        if let Some(port) = self.port {
            parameters.add_found("port", port.to_string());
        }
        if parameters.get("host").is_some() || parameters.get("hostaddr").is_some() {
            return;
        }
        let host = match &self.directory {
            Some(directory) => directory.display().to_string(),
            None => "localhost".to_string(),
        };
        parameters.add_found("host", host);
        // Neither may PGHOSTADDR lead elsewhere.
        parameters.add_found("hostaddr", String::new());
    }

    pub(crate) fn owner(&self) -> Option<Owner> {
        self.owner
    }
}

/// Where this process finds a directory of process `pid`.
fn reachable(root: &HostRoot, pid: i32, directory: &Path) -> PathBuf {
    let link =
        |process: &str, name: &str| fs::read_link(root.path(format!("proc/{process}/{name}"))).ok();
    let its = pid.to_string();
    let same = ["ns/mnt", "root"]
        .iter()
        .all(|name| link("self", name) == link(&its, name));
    if same {
        return directory.to_path_buf();
    }
    root.path(format!("proc/{pid}/root"))
        .join(directory.strip_prefix("/").unwrap_or(directory))
}

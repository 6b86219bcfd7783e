//! Whether a session is with the server that it is to be with, told by the kernel before the server is asked anything.
//!
//! Who runs a server chooses what its postmaster.pid says and what lies at the paths there: the way to another server
//! than his, whose superuser root may be.

use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::{fs, io};

use nix::sys::socket;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr};
use pgcalm_host::process::Process;
use pgcalm_host::{HostRoot, instance, postmaster, process, process_file, tcp_socket};
use tempfile::TempDir;

use crate::client::Client;
use crate::failure::Failure;
use crate::peer::Owner;

/// The postmaster that a session has to be with.
#[derive(Debug, Clone)]
pub(crate) struct Postmaster {
    root: HostRoot,
    pid: i32,
    /// With the pid it names the process for good.
    start_ticks: u64,
    /// Of its socket, as it names it.
    directory: Option<PathBuf>,
}

/// A server's socket: this very one, whatever lies at its path later.
#[derive(Debug)]
pub(crate) struct Socket {
    handle: OwnedFd,
    /// To whom it belongs.
    pub owner: Owner,
}

impl Postmaster {
    pub(crate) fn of(root: &HostRoot, server: &postmaster::Postmaster) -> Self {
        Self {
            root: root.clone(),
            pid: server.process.pid,
            start_ticks: server.process.start_ticks,
            // An abstract socket is in the network namespace, not in a directory.
            directory: server.socket_directory.clone().filter(|directory| directory.is_absolute()),
        }
    }

    /// Whom its process shows. `None` in a container, where the user has another name than in this process's user database.
    pub(crate) fn owner(&self) -> Option<Owner> {
        let stat = |path: String| rustix::fs::stat(self.root.path(path)).ok();
        let file_system = |process: &str| stat(format!("proc/{process}/root")).map(|root| (root.st_dev, root.st_ino));
        let its = self.pid.to_string();
        // A mount namespace alone is no container: a service's own /tmp brings one.
        if file_system(&its).is_some_and(|root| file_system("self").is_some_and(|own| own != root)) {
            return None;
        }
        Some(Owner::of(&stat(format!("proc/{its}"))?))
    }

    /// The directory of its socket, as this process finds it: for messages and for password files.
    pub(crate) fn directory(&self) -> Option<PathBuf> {
        let directory = self.directory.as_ref()?;
        let link = |process: &str, name: &str| fs::read_link(self.root.path(format!("proc/{process}/{name}"))).ok();
        let its = self.pid.to_string();
        let same = ["ns/mnt", "root"].iter().all(|name| link("self", name) == link(&its, name));
        if same {
            return Some(directory.clone());
        }
        let inside = directory.strip_prefix("/").unwrap_or(directory);
        let root = self.root.path(format!("proc/{its}/root"));
        Some(root.join(inside))
    }

    /// Its socket. Links on the way are followed beneath its root directory; the socket itself is none.
    pub(crate) fn socket(&self, port: u16) -> Result<Socket, Failure> {
        let directory = self.directory.as_deref().unwrap_or(Path::new("/"));
        let path = directory.join(format!(".s.PGSQL.{port}"));
        let handle = process_file::find_no_link(&self.root, self.pid, &path).map_err(Failure::Reach)?;
        let found = rustix::fs::fstat(&handle).map_err(|error| Failure::Reach(error.into()))?;
        Ok(Socket { handle, owner: Owner::of(&found) })
    }

    /// Whether it is the postmaster that listens on a socket: the kernel has noted at listen(2) who that is.
    pub(crate) fn prove_socket(&self, socket: &Socket) -> Result<(), Failure> {
        let peer = listener(&process_file::handle(&socket.handle)).map_err(Failure::Reach)?;
        match peer == self.pid {
            true => self.prove_alive(),
            false => Err(self.unproven(&format!("its socket is that of process {peer}"))),
        }
    }

    /// Whether it is the postmaster, and nobody else, who listens at an address of this thread's network.
    pub(crate) fn prove_port(&self, address: IpAddr, port: u16) -> Result<(), Failure> {
        let listening =
            tcp_socket::listening(&self.root, address, port).map_err(|error| self.unproven(&error.to_string()))?;
        let own = process_file::sockets(&self.root, self.pid);
        match !listening.is_empty() && listening.is_subset(&own) {
            true => self.prove_alive(),
            false => Err(self.unproven(&format!("it is not what listens at {address} port {port} here"))),
        }
    }

    /// Whether a session at a place that the user has named, to which a pooler or a forwarded port may lead, is served by a
    /// child of the postmaster.
    pub(crate) fn prove_backend(&self, client: &mut Client) -> Result<(), Failure> {
        let row = client.query_one("SELECT pg_catalog.pg_backend_pid()", &[]).map_err(Failure::Session)?;
        let table = process::table(&self.root).unwrap_or_default();
        match instance::serves(&self.root, &table, self.pid, row.get(0)) {
            true => self.prove_alive(),
            false => Err(self.unproven("another server answers there")),
        }
    }

    fn prove_alive(&self) -> Result<(), Failure> {
        match Process::read(&self.root, self.pid) {
            Ok(process) if process.start_ticks == self.start_ticks => Ok(()),
            _ => Err(self.unproven("it has ended")),
        }
    }

    fn unproven(&self, why: &str) -> Failure {
        Failure::Unfit(format!("this is not the server with pid {}: {why}; nothing was asked or changed", self.pid))
    }
}

/// Process id of who listens on a Unix socket, as the kernel has noted at listen(2); 0 if it is not to be seen from here. Nothing is
/// said there. Of a server that takes nobody in this fails, and does not wait.
pub fn listener(path: &Path) -> io::Result<i32> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let stream = socket::socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    socket::connect(stream.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(socket::getsockopt(&stream, PeerCredentials)?.pid())
}

impl Socket {
    /// The file that it is.
    pub(crate) fn handle(&self) -> &OwnedFd {
        &self.handle
    }

    /// A directory in which the socket has the name that a server's has: the library takes a path only, and what lies at
    /// the server's may have been replaced since.
    pub(crate) fn directory(&self, port: u16) -> io::Result<TempDir> {
        let directory = tempfile::Builder::new().prefix("pgcalm-").tempdir()?;
        // The connecting thread may be another user.
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o711))?;
        symlink(process_file::handle(&self.handle), directory.path().join(format!(".s.PGSQL.{port}")))?;
        Ok(directory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_containers_user_is_not_looked_up_here() {
        let directory = tempfile::tempdir().unwrap();
        let root = HostRoot::new(directory.path());
        for (process, link) in [("self", "/"), ("7", "/"), ("8", "/proc"), ("9", "/nowhere")] {
            fs::create_dir_all(root.path(format!("proc/{process}"))).unwrap();
            symlink(link, root.path(format!("proc/{process}/root"))).unwrap();
        }
        let owner = |pid| Postmaster { root: root.clone(), pid, start_ticks: 0, directory: None }.owner();
        let own = Owner::of(&rustix::fs::stat(root.path("proc/7")).unwrap());
        // A root directory that may not be looked at is taken for this one.
        assert_eq!([7, 8, 9, 10].map(owner), [Some(own), None, Some(own), None]);
    }
}

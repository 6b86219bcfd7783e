//! Servers that were found on this host by their processes or their sockets.

use std::path::{Path, PathBuf};

use pgcalm_host::{HostRoot, postmaster};

use crate::parameters::Parameters;
use crate::peer::Owner;
use crate::proof::Postmaster;

/// Where such a server listens. It comes before what the environment says: PGHOST means another one.
#[derive(Debug, Clone)]
pub struct Found {
    /// `None`: it has no Unix socket but listens at localhost.
    directory: Option<PathBuf>,
    port: Option<u16>,
    owner: Option<Owner>,
    /// `None`: only its socket is known.
    postmaster: Option<Postmaster>,
    /// Whether it is one of whatever is there, which nobody has chosen.
    is_anybodys: bool,
}

impl Found {
    /// A server with a socket in `directory`.
    pub fn socket(directory: &Path, port: u16) -> Self {
        Self {
            directory: Some(directory.to_path_buf()),
            port: Some(port),
            owner: Owner::of_socket(directory, port),
            postmaster: None,
            is_anybodys: false,
        }
    }

    /// The server of a postmaster, which may be in a container. Sessions that turn out to be with another one are refused.
    pub fn process(root: &HostRoot, server: &postmaster::Postmaster) -> Self {
        let postmaster = Postmaster::of(root, server);
        Self {
            directory: postmaster.directory(),
            port: server.port,
            owner: postmaster.owner(),
            postmaster: Some(postmaster),
            is_anybodys: false,
        }
    }

    /// As one of whatever is there: any user can run a server that asks for passwords. It gets one only from a line of a password file
    /// that names the directory of its socket.
    pub fn of_anybody(&self) -> Self {
        Self { is_anybodys: true, ..self.clone() }
    }

    pub(crate) fn is_anybodys(&self) -> bool {
        self.is_anybodys
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

    pub(crate) fn postmaster(&self) -> Option<&Postmaster> {
        self.postmaster.as_ref()
    }
}

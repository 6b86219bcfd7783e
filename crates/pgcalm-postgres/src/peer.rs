//! As whom the operating system shows this program to a server, for `peer` authentication.

use std::path::Path;

use rustix::fs::Stat;
use rustix::process::{Gid, Uid};

use crate::user::User;

/// An operating system user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner {
    pub uid: u32,
    pub gid: u32,
}

impl Owner {
    /// To whom a server's socket belongs.
    pub(crate) fn of_socket(directory: &Path, port: u16) -> Option<Self> {
        let socket = rustix::fs::stat(directory.join(format!(".s.PGSQL.{port}"))).ok()?;
        Some(Self::of(&socket))
    }

    /// To whom a file belongs.
    pub(crate) fn of(file: &Stat) -> Self {
        Self { uid: file.st_uid, gid: file.st_gid }
    }

    /// As the user database has it; `None` for root, too, who runs no server.
    pub(crate) fn name(self) -> Option<String> {
        if self.uid == 0 { None } else { User::of(self.uid).map(|user| user.name) }
    }

    /// Lets the server see this thread, which is root's, as a process of this user (`SO_PEERCRED` has the effective ids).
    /// Only the effective ids change, and, on Linux, of this thread only: other threads keep theirs, and no process of that
    /// user may signal or trace this one. The thread must connect and end.
    pub(crate) fn take_on(self) -> rustix::io::Result<()> {
        rustix::thread::set_thread_groups(&[])?;
        rustix::thread::set_thread_res_gid(None, Gid::from_raw(self.gid), None)?;
        rustix::thread::set_thread_res_uid(None, Uid::from_raw(self.uid), None)
    }
}

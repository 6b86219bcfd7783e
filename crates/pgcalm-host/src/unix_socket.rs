//! The Unix sockets on which PostgreSQL servers listen: /proc/net/unix, which any user may read.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::{HostRoot, Result};

/// What the name of a server's socket begins with; its port follows (`UNIXSOCK_PATH` in the server's libpq/pqcomm.h).
const PREFIX: &str = ".s.PGSQL.";

/// In the column of flags: it is listened on (`__SO_ACCEPTCON` in the kernel's linux/net.h).
const LISTENING: u32 = 1 << 16;

/// In the column of states: it has a client whom the server has not accepted yet (`SS_CONNECTING` in the kernel's linux/net.h, which
/// `unix_seq_show` of net/unix/af_unix.c shows for a socket that is connected and belongs to no open file).
const NOT_ACCEPTED: &str = "02";

/// A socket that a server listens on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerSocket {
    /// Directory that it is in, as the server named it.
    pub directory: PathBuf,
    /// Port of the server.
    pub port: u16,
}

/// All such sockets in the network namespace of this process, sorted. Abstract ones are left out.
pub fn of_servers(root: &HostRoot) -> Result<Vec<ServerSocket>> {
    let mut sockets: Vec<ServerSocket> = listening(root)?.into_values().collect();
    sockets.sort();
    sockets.dedup();
    Ok(sockets)
}

/// Likewise, by inode.
pub(crate) fn listening(root: &HostRoot) -> Result<BTreeMap<u64, ServerSocket>> {
    let text = root.read("proc/net/unix")?;
    Ok(text
        .lines()
        .filter_map(parse_line)
        .filter(|line| line.flags & LISTENING != 0)
        .map(|line| (line.inode, line.socket))
        .collect())
}

/// How many clients wait at each such socket to be accepted; those at which nobody waits are left out.
pub fn waiting_clients(root: &HostRoot) -> Result<BTreeMap<ServerSocket, usize>> {
    let text = root.read("proc/net/unix")?;
    let mut waiting = BTreeMap::new();
    for line in text.lines().filter_map(parse_line) {
        if line.state == NOT_ACCEPTED {
            *waiting.entry(line.socket).or_default() += 1;
        }
    }
    Ok(waiting)
}

/// What is read of a line.
struct Line<'a> {
    flags: u32,
    state: &'a str,
    inode: u64,
    socket: ServerSocket,
}

fn parse_line(line: &str) -> Option<Line<'_>> {
    // Num RefCount Protocol Flags Type St Inode Path, of which the last may hold spaces
    let mut rest = line;
    let mut columns = [""; 7];
    for column in &mut columns {
        (*column, rest) = rest.trim_start().split_once(' ')?;
    }
    let path = Path::new(rest);
    let port = path.file_name()?.to_str()?.strip_prefix(PREFIX)?;
    Some(Line {
        flags: u32::from_str_radix(columns[3], 16).ok()?,
        state: columns[5],
        inode: columns[6].parse().ok()?,
        socket: ServerSocket {
            directory: path.parent().filter(|parent| parent.is_absolute())?.into(),
            port: port.parse().ok()?,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeHost;

    use std::os::unix::net::{UnixListener, UnixStream};

    #[test]
    fn listening_sockets_of_servers_are_found_and_nothing_else() {
        let root = FakeHost::with(&[(
            "proc/net/unix",
            "Num       RefCount Protocol Flags    Type St Inode Path\n\
             0000000000000000: 00000002 00000000 00010000 0001 01 21374 /run/systemd/private\n\
             0000000000000000: 00000002 00000000 00010000 0001 01 21375 /a b/.s.PGSQL.5433\n\
             0000000000000000: 00000003 00000000 00000000 0001 03 21376 /tmp/.s.PGSQL.5434\n\
             0000000000000000: 00000002 00000000 00010000 0001 01 21377 @/x/.s.PGSQL.5435\n\
             0000000000000000: 00000002 00000000 00010000 0001 01    77 /tmp/.s.PGSQL.5432\n\
             0000000000000000: 00000003 00000000 00000000 0001 03 21378\n",
        )]);
        let found = of_servers(&root).unwrap();
        let socket = |directory: &str, port| ServerSocket { directory: directory.into(), port };
        assert_eq!(found, [socket("/a b", 5433), socket("/tmp", 5432)]);
    }

    #[test]
    fn a_client_waits_at_a_real_socket_until_it_is_accepted() {
        let dir = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join(".s.PGSQL.5439")).unwrap();
        let socket = ServerSocket { directory: dir.path().into(), port: 5439 };
        let waiting = || {
            let waiting = waiting_clients(&HostRoot::default()).unwrap();
            waiting.get(&socket).copied().unwrap_or_default()
        };
        assert_eq!(waiting(), 0);
        let path = dir.path().join(".s.PGSQL.5439");
        let _clients = [(); 2].map(|()| UnixStream::connect(&path).unwrap());
        assert_eq!(waiting(), 2);
        let _accepted = listener.accept().unwrap();
        assert_eq!(waiting(), 1);
    }
}

//! The Unix sockets on which PostgreSQL servers listen: /proc/net/unix, which any user may read.

use std::path::Path;
use std::path::PathBuf;

use crate::HostRoot;
use crate::Result;

/// What the name of a server's socket begins with; its port follows (`UNIXSOCK_PATH` in the server's libpq/pqcomm.h).
const PREFIX: &str = ".s.PGSQL.";

/// In the column of flags: it is listened on (`__SO_ACCEPTCON` in the kernel's linux/net.h).
const LISTENING: u32 = 1 << 16;

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
    let text = root.read("proc/net/unix")?;
    let mut sockets: Vec<ServerSocket> = text.lines().filter_map(parse_line).collect();
    sockets.sort();
    sockets.dedup();
    Ok(sockets)
}

fn parse_line(line: &str) -> Option<ServerSocket> {
    // Num RefCount Protocol Flags Type St Inode Path, of which the last may hold spaces
    let mut rest = line;
    let mut flags = 0;
    for column in 0..7 {
        let (word, tail) = rest.trim_start().split_once(' ')?;
        if column == 3 {
            flags = u32::from_str_radix(word, 16).ok()?;
        }
        rest = tail;
    }
    if flags & LISTENING == 0 {
        return None;
    }
    let path = Path::new(rest);
    let port = path.file_name()?.to_str()?.strip_prefix(PREFIX)?;
    Some(ServerSocket {
        directory: path.parent().filter(|parent| parent.is_absolute())?.into(),
        port: port.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listening_sockets_of_servers_are_found_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("proc/net")).unwrap();
        std::fs::write(
            dir.path().join("proc/net/unix"),
            "Num       RefCount Protocol Flags    Type St Inode Path\n\
             0000000000000000: 00000002 00000000 00010000 0001 01 21374 /run/systemd/private\n\
             0000000000000000: 00000002 00000000 00010000 0001 01 21375 /a b/.s.PGSQL.5433\n\
             0000000000000000: 00000003 00000000 00000000 0001 03 21376 /tmp/.s.PGSQL.5434\n\
             0000000000000000: 00000002 00000000 00010000 0001 01 21377 @/x/.s.PGSQL.5435\n\
             0000000000000000: 00000002 00000000 00010000 0001 01    77 /tmp/.s.PGSQL.5432\n\
             0000000000000000: 00000003 00000000 00000000 0001 03 21378\n",
        )
        .unwrap();
        let found = of_servers(&HostRoot::new(dir.path())).unwrap();
        let socket = |directory: &str, port| ServerSocket {
            directory: directory.into(),
            port,
        };
        assert_eq!(found, [socket("/a b", 5433), socket("/tmp", 5432)]);
    }
}

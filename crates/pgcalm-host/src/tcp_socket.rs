//! Who listens at a TCP port: /proc/thread-self/net/tcp and tcp6 (`get_tcp4_sock` and `get_tcp6_sock` of the kernel).

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::{HostRoot, Result};

/// In the column of states: `TCP_LISTEN`.
const LISTENING: &str = "0A";

/// The inodes of all sockets that could take a connection to `address` and `port` from the network namespace of this thread.
pub fn listening(root: &HostRoot, address: IpAddr, port: u16) -> Result<BTreeSet<u64>> {
    let mut inodes = BTreeSet::new();
    for file in ["proc/thread-self/net/tcp", "proc/thread-self/net/tcp6"] {
        let text = match root.read(file) {
            Ok(text) => text,
            // A kernel without IPv6.
            Err(error) if error.is_not_found() => continue,
            Err(error) => return Err(error),
        };
        inodes.extend(text.lines().filter_map(|line| {
            let columns: Vec<&str> = line.split_whitespace().collect();
            let (bound, its_port) = parse(columns.get(1)?)?;
            let takes = bound.is_unspecified() || bound.to_canonical() == address.to_canonical();
            (*columns.get(3)? == LISTENING && its_port == port && takes).then(|| columns.get(9)?.parse::<u64>().ok())?
        }));
    }
    Ok(inodes)
}

/// `0100007F:1538`: each four bytes of the address as a number of the machine.
fn parse(text: &str) -> Option<(IpAddr, u16)> {
    let (address, port) = text.split_once(':')?;
    let words: Option<Vec<[u8; 4]>> = (0..address.len() / 8)
        .map(|at| {
            let word = address.get(at * 8..at * 8 + 8)?;
            Some(u32::from_str_radix(word, 16).ok()?.to_ne_bytes())
        })
        .collect();
    let bytes = words?.concat();
    let address = match <[u8; 4]>::try_from(&bytes[..]) {
        Ok(bytes) => IpAddr::V4(Ipv4Addr::from(bytes)),
        Err(_) => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(&bytes[..]).ok()?)),
    };
    Some((address, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::net::TcpListener;

    use crate::process_file;

    #[test]
    fn a_listener_is_found_by_what_it_could_take_and_is_held_by_its_process() {
        let root = HostRoot::default();
        let own = process_file::sockets(&root, std::process::id() as i32);
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        for bound in [loopback, IpAddr::V4(Ipv4Addr::UNSPECIFIED)] {
            let listener = TcpListener::bind((bound, 0)).unwrap();
            let port = listener.local_addr().unwrap().port();
            let found = listening(&root, loopback, port).unwrap();
            assert_eq!(found.len(), 1, "{bound}");
            assert!(found.is_disjoint(&own));
            assert!(found.is_subset(&process_file::sockets(&root, std::process::id() as i32)));
            let other = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
            let takes_all = bound.is_unspecified();
            assert_eq!(!listening(&root, other, port).unwrap().is_empty(), takes_all);
        }
        assert_eq!(parse("00000000000000000000000001000000:1538"), Some((IpAddr::V6(Ipv6Addr::LOCALHOST), 5432)));
    }
}

//! TCP connections as the kernel accounts for them, by sock_diag(7). Needs no privilege.

use std::io;
use std::net::IpAddr;

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP};
use netlink_packet_sock_diag::inet::nlas::Nla;
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, InetResponse, SocketId, StateFlags};
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use netlink_sys::{Socket, SocketAddr};

use crate::reading::Tcp;

/// A connection, seen from this host's end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connected {
    /// Address at this end.
    pub local_address: IpAddr,
    /// Port at this end.
    pub local_port: u16,
    /// Address of the other end.
    pub address: IpAddr,
    /// Port of the other end.
    pub port: u16,
    /// Its counters.
    pub tcp: Tcp,
}

/// The established connections of this network namespace.
///
/// Empty where the kernel knows fewer fields than are asked for (before Linux 5.5).
pub fn established() -> io::Result<Vec<Connected>> {
    let mut connections = Vec::new();
    for (family, socket_id) in [(AF_INET, SocketId::new_v4()), (AF_INET6, SocketId::new_v6())] {
        dump(family, socket_id, &mut |response| {
            connections.extend(connected(&response));
        })?;
    }
    Ok(connections)
}

fn connected(response: &InetResponse) -> Option<Connected> {
    let info = response.nlas.iter().find_map(|nla| match nla {
        Nla::TcpInfo(info) => Some(info),
        _ => None,
    })?;
    let id = &response.header.socket_id;
    Some(Connected {
        local_address: id.source_address.to_canonical(),
        local_port: id.source_port,
        // An IPv4 client of a socket that is bound to both has an address such as ::ffff:10.0.0.1.
        address: id.destination_address.to_canonical(),
        port: id.destination_port,
        tcp: Tcp {
            acknowledged_bytes: info.bytes_acked,
            unacknowledged_bytes: response.header.send_queue.into(),
            busy_us: info.busy_time,
            receiver_limited_us: info.rwnd_limited,
            retransmits: info.total_retrans.into(),
            sent_packets: info.segs_out.into(),
            received_packets: info.segs_in.into(),
        },
    })
}

fn dump(family: u8, socket_id: SocketId, take: &mut dyn FnMut(InetResponse)) -> io::Result<()> {
    let mut socket = Socket::new(NETLINK_SOCK_DIAG)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    let mut request = NetlinkMessage::new(
        header,
        SockDiagMessage::InetRequest(InetRequest {
            family,
            protocol: IPPROTO_TCP,
            extensions: ExtensionFlags::INFO,
            states: StateFlags::ESTABLISHED,
            socket_id,
        })
        .into(),
    );
    request.finalize();
    let mut message = vec![0; request.buffer_len()];
    request.serialize(&mut message);
    socket.send(&message, 0)?;
    loop {
        let (answers, _) = socket.recv_from_full()?;
        let mut at = 0;
        while at < answers.len() {
            let answer = <NetlinkMessage<SockDiagMessage>>::deserialize(&answers[at..]).map_err(io::Error::other)?;
            match answer.payload {
                NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(response)) => {
                    take(*response);
                }
                NetlinkPayload::Error(error) => return Err(error.to_io()),
                NetlinkPayload::Done(_) => return Ok(()),
                _ => {}
            }
            // Messages are aligned to four bytes.
            at += (answer.header.length as usize).next_multiple_of(4).max(16);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_receiver_that_does_not_read_leaves_bytes_in_the_socket() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (receiver, _) = listener.accept().unwrap();
        sender.set_nonblocking(true).unwrap();
        // As much as both kernels take.
        let block = vec![0; 1 << 20];
        while sender.write(&block).is_ok() {}
        let local_port = sender.local_addr().unwrap().port();
        let port = receiver.local_addr().unwrap().port();
        let found = established()
            .unwrap()
            .into_iter()
            .find(|connection| connection.local_port == local_port && connection.port == port)
            .unwrap();
        assert!(found.address.is_loopback());
        assert!(found.tcp.unacknowledged_bytes > 0, "{found:?}");
        assert!(found.tcp.acknowledged_bytes > 0, "{found:?}");
        assert!(found.local_address.is_loopback());
        // At least a handshake and data one way, and its confirmations the other.
        assert!(found.tcp.sent_packets > 1, "{found:?}");
        assert!(found.tcp.received_packets > 1, "{found:?}");
    }
}

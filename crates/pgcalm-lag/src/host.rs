//! What the kernel of the primary's host knows of the server's processes and connections.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;

use pgcalm_host::{HostRoot, process};

use crate::interface::Addresses;
use crate::model::Missing;
use crate::reading::Reading;
use crate::tcp::Connected;
use crate::{interface, tcp};

/// The host that this program runs on, which may or may not be the primary's.
#[derive(Debug, Clone)]
pub struct Host {
    root: HostRoot,
}

impl Host {
    /// A host whose /proc lies under `root`. Connections are those of the network namespace that this process is in.
    pub fn new(root: HostRoot) -> Self {
        Self { root }
    }

    /// Adds to an answer of a server what is known here of its processes and connections. Process ids of another host or pid
    /// namespace mean others here, so a process has to bear the title that it should have.
    pub fn complete(&self, reading: &mut Reading) {
        reading.walwriter_disk_bytes = reading
            .walwriter_pid
            .filter(|pid| self.is_titled(*pid, &["walwriter"]))
            .and_then(|pid| self.io(pid, "write_bytes"));
        if reading.senders.iter().any(|s| s.client_port.is_some()) {
            self.add_connections(reading, tcp::established(), Addresses::read());
        }
        for sender in &mut reading.senders {
            // "postgres: walsender USER ADDRESS(PORT) streaming ...": init_ps_display in ps_status.c.
            let client = match sender.client_port {
                Some(port) => format!("({port})"),
                None => "[local]".to_string(),
            };
            if self.is_titled(sender.pid, &["walsender", &client]) {
                sender.disk_read_bytes = self.io(sender.pid, "read_bytes");
            }
        }
    }

    /// Adds the walsenders' connections and the interfaces that they go by.
    fn add_connections(
        &self,
        reading: &mut Reading,
        connections: io::Result<Vec<Connected>>,
        addresses: io::Result<Addresses>,
    ) {
        let missing = &mut reading.missing;
        let mut miss = |what: &str, error: &dyn std::fmt::Display| {
            missing.push(Missing {
                what: what.to_string(),
                reason: format!("{error}; where a service's RestrictAddressFamilies= leaves out AF_NETLINK, add it"),
            });
        };
        let connections = connections.unwrap_or_else(|error| {
            miss("the network's part in the lag (sock_diag)", &error);
            Vec::new()
        });
        let addresses = addresses.unwrap_or_else(|error| {
            miss("the interfaces of the connections (rtnetlink)", &error);
            Addresses::default()
        });
        for sender in &mut reading.senders {
            let address = sender.client_address.as_deref().and_then(|text| text.parse::<IpAddr>().ok());
            let connection = connections.iter().find(|connection| {
                connection.local_port == reading.port
                    && Some(connection.port) == sender.client_port
                    && Some(connection.address) == address
            });
            sender.tcp = connection.map(|connection| connection.tcp);
            sender.interface =
                connection.and_then(|c| addresses.interface(c.local_address, c.address)).map(str::to_string);
        }
        let names: BTreeSet<&str> = reading.senders.iter().filter_map(|sender| sender.interface.as_deref()).collect();
        match interface::read(&self.root, &names) {
            Ok(interfaces) => reading.interfaces = interfaces,
            Err(error) => reading
                .missing
                .push(Missing { what: "what the interfaces carry".to_string(), reason: error.to_string() }),
        }
    }

    fn is_titled(&self, pid: i32, words: &[&str]) -> bool {
        process::command_line(&self.root, pid)
            .is_ok_and(|title| title.starts_with("postgres: ") && words.iter().all(|word| title.contains(word)))
    }

    /// A counter of /proc/PID/io; none if that may not be read.
    fn io(&self, pid: i32, counter: &str) -> Option<u64> {
        let text = self.root.read(format!("proc/{pid}/io")).ok()?;
        text.lines().find_map(|line| line.strip_prefix(counter)?.strip_prefix(": "))?.trim().parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use pgcalm_host::fake::FakeHost;

    use super::*;
    use crate::model::StandbyState;
    use crate::reading::Sender;

    fn sender(pid: i32) -> Sender {
        Sender {
            pid,
            application_name: "near".to_string(),
            client_address: Some("192.0.2.7".to_string()),
            client_port: Some(40001),
            state: StandbyState::Streaming,
            sync_state: None,
            lsn: [None; 4],
            server_lag_s: [None; 4],
            reply_age_s: None,
            wait_event: None,
            disk_read_bytes: None,
            tcp: None,
            interface: None,
        }
    }

    #[test]
    fn a_network_that_may_not_be_looked_at_is_missing_and_not_just_absent() {
        let host = Host::new(HostRoot::default());
        let mut reading = Reading { senders: vec![sender(11)], ..Reading::default() };
        // What socket() says of a family that a service may not use.
        let refused = || io::Error::from_raw_os_error(97);
        host.add_connections(&mut reading, Err(refused()), Err(refused()));
        assert_eq!(reading.senders[0].tcp, None);
        assert_eq!(reading.missing.len(), 2, "{:?}", reading.missing);
        for missing in &reading.missing {
            assert!(missing.reason.contains("AF_NETLINK"), "{missing:?}");
        }
    }

    #[test]
    fn only_processes_with_the_right_title_count() {
        let root = FakeHost::default();
        for (pid, title) in [
            (10, "postgres: 15/main: walwriter \0"),
            (11, "postgres: walsender rep 192.0.2.7(40001) streaming 0/3000148\0"),
            (12, "postgres: walsender rep 192.0.2.7(40002) streaming 0/3000148\0"),
            (13, "/usr/bin/vi\0walwriter\0"),
        ] {
            root.put(format!("proc/{pid}/cmdline"), title);
            root.put(format!("proc/{pid}/io"), &format!("rchar: 1\nread_bytes: {pid}00\nwrite_bytes: {pid}01\n"));
        }
        let host = Host::new(root.clone());
        let complete = |walwriter| {
            let mut reading = Reading {
                senders: vec![sender(11), sender(12), sender(99)],
                walwriter_pid: Some(walwriter),
                port: 5432,
                ..Reading::default()
            };
            host.complete(&mut reading);
            reading
        };
        let reading = complete(10);
        assert_eq!(reading.walwriter_disk_bytes, Some(1001));
        let read: Vec<Option<u64>> = reading.senders.iter().map(|s| s.disk_read_bytes).collect();
        assert_eq!(read, [Some(1100), None, None]);
        assert_eq!(complete(13).walwriter_disk_bytes, None);
    }
}

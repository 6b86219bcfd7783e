//! Which interface of this host a connection goes by, and what that interface does.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;

use nix::ifaddrs::getifaddrs;
use pgcalm_host::network::InterfaceStat;
use pgcalm_host::{HostRoot, network};

/// What the kernel sends to its own addresses goes by this one, whatever interface has the address.
const LOOPBACK: &str = "lo";

/// The addresses of the interfaces of a network namespace.
#[derive(Debug, Clone, Default)]
pub struct Addresses(Vec<(IpAddr, String)>);

impl Addresses {
    /// Those of the network namespace that this thread is in.
    pub fn read() -> io::Result<Self> {
        let addresses = getifaddrs()?.filter_map(|of_interface| {
            let address = of_interface.address?;
            let ip = match (address.as_sockaddr_in(), address.as_sockaddr_in6()) {
                (Some(v4), _) => IpAddr::V4(v4.ip()),
                (_, Some(v6)) => IpAddr::V6(v6.ip()),
                _ => return None,
            };
            // An address may have a label such as eth0:1.
            let name = of_interface.interface_name;
            let name = name.split(':').next().unwrap_or_default().to_string();
            Some((ip, name))
        });
        Ok(Self(addresses.collect()))
    }

    /// The interface of a connection between these addresses of this end and of the other: that which has this end's, since
    /// the kernel chooses the address by the interface. A route that says otherwise is not looked at.
    pub fn interface(&self, own: IpAddr, other: IpAddr) -> Option<&str> {
        let of = |address: IpAddr| {
            let found = self.0.iter().find(|(known, _)| *known == address);
            found.map(|(_, name)| name.as_str())
        };
        match of(other) {
            Some(_) => Some(LOOPBACK),
            None => of(own),
        }
    }
}

/// An interface at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceReading {
    /// Its counters.
    pub stat: InterfaceStat,
    /// What its link carries, bytes per second.
    pub link_bytes_per_s: Option<u64>,
}

/// The interfaces with these names, of the network namespace that this thread is in.
pub fn read(root: &HostRoot, names: &BTreeSet<&str>) -> pgcalm_host::Result<Vec<InterfaceReading>> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let all = network::interfaces(root, "thread-self")?;
    Ok(all
        .into_iter()
        .filter(|stat| names.contains(stat.name.as_str()))
        .map(|stat| InterfaceReading { link_bytes_per_s: network::link_bytes_per_second(root, &stat.name), stat })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_goes_by_the_interface_of_its_address_but_to_this_host_by_loopback() {
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let addresses = Addresses(vec![
            (address("127.0.0.1"), "lo".to_string()),
            (address("192.0.2.1"), "eth0".to_string()),
            (address("2001:db8::1"), "eth1".to_string()),
        ]);
        let of = |own, other| addresses.interface(address(own), address(other));
        assert_eq!(of("192.0.2.1", "192.0.2.9"), Some("eth0"));
        assert_eq!(of("2001:db8::1", "2001:db8::9"), Some("eth1"));
        assert_eq!(of("192.0.2.1", "192.0.2.1"), Some("lo"));
        assert_eq!(of("192.0.2.7", "192.0.2.9"), None);
    }

    #[test]
    fn this_host_has_its_loopback() {
        let addresses = Addresses::read().unwrap();
        let own = IpAddr::from([127, 0, 0, 1]);
        assert_eq!(addresses.interface(own, own), Some("lo"));
        let found = read(&HostRoot::default(), &BTreeSet::from(["lo"])).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].link_bytes_per_s, None);
    }
}

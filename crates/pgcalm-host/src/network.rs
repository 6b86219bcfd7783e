//! Network interfaces: counters of /proc/PID/net/dev, which shows the network namespace that the process is in, and what
//! /sys/class/net says of links.

use crate::{Error, HostRoot, Result};

/// Counters of an interface since it was made, link-layer headers included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceStat {
    /// E.g. `eth0`.
    pub name: String,
    /// Bytes received.
    pub received_bytes: u64,
    /// Packets received. What the kernel or the card puts together to one (GRO) counts once.
    pub received_packets: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Packets sent. What is cut into segments later (GSO) counts once.
    pub sent_packets: u64,
}

/// The interfaces of the network namespace of a process: `process` is a name in /proc, e.g. `self`, or `thread-self` where
/// threads of this process are in different ones.
pub fn interfaces(root: &HostRoot, process: &str) -> Result<Vec<InterfaceStat>> {
    let path = format!("proc/{process}/net/dev");
    let text = root.read(&path)?;
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    lines
        .map(|(name, counters)| {
            parse(name, counters).ok_or_else(|| Error::Format {
                path: root.path(&path),
                expected: "counters of a network interface",
                found: format!("{name}:{counters}"),
            })
        })
        .collect()
}

/// Bytes, packets and six more received; then bytes and packets sent (dev_seq_printf_stats in net/core/net-procfs.c).
fn parse(name: &str, counters: &str) -> Option<InterfaceStat> {
    let counters: Vec<u64> = counters.split_whitespace().map(|counter| counter.parse().ok()).collect::<Option<_>>()?;
    Some(InterfaceStat {
        name: name.trim().to_string(),
        received_bytes: *counters.first()?,
        received_packets: *counters.get(1)?,
        sent_bytes: *counters.get(8)?,
        sent_packets: *counters.get(9)?,
    })
}

/// Bytes that `interface` of the network namespace of process `pid` has sent since it was made, link-layer headers
/// included; `None` if there is no such interface.
pub fn sent_bytes(root: &HostRoot, pid: i32, interface: &str) -> Result<Option<u64>> {
    let interfaces = interfaces(root, &pid.to_string())?;
    Ok(interfaces.iter().find(|stat| stat.name == interface).map(|stat| stat.sent_bytes))
}

/// What the link of `interface` carries in one direction, bytes per second, as its driver says; `None` if it says nothing, as
/// that of `lo` and of many virtual ones, or if the link is down. Of the network namespace in which /sys was mounted.
pub fn link_bytes_per_second(root: &HostRoot, interface: &str) -> Option<u64> {
    // Mbit/s; -1 for unknown, and reading fails while the link is down (speed_show in net/core/net-sysfs.c).
    let text = root.read(format!("sys/class/net/{interface}/speed")).ok()?;
    let megabits: i64 = text.trim().parse().ok()?;
    let megabits = u64::try_from(megabits).ok()?;
    (megabits > 0).then_some(megabits * 125_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeHost;

    const SAMPLE: &str = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:     100       1    0    0    0     0          0         0      101       1    0    0    0     0       0          0
  link: 1276056    9561    0    0    0     0          0         0 906125085  602430    0    0    0     0       0          0
 link2:       1       1    0    0    0     0          0         0        2       1    0    0    0     0       0          0
";

    #[test]
    fn what_an_interface_has_sent_is_told_by_its_whole_name() {
        let root = FakeHost::with(&[("proc/7/net/dev", SAMPLE)]);
        assert_eq!(sent_bytes(&root, 7, "link").unwrap(), Some(906_125_085));
        assert_eq!(sent_bytes(&root, 7, "lin").unwrap(), None);
        let root = FakeHost::with(&[("proc/7/net/dev", "link: 1 2 3\n")]);
        assert!(sent_bytes(&root, 7, "link").is_err());
    }

    #[test]
    fn all_interfaces_have_both_directions() {
        let root = FakeHost::with(&[("proc/self/net/dev", SAMPLE)]);
        let found = interfaces(&root, "self").unwrap();
        assert_eq!(found.len(), 3);
        let expected = InterfaceStat {
            name: "link".to_string(),
            received_bytes: 1_276_056,
            received_packets: 9561,
            sent_bytes: 906_125_085,
            sent_packets: 602_430,
        };
        assert_eq!(found[1], expected);
    }

    #[test]
    fn a_link_that_says_nothing_has_no_speed() {
        let root = FakeHost::with(&[("sys/class/net/eth0/speed", "10000\n"), ("sys/class/net/veth/speed", "-1\n")]);
        assert_eq!(link_bytes_per_second(&root, "eth0"), Some(1_250_000_000));
        assert_eq!(link_bytes_per_second(&root, "veth"), None);
        assert_eq!(link_bytes_per_second(&root, "lo"), None);
    }
}

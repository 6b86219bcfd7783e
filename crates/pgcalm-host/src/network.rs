//! Counters of network interfaces: /proc/PID/net/dev, which shows the network namespace that the process is in.

use crate::Error;
use crate::HostRoot;
use crate::Result;

/// Bytes that `interface` of the network namespace of process `pid` has sent since it was made, link-layer headers
/// included; `None` if there is no such interface.
pub fn sent_bytes(root: &HostRoot, pid: i32, interface: &str) -> Result<Option<u64>> {
    let path = format!("proc/{pid}/net/dev");
    let text = root.read(&path)?;
    let Some(line) = text
        .lines()
        .find_map(|line| line.trim_start().strip_prefix(interface)?.strip_prefix(':'))
    else {
        return Ok(None);
    };
    // bytes, packets and six more received; then bytes sent (dev_seq_printf_stats in net/core/net-procfs.c)
    line.split_whitespace()
        .nth(8)
        .and_then(|bytes| bytes.parse().ok())
        .map(Some)
        .ok_or_else(|| Error::Format {
            path: root.path(&path),
            expected: "counters of a network interface",
            found: line.to_string(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:     100       1    0    0    0     0          0         0      101       1    0    0    0     0       0          0
  link: 1276056    9561    0    0    0     0          0         0 906125085  602430    0    0    0     0       0          0
 link2:       1       1    0    0    0     0          0         0        2       1    0    0    0     0       0          0
";

    #[test]
    fn what_an_interface_has_sent_is_told_by_its_whole_name() {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::new(dir.path());
        let path = root.path("proc/7/net/dev");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, SAMPLE).unwrap();
        assert_eq!(sent_bytes(&root, 7, "link").unwrap(), Some(906_125_085));
        assert_eq!(sent_bytes(&root, 7, "lin").unwrap(), None);
        std::fs::write(&path, "link: 1 2 3\n").unwrap();
        assert!(sent_bytes(&root, 7, "link").is_err());
    }
}

//! How long whoever started the server waits for its stop and its start.

use std::path::Path;
use std::process::Command;

use pgcalm_host::HostRoot;
use serde_json::Value;

use crate::facts::Grace;
use crate::isolate;

/// What Docker waits for a container that names no time.
const DOCKER: f64 = 10.0;

/// Of the server with that postmaster; none if nobody who can be asked has started it. What a pod has is nowhere on the host.
pub(super) fn read(root: &HostRoot, pid: i32) -> Option<Grace> {
    let membership = root.read(format!("proc/{pid}/cgroup")).ok()?;
    if let Some(id) = container(&membership) {
        let file = format!("/var/lib/docker/containers/{id}/config.v2.json");
        let config: Value = serde_json::from_str(&root.read(&file).ok()?).ok()?;
        let seconds = config["Config"]["StopTimeout"].as_f64().unwrap_or(DOCKER);
        return Some(Grace { stop_seconds: Some(seconds), start_seconds: None, source: file });
    }
    let unit = isolate::unit_of(root, pid).filter(|unit| !unit.starts_with("user@"))?;
    // systemd answers for this host only.
    if root.path("/") != Path::new("/") {
        return None;
    }
    let asked =
        Command::new("systemctl").args(["show", "-p", "TimeoutStopUSec,TimeoutStartUSec", "--", &unit]).output();
    of_unit(&unit, &String::from_utf8_lossy(&asked.ok()?.stdout))
}

/// A container of Docker's.
fn container(membership: &str) -> Option<&str> {
    let names = membership.split(['/', '\n']);
    names.into_iter().find_map(|name| {
        let id = name.strip_prefix("docker-").and_then(|name| name.strip_suffix(".scope")).unwrap_or(name);
        (membership.contains("docker") && id.len() == 64 && id.bytes().all(|b| b.is_ascii_hexdigit())).then_some(id)
    })
}

fn of_unit(unit: &str, shown: &str) -> Option<Grace> {
    let value = |name: &str| shown.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    let stop = value("TimeoutStopUSec")?;
    Some(Grace {
        stop_seconds: span(stop),
        start_seconds: value("TimeoutStartUSec").and_then(span),
        source: format!("systemctl show {unit}"),
    })
}

/// Seconds of a time span of systemd's, such as `1min 30s`; none for `infinity`.
fn span(text: &str) -> Option<f64> {
    let part = |part: &str| {
        let unit = part.find(|c: char| c.is_ascii_alphabetic())?;
        let factor = match &part[unit..] {
            "us" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "min" => 60.0,
            "h" => 3600.0,
            "d" => 86_400.0,
            "w" => 7.0 * 86_400.0,
            _ => return None,
        };
        Some(part[..unit].parse::<f64>().ok()? * factor)
    };
    text.split_whitespace().map(part).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgcalm_host::fake::FakeHost;

    #[test]
    fn a_unit_s_times_are_read_as_systemctl_shows_them() {
        let grace = of_unit("x.service", "TimeoutStartUSec=infinity\nTimeoutStopUSec=1min 30.500s\n").unwrap();
        assert_eq!((grace.stop_seconds, grace.start_seconds), (Some(90.5), None));
        assert_eq!(of_unit("x.service", ""), None);
    }

    #[test]
    fn a_container_has_what_docker_was_told_or_its_default() {
        let id = "0123456789abcdef".repeat(4);
        let root = FakeHost::default();
        root.put("proc/7/cgroup", &format!("0::/system.slice/docker-{id}.scope\n"));
        let config = format!("var/lib/docker/containers/{id}/config.v2.json");
        root.put(&config, r#"{"Config": {"StopTimeout": 120}}"#);
        assert_eq!(read(&root, 7).unwrap().stop_seconds, Some(120.0));
        root.put(&config, r#"{"Config": {"StopTimeout": null}}"#);
        root.put("proc/7/cgroup", &format!("7:memory:/docker/{id}\n"));
        assert_eq!(read(&root, 7).unwrap().stop_seconds, Some(10.0));
        root.put("proc/7/cgroup", "0::/kubepods.slice/x.scope\n");
        assert_eq!(read(&root, 7), None);
    }
}

//! How long whoever started the server waits for its stop and its start.

use std::path::Path;
use std::process::Command;

use pgcalm_host::HostRoot;
use serde_json::Value;

use crate::facts::Grace;
use crate::isolate;

/// What Docker waits for a container that names no time.
const DOCKER: f64 = 10.0;

/// What systemd is asked.
const PROPERTIES: &str = "LoadState,Type,KillMode,MainPID,TimeoutStopUSec,TimeoutStartUSec";

/// Of the server with that postmaster; none if nobody who can be asked has started it. Of containerd the host does not know.
pub(super) fn read(root: &HostRoot, pid: i32) -> Option<Grace> {
    let membership = root.read(format!("proc/{pid}/cgroup")).ok()?;
    if let Some(id) = container(&membership) {
        let file = format!("/var/lib/docker/containers/{id}/config.v2.json");
        let config: Value = serde_json::from_str(&root.read(&file).ok()?).ok()?;
        let seconds = config["Config"]["StopTimeout"].as_f64().unwrap_or(DOCKER);
        return Some(Grace { stop_seconds: Some(seconds), start_seconds: None, source: file });
    }
    let unit = scope(&membership).or_else(|| isolate::unit_of(root, pid))?;
    // A user's own systemd is not asked.
    if membership.contains("/user@") {
        return None;
    }
    // systemd answers for this host only.
    if root.path("/") != Path::new("/") {
        return None;
    }
    let asked = Command::new("systemctl").args(["show", "-p", PROPERTIES, "--", &unit]).output();
    of_unit(&unit, pid, &String::from_utf8_lossy(&asked.ok()?.stdout))
}

/// A container of Docker's.
fn container(membership: &str) -> Option<&str> {
    let names = membership.split(['/', '\n']);
    names.into_iter().find_map(|name| {
        let id = name.strip_prefix("docker-").and_then(|name| name.strip_suffix(".scope")).unwrap_or(name);
        // A pod has its own.
        let is_docker = membership.contains("docker") && !membership.contains("kubepods");
        (is_docker && id.len() == 64 && id.bytes().all(|b| b.is_ascii_hexdigit())).then_some(id)
    })
}

/// The scope of a container of Podman's or CRI-O's: both tell systemd what they wait, CRI-O the pod's grace period.
fn scope(membership: &str) -> Option<String> {
    let names = membership.split(['/', '\n']).filter(|name| name.ends_with(".scope") && !name.contains("-conmon-"));
    names.rev().find(|name| name.starts_with("libpod-") || name.starts_with("crio-")).map(String::from)
}

fn of_unit(unit: &str, pid: i32, shown: &str) -> Option<Grace> {
    let value = |name: &str| shown.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    // Of a unit that is not there systemctl shows the defaults.
    value("LoadState").filter(|state| *state == "loaded")?;
    let stop = span(value("TimeoutStopUSec")?);
    // Patroni's unit: what is killed then is Patroni alone.
    let is_killed = match value("KillMode") {
        Some("none") => false,
        Some("process") => value("MainPID") == Some(pid.to_string().as_str()),
        _ => true,
    };
    // A unit of another type has started at once.
    let waits = matches!(value("Type"), Some("notify" | "notify-reload" | "forking" | "oneshot" | "dbus"));
    Some(Grace {
        stop_seconds: stop.filter(|_| is_killed),
        start_seconds: value("TimeoutStartUSec").and_then(span).filter(|_| waits),
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
        let times = "LoadState=loaded\nTimeoutStartUSec=5min\nTimeoutStopUSec=1min 30.500s\n";
        let of = |more: &str| {
            let grace = of_unit("x.service", 7, &format!("{times}{more}")).unwrap();
            (grace.stop_seconds, grace.start_seconds)
        };
        assert_eq!(of("Type=forking\nKillMode=control-group\nMainPID=7\n"), (Some(90.5), Some(300.0)));
        // Patroni's, and one whose server is its only process.
        assert_eq!(of("Type=simple\nKillMode=process\nMainPID=6\n"), (None, None));
        assert_eq!(of("Type=notify\nKillMode=process\nMainPID=7\n"), (Some(90.5), Some(300.0)));
        let endless = "LoadState=loaded\nTimeoutStopUSec=infinity\n";
        assert_eq!(of_unit("x.service", 7, endless).unwrap().stop_seconds, None);
        assert_eq!(of_unit("x.service", 7, ""), None);
        assert_eq!(of_unit("x.scope", 7, "LoadState=not-found\nTimeoutStopUSec=1min 30s\n"), None);
    }

    #[test]
    fn containers_of_podman_and_cri_o_have_scopes_of_systemd_s() {
        let of = |membership: &str| scope(membership);
        let podman = "0::/machine.slice/libpod-0123.scope/container\n";
        assert_eq!(of(podman).as_deref(), Some("libpod-0123.scope"));
        assert_eq!(of("4:memory:/\n0::/kubepods.slice/crio-4567.scope\n").as_deref(), Some("crio-4567.scope"));
        assert_eq!(of("0::/machine.slice/libpod-conmon-0123.scope\n"), None);
        assert_eq!(of("0::/system.slice/postgresql@15-main.service\n"), None);
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
        root.put("proc/7/cgroup", &format!("0::/kubepods.slice/docker-{id}.scope\n"));
        assert_eq!(read(&root, 7), None);
    }
}

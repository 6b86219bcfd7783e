//! What makes limits last: properties of the service's unit.

use std::path::Path;

use pgcalm_host::HostRoot;
use pgcalm_host::cgroup::Version;
use pgcalm_host::throttle::Kind;

use crate::isolate::Setting;

/// Lines for a drop-in of the unit that process `pid` runs in.
pub(super) fn permanent(
    root: &HostRoot,
    version: Version,
    pid: i32,
    data_directory: &Path,
    node: &Path,
    settings: &[Setting],
) -> Vec<String> {
    if settings.iter().all(|setting| setting.value.is_none()) {
        return Vec::new();
    }
    let unit = unit_of(root, pid).unwrap_or_else(|| "UNIT.service".to_string());
    let mut lines = vec![format!("# systemctl edit {unit}"), "[Service]".to_string()];
    match version {
        Version::V2 => {
            lines.push("IOAccounting=yes".to_string());
            for setting in settings {
                if let Some(value) = setting.value {
                    let property = property(setting.kind);
                    lines.push(format!("{property}={} {value}", node.display()));
                }
            }
        }
        Version::V1 => {
            // A command that is not there would keep the server from starting.
            let program = std::env::current_exe().map_or("/usr/bin/pgcalm".into(), |path| path.display().to_string());
            let program = quoted(&program);
            // systemd applies IO*BandwidthMax to v1, but not IO*IOPSMax (systemd.resource-control(5)).
            let options: Vec<String> = settings
                .iter()
                .filter_map(|setting| Some(format!("--{} {}", setting.kind.name(), setting.value?)))
                .collect();
            lines.push(format!(
                "ExecStartPost=+{program} isolate set --apply --yes --instance {} --device {} {}",
                quoted(&data_directory.display().to_string()),
                quoted(&node.display().to_string()),
                options.join(" ")
            ));
            lines.push(format!(
                "ExecStopPost=+{program} isolate clear --apply --yes --instance {}",
                quoted(&data_directory.display().to_string()),
            ));
        }
    }
    lines
}

fn property(kind: Kind) -> &'static str {
    match kind {
        Kind::ReadIops => "IOReadIOPSMax",
        Kind::ReadBps => "IOReadBandwidthMax",
        Kind::WriteIops => "IOWriteIOPSMax",
        Kind::WriteBps => "IOWriteBandwidthMax",
    }
}

/// systemd's own hierarchy on v1, the unified one on v2.
pub(crate) fn unit_of(root: &HostRoot, pid: i32) -> Option<String> {
    let text = root.read(format!("proc/{pid}/cgroup")).ok()?;
    let group = |start: &str| text.lines().find_map(|line| line.split_once(start)?.1.into());
    let group: &str = group(":name=systemd:").or_else(|| group("0::"))?;
    group.split('/').rev().find(|name| name.ends_with(".service")).map(String::from)
}

/// As systemd's command lines take it: `%` and `$` stand for themselves when doubled.
fn quoted(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%").replace('$', "$$");
    format!("\"{text}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(version: Version, membership: &str) -> Vec<String> {
        let root = pgcalm_host::fake::FakeHost::with(&[("proc/7/cgroup", membership)]);
        let settings = [Setting { kind: Kind::WriteIops, value: Some(100) }];
        permanent(&root, version, 7, Path::new("/srv/1%"), Path::new("/dev/sda"), &settings)
    }

    #[test]
    fn v2_gets_properties_of_its_unit() {
        let lines = lines(Version::V2, "0::/system.slice/postgresql@15-main.service/pgcalm-isolate-7\n");
        assert_eq!(lines[0], "# systemctl edit postgresql@15-main.service");
        assert!(lines.contains(&"IOWriteIOPSMax=/dev/sda 100".to_string()));
    }

    #[test]
    fn v1_which_systemd_sets_no_iops_on_gets_a_command() {
        let lines = lines(Version::V1, "7:blkio:/\n9:name=systemd:/\n0::/\n");
        assert_eq!(lines[0], "# systemctl edit UNIT.service");
        assert!(
            lines[2]
                .ends_with("isolate set --apply --yes --instance \"/srv/1%%\" --device \"/dev/sda\" --write-iops 100"),
            "{lines:?}"
        );
        let program = format!("Post=+\"{}\" isolate ", std::env::current_exe().unwrap().display());
        assert!(lines[2..].iter().all(|line| line.contains(&program)), "{lines:?}");
    }
}

//! What makes limits last: properties of the service's unit.

use std::path::Path;

use pgcalm_host::HostRoot;
use pgcalm_host::block_device::Disk;
use pgcalm_host::cgroup::Version;
use pgcalm_host::throttle::Kind;

use crate::isolate::Setting;

/// Lines for a drop-in of the unit that process `pid` runs in.
pub(super) fn permanent(
    root: &HostRoot,
    version: Version,
    pid: i32,
    data_directory: &Path,
    (disk, node): (&Disk, &Path),
    settings: &[Setting],
) -> Vec<String> {
    if settings.iter().all(|setting| setting.value.is_none()) {
        return Vec::new();
    }
    let unit = unit_of(root, pid).unwrap_or_else(|| "UNIT.service".to_string());
    let mut lines = vec![format!("# systemctl edit {unit}"), "[Service]".to_string()];
    if version == Version::V2 {
        if !is_looked_through(root, disk) {
            lines.push("IOAccounting=yes".to_string());
            for setting in settings {
                if let Some(value) = setting.value {
                    let property = property(setting.kind);
                    lines.push(format!("{property}={} {value}", node.display()));
                }
            }
            return lines;
        }
        lines.push(format!("# systemd's own IO...Max= would limit the disk below {}.", disk.name));
        lines.push("Delegate=yes".to_string());
    }
    // Without `-` a command that fails would keep the database down.
    let program = std::env::current_exe().map_or("/usr/bin/pgcalm".into(), |path| path.display().to_string());
    let program = quoted(&program);
    // systemd applies IO*BandwidthMax to v1, but not IO*IOPSMax (systemd.resource-control(5)).
    let options: Vec<String> =
        settings.iter().filter_map(|setting| Some(format!("--{} {}", setting.kind.name(), setting.value?))).collect();
    lines.push(format!(
        "ExecStartPost=-+{program} isolate set --apply --yes --instance {} --device {} {}",
        quoted(&data_directory.display().to_string()),
        quoted(&node.display().to_string()),
        options.join(" ")
    ));
    lines.push(format!(
        "ExecStopPost=-+{program} isolate clear --apply --yes --instance {}",
        quoted(&data_directory.display().to_string()),
    ));
    lines
}

/// Whether systemd takes the disk for the one below: of a device that is made of others it follows `slaves`, and limits what it comes to
/// (`lookup_block_device`, cgroup.c), if that is one disk.
pub(super) fn is_looked_through(root: &HostRoot, disk: &Disk) -> bool {
    let slaves = root.list(format!("sys/class/block/{}/slaves", disk.name));
    slaves.is_ok_and(|slaves| !slaves.is_empty())
}

fn property(kind: Kind) -> &'static str {
    match kind {
        Kind::ReadIops => "IOReadIOPSMax",
        Kind::ReadBps => "IOReadBandwidthMax",
        Kind::WriteIops => "IOWriteIOPSMax",
        Kind::WriteBps => "IOWriteBandwidthMax",
    }
}

/// The unit of a group whose inside is systemd's own. A command of the unit, as ExecReload=, starts in that group itself,
/// which on v2 can't be once groups below it have controllers; with Delegate= it starts in a group `.control`.
/// systemd marks delegation by these attributes: the first is root's to read, the second is there since 251
/// (`cg_is_delegated`, cgroup-util.c).
pub(super) fn undivided(root: &HostRoot, group: &Path) -> Option<String> {
    let unit = group.file_name()?.to_str().filter(|name| name.ends_with(".service") || name.ends_with(".scope"))?;
    let is_delegated = ["trusted.delegate", "user.delegate"].iter().any(|name| {
        let mut value = [0; 8];
        rustix::fs::getxattr(root.path(group), *name, &mut value).is_ok_and(|length| value[..length] == *b"1")
    });
    (!is_delegated).then(|| unit.to_string())
}

/// The command by which systemd sets the limits until the next boot.
pub(super) fn set_property(unit: &str, disk: &Disk, settings: &[Setting]) -> String {
    let mut command = format!("systemctl set-property --runtime '{unit}'");
    for setting in settings {
        let value = setting.value.map_or("infinity".to_string(), |value| value.to_string());
        command.push_str(&format!(" {}='/dev/{} {value}'", property(setting.kind), disk.name));
    }
    command
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
        let disk = Disk { name: "sda".into(), number: "8:0".into() };
        permanent(&root, version, 7, Path::new("/srv/1%"), (&disk, Path::new("/dev/sda")), &settings)
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
        let program = format!("Post=-+\"{}\" isolate ", std::env::current_exe().unwrap().display());
        assert!(lines[2..].iter().all(|line| line.contains(&program)), "{lines:?}");
    }
}

use std::path::Path;

use pgcalm_host::vm_sysctl;

use crate::journal::{Change, Journal, Undo};
use crate::options::SysctlProfile;
use pgcalm_host::Failure;

/// Sets the writeback sysctls of `profile`; the former values come back when the result is dropped.
pub(crate) fn apply(journal: &Journal, profile: SysctlProfile) -> anyhow::Result<Vec<Undo>> {
    let mut undo = Vec::new();
    for (name, value) in profile.values() {
        let restore = former(journal, name)?;
        undo.push(journal.note(restore)?);
        journal.root().write(vm_sysctl::path(name), &value.to_string()).map_err(|error| {
            Failure::Host(format!("--sysctl {}: {error}; run on the host, not in a container", profile.name()))
        })?;
    }
    Ok(undo)
}

/// What restores `vm.<name>`. Of a `ratio` and its `bytes` twin only one is in force and the other reads 0; the kernel
/// zeroes the one when the other is written, and refuses a written 0. So the one in force is what must be restored.
fn former(journal: &Journal, name: &str) -> anyhow::Result<Change> {
    let root = journal.root();
    let bytes = name.replace("ratio", "bytes");
    let in_force = if name.ends_with("_ratio") || name.ends_with("_bytes") {
        if vm_sysctl::read(root, &bytes)? == "0" { name.replace("bytes", "ratio") } else { bytes }
    } else {
        name.to_string()
    };
    Ok(Change::Setting {
        file: Path::new("/").join(vm_sysctl::path(&in_force)),
        former: vm_sysctl::read(root, &in_force)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgcalm_host::HostRoot;
    use std::fs;

    #[test]
    fn former_values_come_back_and_a_bytes_value_wins_over_its_ratio() {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::new(dir.path());
        fs::create_dir_all(root.path("proc/sys/vm")).unwrap();
        for (name, value) in [
            ("dirty_background_bytes", "268435456"),
            ("dirty_background_ratio", "0"),
            ("dirty_bytes", "0"),
            ("dirty_ratio", "15"),
            ("dirty_expire_centisecs", "1234"),
            ("dirty_writeback_centisecs", "99"),
        ] {
            fs::write(root.path(vm_sysctl::path(name)), format!("{value}\n")).unwrap();
        }
        let journal = Journal::open(root.clone(), &dir.path().join("journal.json")).unwrap();
        let applied = apply(&journal, SysctlProfile::Roomy).unwrap();
        let read = |name| vm_sysctl::read(&root, name).unwrap();
        assert_eq!(read("dirty_ratio"), "60");
        assert_eq!(read("dirty_expire_centisecs"), "30000");
        // The kernel would zero the twin here; a plain file does not, so see that it is written again.
        fs::write(root.path(vm_sysctl::path("dirty_background_bytes")), "0").unwrap();
        drop(applied);
        assert_eq!(read("dirty_background_bytes"), "268435456");
        assert_eq!(read("dirty_ratio"), "15");
        assert_eq!(read("dirty_expire_centisecs"), "1234");
        assert_eq!(read("dirty_writeback_centisecs"), "99");

        let applied = apply(&journal, SysctlProfile::Small).unwrap();
        assert_eq!(read("dirty_bytes"), "800000000");
        fs::write(root.path(vm_sysctl::path("dirty_ratio")), "0").unwrap();
        drop(applied);
        fs::write(root.path(vm_sysctl::path("dirty_bytes")), "0").unwrap();
        let applied = apply(&journal, "early".parse().unwrap()).unwrap();
        assert_eq!(read("dirty_background_bytes"), "102400000");
        assert_eq!(read("dirty_ratio"), "95");
        assert_eq!(read("dirty_writeback_centisecs"), "100");
        assert_eq!(read("dirty_expire_centisecs"), "3000");
        drop(applied);
        let applied = apply(&journal, "default:10GB".parse().unwrap()).unwrap();
        assert_eq!(read("dirty_background_bytes"), "1073741824");
        assert_eq!(read("dirty_bytes"), "2147483648");
        assert_eq!(read("dirty_expire_centisecs"), "3000");
        drop(applied);
        assert_eq!(read("dirty_background_bytes"), "268435456");
        assert_eq!(read("dirty_ratio"), "15");
    }
}

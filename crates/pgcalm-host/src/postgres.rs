//! PostgreSQL installations: where the server programs lie.

use std::path::{Path, PathBuf};

use crate::HostRoot;

/// Programs that a server installation must hold to be of use here.
pub const PROGRAMS: [&str; 6] = ["postgres", "initdb", "pgbench", "psql", "pg_isready", "pg_config"];

/// The directories of server programs that distributions use, newest version first.
pub fn bindirs(root: &HostRoot) -> Vec<PathBuf> {
    let mut versions: Vec<(u32, PathBuf)> = root
        .list("usr/lib/postgresql")
        .unwrap_or_default()
        .into_iter()
        .filter_map(|name| {
            let version = name.parse().ok()?;
            Some((version, Path::new("/usr/lib/postgresql").join(name)))
        })
        .collect();
    versions.extend(root.list("usr").unwrap_or_default().into_iter().filter_map(|name| {
        let version = name.strip_prefix("pgsql-")?.parse().ok()?;
        Some((version, Path::new("/usr").join(name)))
    }));
    versions.sort_by_key(|(version, _)| std::cmp::Reverse(*version));
    let mut directories: Vec<PathBuf> = versions.into_iter().map(|(_, directory)| directory.join("bin")).collect();
    directories.push("/usr/local/pgsql/bin".into());
    directories.push("/usr/bin".into());
    directories.retain(|directory| missing(root, directory).is_empty());
    directories
}

/// The programs of [`PROGRAMS`] that `bindir` lacks.
pub fn missing(root: &HostRoot, bindir: &Path) -> Vec<&'static str> {
    PROGRAMS.into_iter().filter(|program| !root.path(bindir.join(program)).is_file()).collect()
}

/// The part of `postgres --version` that says which server it is, e.g. `PostgreSQL 15.20 (Debian ...)`.
pub fn version_name(output: &str) -> Option<String> {
    // postgres (PostgreSQL) 15.20 (Debian 15.20-0+deb12u1)
    let (_, version) = output.trim().split_once("(PostgreSQL) ")?;
    Some(format!("PostgreSQL {version}"))
}

/// The major version in a name from [`version_name`], e.g. 15.
pub fn major_version(name: &str) -> Option<u32> {
    let version = name.strip_prefix("PostgreSQL ")?;
    let digits: String = version.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeHost;

    fn install(root: &FakeHost, bindir: &str, programs: &[&str]) {
        for program in programs {
            root.put(format!("{bindir}/{program}"), "");
        }
    }

    #[test]
    fn finds_complete_installations_newest_first() {
        let root = FakeHost::default();
        install(&root, "usr/lib/postgresql/9/bin", &PROGRAMS);
        install(&root, "usr/lib/postgresql/15/bin", &PROGRAMS);
        install(&root, "usr/lib/postgresql/17/bin", &["psql"]);
        install(&root, "usr/pgsql-16/bin", &PROGRAMS);
        assert_eq!(
            bindirs(&root),
            [
                PathBuf::from("/usr/pgsql-16/bin"),
                PathBuf::from("/usr/lib/postgresql/15/bin"),
                PathBuf::from("/usr/lib/postgresql/9/bin"),
            ]
        );
    }

    #[test]
    fn reads_released_and_development_versions() {
        let name = version_name("postgres (PostgreSQL) 15.20 (Debian 15.20-0+deb12u1)\n").unwrap();
        assert_eq!(name, "PostgreSQL 15.20 (Debian 15.20-0+deb12u1)");
        assert_eq!(major_version(&name), Some(15));
        assert_eq!(major_version(&version_name("postgres (PostgreSQL) 19devel\n").unwrap()), Some(19));
        assert_eq!(version_name("bash 5"), None);
    }
}

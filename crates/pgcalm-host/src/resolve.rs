//! Symbolic links, followed within a root directory that is not this process's own.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::{fs, io};

use crate::HostRoot;

/// As many as the kernel follows (`MAXSYMLINKS`).
const MAX_LINKS: u32 = 40;

/// The absolute path without symbolic links of what `path` names under `prefix`, as seen by who has `prefix` for its
/// root directory, e.g. `proc/4711/root`; `None` if it doesn't exist or can't be looked at.
///
/// The kernel would follow an absolute link found there from this process's root, and end up in another file.
pub(crate) fn resolve(root: &HostRoot, prefix: &Path, path: &Path) -> Option<PathBuf> {
    let mut left: Vec<OsString> = parts(path);
    let mut done = PathBuf::from("/");
    let mut links = 0;
    while let Some(part) = left.pop() {
        if part == ".." {
            done.pop();
            continue;
        }
        let next = done.join(&part);
        let real = root.path(prefix.join(next.strip_prefix("/").unwrap_or(&next)));
        match fs::read_link(&real) {
            Ok(target) => {
                links += 1;
                if links > MAX_LINKS {
                    return None;
                }
                if target.is_absolute() {
                    done = PathBuf::from("/");
                }
                left.extend(parts(&target));
            }
            // Not a link.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => done = next,
            Err(_) => return None,
        }
    }
    Some(done)
}

/// The components in reverse, without the root.
fn parts(path: &Path) -> Vec<OsString> {
    let mut parts: Vec<OsString> = path
        .components()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_os_string()),
            Component::ParentDir => Some("..".into()),
            _ => None,
        })
        .collect();
    parts.reverse();
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeHost;

    #[test]
    fn absolute_links_stay_within_the_root() {
        let root = FakeHost::default();
        root.link("proc/7/root", "../..");
        root.make("srv/one/wal");
        root.link("pg", "/srv/one");
        root.link("srv/wal", "one/../one/wal");
        root.link("srv/loop", "/srv/loop");
        let found = |path: &str| resolve(&root, Path::new("proc/7/root"), Path::new(path));
        assert_eq!(found("/pg/wal"), Some("/srv/one/wal".into()));
        assert_eq!(found("/srv/wal"), Some("/srv/one/wal".into()));
        assert_eq!(found("/srv/none"), None);
        assert_eq!(found("/srv/loop"), None);
        assert_eq!(found("/../srv"), Some("/srv".into()));
    }
}

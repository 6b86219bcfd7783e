//! Users of this host. Not by the C library's getpwuid: to find whom /etc/passwd lacks it loads libraries of the system, which a
//! program that is linked statically may not survive. The system's getent is linked to them.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Where most users are.
const FILE: &str = "/etc/passwd";

/// What is known of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct User {
    pub name: String,
    pub home: PathBuf,
}

impl User {
    /// `None` if the user database has no such user.
    pub(crate) fn of(uid: u32) -> Option<Self> {
        fs::read(FILE).ok().and_then(|text| Self::in_lines(&text, uid)).or_else(|| Self::in_directories(uid))
    }

    /// Of wherever else users are, e.g. in a directory service.
    fn in_directories(uid: u32) -> Option<Self> {
        let output = Command::new("getent").args(["passwd", &uid.to_string()]).output().ok()?;
        Self::in_lines(&output.stdout, uid)
    }

    fn in_lines(text: &[u8], uid: u32) -> Option<Self> {
        String::from_utf8_lossy(text).lines().find_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            let number: u32 = fields.nth(1)?.parse().ok()?;
            let home = fields.nth(2)?;
            (number == uid).then(|| Self { name: name.to_string(), home: home.into() })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_the_number_alone() {
        let text = b"+::::::\nroot:x:0:26:r\xf6t:/root:/bin/sh\nshort:x:26\npostgres:x:26:27::/var/lib/pgsql:/bin/sh\n";
        let user = User::in_lines(text, 26).unwrap();
        assert_eq!((&*user.name, user.home), ("postgres", PathBuf::from("/var/lib/pgsql")));
        assert_eq!(User::in_lines(text, 0).unwrap().name, "root");
        assert_eq!(User::in_lines(text, 27), None);
    }

    #[test]
    fn getent_finds_the_same_as_the_file() {
        let root = User::of(0).unwrap();
        assert_eq!(root.name, "root");
        assert_eq!(User::in_directories(0), Some(root));
        // (uid_t) -1 is nobody's.
        assert_eq!(User::of(u32::MAX), None);
    }
}

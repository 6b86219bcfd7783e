//! Passwords of ~/.pgpass (`passwordFromFile` of fe-connect.c).

use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

/// What a password file has for a server.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Found {
    /// A password, and the number of its line, from 1.
    Password { password: String, line: usize },
    /// No line fits, or there is no file.
    Nothing,
    /// It was not looked into, since it could be anybody's; what to do about it.
    Ignored(String),
}

/// Whom a password is for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<'a> {
    /// Host name, address or socket directory as given; `localhost` for the default socket directory.
    pub host: &'a str,
    /// Whether a line that stands for all hosts is none for it.
    pub named: bool,
    pub port: &'a str,
    pub database: &'a str,
    pub user: &'a str,
}

/// Looks for the first line that fits.
pub(crate) fn look_up(file: &Path, entry: &Entry) -> Found {
    // A named pipe would be waited for.
    let mut options = fs::OpenOptions::new();
    options.read(true).custom_flags(OFlags::NONBLOCK.bits() as i32);
    let Ok(mut open) = options.open(file) else { return Found::Nothing };
    // Of the file that is read, not of one that has taken its place.
    let Ok(metadata) = open.metadata() else { return Found::Nothing };
    if !metadata.is_file() {
        return Found::Ignored(format!("{} is not a plain file", file.display()));
    }
    if metadata.mode() & 0o077 != 0 {
        return Found::Ignored(format!(
            "{} is ignored since group or others have access to it: chmod 600 {}",
            file.display(),
            file.display()
        ));
    }
    let mut content = Vec::new();
    if open.read_to_end(&mut content).is_err() {
        return Found::Nothing;
    }
    // Other lines may be in another encoding.
    find(&String::from_utf8_lossy(&content), entry)
}

fn find(text: &str, entry: &Entry) -> Found {
    for (number, line) in text.lines().enumerate() {
        if line.starts_with('#') || entry.named && line.starts_with("*:") {
            continue;
        }
        let fields = [entry.host, entry.port, entry.database, entry.user];
        let rest = fields.iter().try_fold(line.trim_end_matches('\r'), |line, wanted| after_match(line, wanted));
        if let Some(rest) = rest {
            return Found::Password { password: first_field(rest), line: number + 1 };
        }
    }
    Found::Nothing
}

/// What follows the first field of a line, if that is `*` or `wanted`, whose colons need no backslash (`pwdfMatchesString`).
fn after_match<'a>(line: &'a str, wanted: &str) -> Option<&'a str> {
    if let Some(rest) = line.strip_prefix("*:") {
        return Some(rest);
    }
    let mut letters = line.chars();
    for expected in wanted.chars() {
        let letter = match letters.next()? {
            '\\' => letters.next()?,
            letter => letter,
        };
        if letter != expected {
            return None;
        }
    }
    letters.as_str().strip_prefix(':')
}

/// A password ends at a colon, too.
fn first_field(line: &str) -> String {
    unescape(&line[..field_end(line).unwrap_or(line.len())])
}

/// Where the first colon is that has no backslash before it.
fn field_end(line: &str) -> Option<usize> {
    let mut escaped = false;
    line.char_indices().find_map(|(at, letter)| {
        let ends = letter == ':' && !escaped;
        escaped = letter == '\\' && !escaped;
        ends.then_some(at)
    })
}

fn unescape(field: &str) -> String {
    let mut text = String::new();
    let mut letters = field.chars();
    while let Some(letter) = letters.next() {
        match letter {
            // One at the very end stands for itself.
            '\\' => text.push(letters.next().unwrap_or('\\')),
            letter => text.push(letter),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use pgcalm_testkit::{libpq, need};

    use super::*;

    const ENTRY: Entry<'static> = Entry { host: "db1", named: false, port: "5432", database: "base", user: "me" };

    fn password(text: &str, entry: &Entry) -> Option<(String, usize)> {
        match find(text, entry) {
            Found::Password { password, line } => Some((password, line)),
            _ => None,
        }
    }

    #[track_caller]
    fn finds(text: &str, wanted: &str, line: usize) {
        assert_eq!(password(text, &ENTRY), Some((wanted.to_string(), line)), "{text}");
    }

    #[test]
    fn the_first_line_that_fits_holds() {
        finds("db1:5432:base:me:a\ndb1:5432:base:me:b\n", "a", 1);
        finds("db2:5432:base:me:a\n*:*:*:*:b", "b", 2);
        finds("#db1:5432:base:me:a\n\nnonsense\ndb1:*:base:*:c\r\n", "c", 4);
        for none in [
            "",
            "db1:5432:base:me",
            "db1:5433:*:*:x",
            "db:5432:base:me:x",
            "db11:5432:base:me:x",
            "*x:5432:base:me:x",
            " db1:5432:base:me:x",
        ] {
            assert_eq!(password(none, &ENTRY), None, "{none}");
        }
    }

    #[test]
    fn colons_and_backslashes_are_escaped() {
        finds(r"*:*:*:*:a\:b\\c\d:ignored", r"a:b\cd", 1);
        finds(r"*:*:*:*:a\", r"a\", 1);
        finds(r"d\b1:*:*:*:a", "a", 1);
        finds("*:*:*:*:", "", 1);
        let address = Entry { host: "::1", user: r"a\b", ..ENTRY };
        let text = "::1:5432:base:me:x\n\\:\\:1:5432:base:a\\\\b:y\n";
        assert_eq!(password(text, &address), Some(("y".to_string(), 2)));
    }

    /// libpq reads the same file, and tells which password it would give.
    #[test]
    fn lines_mean_what_they_mean_to_libpq() {
        if !need::met("libpq's password files", &[need::LIBPQ]) {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pgpass");
        for line in [
            "::1:5432:base:me:x",
            r"\:\:1:5432:base:me:x",
            r"\::1:5432:base:me:x",
            ":::1:5432:base:me:x",
            "::1:*:*:*:x",
            "::1*:5432:base:me:x",
            "::1",
            "::1:",
            "::1:5432:base:me",
            "::1:5432:base:me:",
            "*:*:*:*:x:y",
            r"*:*:*:*:a\:b\\c\d",
            r"*:*:*:*:a\",
            r"*:*:*:*\:x",
            r"*\:5432:base:me:x",
            r"\*:5432:base:me:x",
            "**:5432:base:me:x",
            "#::1:5432:base:me:x\n*:*:*:me:y",
            " ::1:5432:base:me:x",
            "*:*:*:*:x\r",
            "*:*:*:*: x ",
            "*:*:base2:me:x\n*:*:base:me:y",
        ] {
            fs::write(&file, format!("{line}\n")).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
            let there = libpq::password(&format!(
                "host=::1 hostaddr=127.0.0.1 port=5432 dbname=base user=me passfile='{}'",
                file.display()
            ));
            let entry = Entry { host: "::1", ..ENTRY };
            let here = match look_up(&file, &entry) {
                Found::Password { password, .. } => Some(password),
                _ => None,
            };
            assert_eq!(here.filter(|password| !password.is_empty()), there, "{line}");
        }
    }

    #[test]
    fn a_file_that_others_can_read_is_ignored() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pgpass");
        assert!(look_up(&file, &ENTRY) == Found::Nothing);
        fs::write(&file, "*:*:*:*:secret\n").unwrap();
        for mode in [0o640, 0o604, 0o620, 0o601] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            match look_up(&file, &ENTRY) {
                Found::Ignored(why) => assert!(why.contains("chmod 600"), "{why}"),
                _ => panic!("{mode:o} was taken"),
            }
        }
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(matches!(look_up(&file, &ENTRY), Found::Password { line: 1, .. }));
        assert!(matches!(look_up(directory.path(), &ENTRY), Found::Ignored(_)));
    }
}

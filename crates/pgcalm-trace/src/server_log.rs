//! The server's log while it grows: what log_checkpoints writes, without privileges but the right to read the file.
//!
//! What a line says is shown and never acted on: whoever can make the server log a line can forge one.

pub mod message;

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use pgcalm_host::process_file;
use pgcalm_host::server_process::Role;

use crate::server_log::message::Message;
use crate::target::Target;

/// What is looked through at the start for a checkpoint that is under way.
const LOOK_BACK: u64 = 256 << 10;
/// What is read at once, and how often in a row: what is written meanwhile is read next time.
const READ: usize = 1 << 20;
const READS: usize = 64;

/// The log of a server that is followed from its present end.
pub struct ServerLog {
    target: Target,
    file: File,
    /// Up to where it was read.
    offset: u64,
    /// A line whose end is not written yet.
    rest: Vec<u8>,
    /// The start of the checkpoint that was under way when this was opened.
    under_way: Option<Message>,
}

impl ServerLog {
    /// Finds and opens the log; the error says why there is none to be read, and the way out.
    ///
    /// It is the file that `current_logfiles` in the data directory names, which pg_current_logfile() reads too
    /// (src/backend/postmaster/syslogger.c), or without logging_collector the postmaster's standard error. Either way the
    /// server has it open for writing: it can't make a reader with more rights than its own open anything else.
    pub fn open(target: &Target) -> Result<Self, String> {
        let file = open(target)?;
        let end = file.metadata().map_or(0, |metadata| metadata.len());
        let mut log = Self {
            target: target.clone(),
            file,
            offset: end.saturating_sub(LOOK_BACK),
            rest: Vec::new(),
            under_way: None,
        };
        // The first line is cut off, most likely, and then none of those that are looked for.
        for message in log.read_file() {
            log.under_way = match message {
                Message::Start { .. } => Some(message),
                Message::Complete(_) => None,
            };
        }
        Ok(log)
    }

    /// The checkpoint that was under way when the log was opened; when it began is not known.
    pub fn take_under_way(&mut self) -> Option<Message> {
        self.under_way.take()
    }

    /// What has been written since the last call.
    pub fn read(&mut self) -> Vec<Message> {
        let mut found = self.read_file();
        // Rotated: what was still written to the old file has been read.
        if let Ok(file) = open(&self.target)
            && !is_same(&file, &self.file)
        {
            self.file = file;
            self.offset = 0;
            self.rest.clear();
            found.extend(self.read_file());
        }
        found
    }

    fn read_file(&mut self) -> Vec<Message> {
        let size = self.file.metadata().map_or(0, |metadata| metadata.len());
        if size < self.offset {
            // Truncated by whoever rotates it.
            self.offset = 0;
            self.rest.clear();
        }
        let mut found = Vec::new();
        let mut buffer = vec![0; READ];
        for _ in 0..READS {
            let length = self.file.read_at(&mut buffer, self.offset).unwrap_or(0);
            if length == 0 {
                break;
            }
            self.offset += length as u64;
            for byte in &buffer[..length] {
                if *byte == b'\n' {
                    found.extend(Message::parse(&String::from_utf8_lossy(&self.rest)));
                    self.rest.clear();
                } else if self.rest.len() < READ {
                    self.rest.push(*byte);
                }
            }
        }
        found
    }
}

/// What the server logs to now.
fn open(target: &Target) -> Result<File, String> {
    let (root, pid) = (&target.root, target.pid());
    let (pid, descriptor) = match process_file::read_in_working_directory(root, pid, "current_logfiles") {
        Ok(listed) => of_collector(target, &listed)?,
        // Without logging_collector.
        Err(_) => (pid, 2),
    };
    let shown = std::fs::read_link(root.path(format!("proc/{pid}/fd/{descriptor}")));
    let shown = shown.map_or(String::new(), |path| path.display().to_string());
    let handle = process_file::find_open(root, pid, descriptor).map_err(|error| error.to_string());
    process_file::open_regular(handle?).map_err(|error| match error.kind() {
        std::io::ErrorKind::InvalidInput => format!(
            "the server logs to {shown}, which is no file that can be read; set logging_collector, or log into a file"
        ),
        _ => format!("the server's log {shown}: {error}; run as its owner, or set log_file_mode"),
    })
}

/// The file that the collector has open by a name of current_logfiles.
fn of_collector(target: &Target, listed: &str) -> Result<(i32, u32), String> {
    let path = listed_path(listed).ok_or("current_logfiles names no file")?;
    let children = target.children().map_err(|error| error.to_string())?;
    let is_collector = |pid: &i32| {
        let title = target.title(*pid);
        title.is_some_and(|title| title.role == Role::Logger)
    };
    let open = children.into_iter().find(is_collector).and_then(|pid| {
        let files = process_file::open_for_writing(&target.root, pid);
        let mut named = files.into_iter().filter(|(_, file)| file.file_name() == path.file_name());
        named.next().map(|(descriptor, _)| (pid, descriptor))
    });
    open.ok_or_else(|| format!("the server's log {}: its collector does not have it open", path.display()))
}

/// The file of current_logfiles; lines like `stderr log/postgresql-2026-11-21.log`. Any format has the messages in it.
fn listed_path(listed: &str) -> Option<&Path> {
    ["stderr", "csvlog", "jsonlog"]
        .iter()
        .find_map(|format| listed.lines().find_map(|line| line.strip_prefix(format)?.strip_prefix(' ')).map(Path::new))
}

fn is_same(a: &File, b: &File) -> bool {
    match (a.metadata(), b.metadata()) {
        (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    use pgcalm_host::postmaster::Postmaster;
    use pgcalm_host::process;

    #[test]
    fn current_logfiles_names_a_file_per_format() {
        assert_eq!(listed_path("csvlog log/a.csv\nstderr log/a.log\n"), Some(Path::new("log/a.log")));
        assert_eq!(listed_path("jsonlog /var/log/a.json\n"), Some(Path::new("/var/log/a.json")));
        assert_eq!(listed_path(""), None);
    }

    /// What current_logfiles says is the server's word: it may read no file that its collector doesn't write.
    #[test]
    fn a_file_that_the_server_does_not_write_is_not_read_for_it() {
        let host = pgcalm_host::fake::FakeHost::default();
        let stat = |pid: i32, parent: i32| format!("{pid} (postgres) S {parent} {}", "0 ".repeat(40));
        host.put("proc/7/stat", &stat(7, 1));
        host.put("proc/8/stat", &stat(8, 7));
        host.put("proc/8/cmdline", "postgres: logger ");
        host.put("proc/8/fdinfo/5", "flags:\t0102001\n");
        host.put("etc/secret", "secret");
        host.put("srv/log/a.log", "");
        host.link("proc/7/cwd", "../../srv");
        host.link("proc/8/root", "../..");
        let process = process::Process::read(&host, 7).unwrap();
        let target = Target {
            postmaster: Postmaster {
                process,
                data_directory: "/srv".into(),
                port: None,
                socket_directory: None,
                major_version: "15".into(),
            },
            root: host.clone(),
            version: String::new(),
            major: 15,
            cluster_name: String::new(),
        };
        for (link, listed) in [("/srv/log/a.log", "/etc/secret"), ("/srv/log/a.log", "log/../../etc/secret")] {
            let _ = fs::remove_file(host.path("proc/8/fd/5"));
            host.link("proc/8/fd/5", link);
            host.put("srv/current_logfiles", &format!("stderr {listed}\n"));
            let error = open(&target).unwrap_err();
            assert!(error.contains("does not have it open"), "{listed}: {error}");
        }
        host.put("srv/current_logfiles", "stderr log/a.log\n");
        let listed = process_file::read_in_working_directory(&target.root, 7, "current_logfiles");
        assert_eq!(of_collector(&target, &listed.unwrap()), Ok((8, 5)));
    }
}

//! The server's log while it grows: what log_checkpoints writes, without privileges but the right to read the file.
//!
//! What a line says is shown and never acted on: whoever can make the server log a line can forge one.

pub mod message;

use std::fs::File;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::path::PathBuf;

use pgcalm_host::process_file;
use rustix::fs::OFlags;

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
    path: PathBuf,
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
    /// (src/backend/postmaster/syslogger.c), or without logging_collector the postmaster's standard error.
    pub fn open(target: &Target) -> Result<Self, String> {
        let path = locate(target)?;
        let file = open_regular(&path)?;
        let end = file.metadata().map_or(0, |metadata| metadata.len());
        let mut log = Self {
            target: target.clone(),
            path,
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
        if let Ok(path) = locate(&self.target)
            && let Ok(file) = open_regular(&path)
            && !is_same(&file, &self.file)
        {
            self.path = path;
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

/// Where the server logs to now, as this process reaches it.
fn locate(target: &Target) -> Result<PathBuf, String> {
    let listed =
        process_file::read_in_working_directory(&target.root, target.pid(), "current_logfiles");
    match listed {
        Ok(listed) => {
            let path = listed_path(&listed).ok_or("current_logfiles names no file")?;
            Ok(if path.is_absolute() {
                target.server_path(&path)
            } else {
                target.data_directory().join(path)
            })
        }
        // Without logging_collector.
        Err(_) => Ok(target.root.path(format!("proc/{}/fd/2", target.pid()))),
    }
}

/// The file of current_logfiles; lines like `stderr log/postgresql-2026-11-21.log`. Any format has the messages in it.
fn listed_path(listed: &str) -> Option<PathBuf> {
    ["stderr", "csvlog", "jsonlog"].iter().find_map(|format| {
        listed
            .lines()
            .find_map(|line| line.strip_prefix(format)?.strip_prefix(' '))
            .map(PathBuf::from)
    })
}

/// Whoever may write to the directory must not be able to hold the reader up, as a FIFO would.
fn open_regular(path: &Path) -> Result<File, String> {
    let shown = std::fs::read_link(path).unwrap_or_else(|_| path.to_path_buf());
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    // Looked at first: to open a device or a terminal may do something.
    let is_file = std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    if !is_file {
        return Err(format!(
            "the server logs to {}, which is no file that can be read; set logging_collector, or log into a file",
            shown.display()
        ));
    }
    OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits() as i32)
        .open(path)
        .map_err(|error| {
            format!(
                "the server's log {}: {error}; run as its owner, or set log_file_mode",
                shown.display()
            )
        })
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

    #[test]
    fn current_logfiles_names_a_file_per_format() {
        assert_eq!(
            listed_path("csvlog log/a.csv\nstderr log/a.log\n"),
            Some(PathBuf::from("log/a.log"))
        );
        assert_eq!(
            listed_path("jsonlog /var/log/a.json\n"),
            Some(PathBuf::from("/var/log/a.json"))
        );
        assert_eq!(listed_path(""), None);
    }
}

use std::fs::{File, OpenOptions};
use std::io;
use std::io::{Seek, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use pgcalm_host::{Failure, replacement};
use rustix::fs::Access;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::args::json::JsonArg;

/// Prints to standard output. Whoever has closed it, as `head` does, wants no more and no complaint.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    offer(text)?;
    Ok(())
}

/// Prints to standard output; false if whoever reads it has closed it.
pub(crate) fn offer(text: &str) -> anyhow::Result<bool> {
    let mut output = io::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error).context("write to standard output"),
    }
}

/// Of the terminal that standard output is.
pub(crate) fn columns() -> Option<u16> {
    rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| size.ws_col).filter(|columns| *columns > 0)
}

/// Prints a line to standard error, whose end is not worth a panic, either.
pub(crate) fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Fails if `file` can't be written, before a run of minutes is made for it. What is there stays as it is.
pub(crate) fn check_writable(option: &str, file: Option<&Path>) -> anyhow::Result<()> {
    let Some(file) = file else { return Ok(()) };
    try_to_write(file).map_err(|error| {
        Failure::Usage(format!(
            "{option} {}: {error}; name a file in a directory that exists and can be written",
            file.display()
        ))
        .into()
    })
}

fn try_to_write(file: &Path) -> io::Result<()> {
    match std::fs::metadata(file).map(|metadata| metadata.file_type()) {
        Ok(kind) if kind.is_file() => OpenOptions::new().append(true).open(file).map(drop),
        // Opened for a trial, a FIFO would wait for its reader, and its reader take the trial's end for the end.
        Ok(kind) if kind.is_fifo() || kind.is_char_device() => Ok(rustix::fs::access(file, Access::WRITE_OK)?),
        Ok(kind) => Err(replacement::not_a_file(kind)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            OpenOptions::new().append(true).create(true).open(file)?;
            // An empty file would look like a report. A link that leads to it stays.
            std::fs::remove_file(file.canonicalize()?)
        }
        Err(error) => Err(error),
    }
}

/// Opens a file to be written from its beginning. A FIFO and a device such as a terminal are written to where they are, but a
/// disk is not written over.
fn create(file: &Path) -> io::Result<File> {
    match std::fs::metadata(file).map(|metadata| metadata.file_type()) {
        Ok(kind) if kind.is_block_device() => Err(replacement::not_a_file(kind)),
        _ => File::create(file),
    }
}

/// Shows a report as text, and as JSON where that was asked for.
pub(crate) fn present<T: Serialize + DeserializeOwned + PartialEq>(
    json: &JsonArg,
    document: &T,
    text: &str,
) -> anyhow::Result<()> {
    if json.replaces_text() {
        return print(&pgcalm_render::json::to_json_pretty(document)?);
    }
    let printed = print(text);
    // Of a run of hours, whose terminal may have gone.
    if let Some(file) = json.file() {
        write(file, &pgcalm_render::json::to_json_pretty(document)?)?;
        say(&format!("JSON: {}", file.display()));
    }
    printed
}

/// A value as one line of JSON.
pub(crate) fn json_line<T: Serialize>(value: &T) -> anyhow::Result<String> {
    let mut text = serde_json::to_string(value).context("write JSON")?;
    text.push('\n');
    Ok(text)
}

/// A file that gets a line of JSON at a time.
pub(crate) struct JsonLines {
    path: PathBuf,
    file: File,
}

impl JsonLines {
    /// Makes it empty.
    pub(crate) fn create(path: &Path) -> anyhow::Result<Self> {
        Ok(Self { path: path.to_path_buf(), file: create(path).with_context(|| format!("create {}", path.display()))? })
    }

    /// Adds a line.
    pub(crate) fn take<T: Serialize>(&mut self, value: &T) -> anyhow::Result<()> {
        let (line, whole) = (json_line(value)?, self.file.stream_position());
        let written = self.file.write_all(line.as_bytes());
        if let (Err(_), Ok(whole)) = (&written, whole) {
            // The lines before it can still be read, where it is a file.
            let _ = self.file.set_len(whole);
        }
        written.with_context(|| format!("write {}", self.path.display()))
    }

    /// Says where it is.
    pub(crate) fn close(self) {
        say(&format!("JSON: {}", self.path.display()));
    }
}

/// Writes a file whole, or leaves it as it was. It is not renamed into its place: owner, mode and links stay.
pub(crate) fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    let was_there = file.exists();
    let old = file.is_file().then(|| std::fs::read(file));
    let written = create(file).and_then(|mut file| file.write_all(text.as_bytes()));
    if written.is_err() {
        let _ = match old {
            // The room that it had is free again.
            Some(Ok(old)) => std::fs::write(file, old),
            _ if was_there => Ok(()),
            _ => file.canonicalize().and_then(std::fs::remove_file),
        };
    }
    written.with_context(|| format!("write {}", file.display()))
}

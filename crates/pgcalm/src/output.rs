use std::fs::OpenOptions;
use std::io;
use std::io::Write;
use std::path::Path;

use anyhow::Context;
use pgcalm_lab::LabError;

/// Prints to standard output. Whoever has closed it, as `head` does, wants no more and no complaint.
pub fn print(text: &str) -> anyhow::Result<()> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("write to standard output")
        }
        _ => Ok(()),
    }
}

/// Prints a line to standard error, whose end is not worth a panic, either.
pub fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Fails if `file` can't be written, before a run of minutes is made for it.
pub fn check_writable(option: &str, file: Option<&Path>) -> anyhow::Result<()> {
    let Some(file) = file else { return Ok(()) };
    let is_new = !file.exists();
    OpenOptions::new()
        .append(true)
        .create(true)
        .open(file)
        .map_err(|error| {
            LabError::Usage(format!(
                "{option} {}: {error}; name a file in a directory that exists and can be written",
                file.display()
            ))
        })?;
    if is_new {
        // An empty file would look like a report.
        std::fs::remove_file(file)?;
    }
    Ok(())
}

/// Writes a file whole.
pub fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(file, text).with_context(|| format!("write {}", file.display()))
}

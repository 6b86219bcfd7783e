use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::Duration;
use std::{io, thread};

use anyhow::{Context, bail};

use crate::interrupt::Interrupt;
use pgcalm_host::Failure;

/// Programs that may be absent, and the Debian package that brings them.
const PACKAGES: [(&str, &str); 11] = [
    ("cc", "gcc"),
    ("dd", "coreutils"),
    ("dmsetup", "dmsetup"),
    ("ip", "iproute2"),
    ("losetup", "mount"),
    ("mdadm", "mdadm"),
    ("mkfs.ext4", "e2fsprogs"),
    ("mkfs.xfs", "xfsprogs"),
    ("pgbackrest", "pgbackrest"),
    ("strace", "strace"),
    ("tc", "iproute2"),
];

/// This very program's path, as it was before this process made mounts of its own: in a chroot the kernel names it from
/// the host's root afterwards, where nothing is.
pub(crate) fn this_program() -> anyhow::Result<&'static Path> {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    if let Some(path) = PATH.get() {
        return Ok(path);
    }
    let path = std::env::current_exe().context("find the program of this process")?;
    Ok(PATH.get_or_init(|| path))
}

/// A command for `program` that shares neither terminal nor environment settings of PostgreSQL with us.
///
/// It gets a process group of its own: Ctrl-C must reach this process only, which then ends its children in order.
pub(crate) fn command(program: impl AsRef<Path>) -> Command {
    let mut command = Command::new(program.as_ref());
    command.stdin(Stdio::null()).process_group(0);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("PG") {
            command.env_remove(name);
        }
    }
    // Messages are parsed; let no translation get in between.
    command.env("LC_ALL", "C");
    command
}

/// Runs a command to its end and returns what it printed; `interrupt` ends it early.
pub(crate) fn run(command: &mut Command, interrupt: &Interrupt) -> anyhow::Result<String> {
    let child = spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()))?;
    finish(command, child, interrupt)
}

/// Starts a command; says which package is missing if it isn't there.
pub(crate) fn spawn(command: &mut Command) -> anyhow::Result<Child> {
    let name = name(command);
    command.spawn().map_err(|error| {
        if error.kind() == io::ErrorKind::NotFound {
            let package = PACKAGES
                .iter()
                .find(|(program, _)| *program == name)
                .map_or("the package that holds it", |(_, package)| *package);
            Failure::Host(format!("{name} not found: install {package} (e.g. apt-get install {package})")).into()
        } else {
            anyhow::Error::new(error).context(format!("start {name}"))
        }
    })
}

fn finish(command: &Command, mut child: Child, interrupt: &Interrupt) -> anyhow::Result<String> {
    let stdout = collect(child.stdout.take());
    let stderr = collect(child.stderr.take());
    let status = wait(&mut child, interrupt).with_context(|| name(command))?;
    let stdout = stdout.join().unwrap_or_default();
    let stderr = stderr.join().unwrap_or_default();
    if !status.success() {
        bail!("{} failed ({status}): {}", name(command), complaint(&stdout, &stderr));
    }
    Ok(stdout)
}

/// Waits for a child; kills it when interrupted.
pub(crate) fn wait(child: &mut Child, interrupt: &Interrupt) -> anyhow::Result<ExitStatus> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if let Err(interrupted) = interrupt.sleep(Duration::from_millis(20)) {
            child.kill()?;
            child.wait()?;
            return Err(interrupted.into());
        }
    }
}

/// What a program that failed has said. pg_amcheck prints what it finds, the place and then what is wrong there, and
/// has no other message.
fn complaint(stdout: &str, stderr: &str) -> String {
    let mut printed = stdout.lines().map(str::trim).filter(|line| !line.is_empty());
    match printed.next() {
        Some(first) if stderr.trim().is_empty() => {
            [first, printed.next().unwrap_or_default()].join(" ").trim_end().to_string()
        }
        // mkfs.xfs says all its options after what is wrong.
        _ => last_line(stderr.split("\nUsage:").next().unwrap_or(stderr)).to_string(),
    }
}

/// The lines that a program says, in whatever encoding, until it says no more. A reader that stopped at one would end the
/// program by a broken pipe.
pub(crate) fn lines(stream: impl Read) -> impl Iterator<Item = String> {
    BufReader::new(stream).split(b'\n').map_while(Result::ok).map(|line| String::from_utf8_lossy(&line).into_owned())
}

/// The last line that says something.
pub(crate) fn last_line(text: &str) -> &str {
    text.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or("no message")
}

fn collect(stream: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            // An error here means that the pipe is gone; what was read so far is the output.
            let _ = stream.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn name(command: &Command) -> String {
    Path::new(command.get_program()).file_name().unwrap_or(command.get_program()).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_program_is_named_with_its_last_message() {
        let error = run(command("ls").arg("/nonexistent-pgcalm"), &Interrupt::default()).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("ls failed (exit status: 2)"), "{text}");
        assert!(text.contains("No such file"), "{text}");
    }

    #[test]
    fn what_a_program_only_prints_is_its_message() {
        assert_eq!(complaint("index a:\n    ERROR: b\n    HINT: c\n", "\n"), "index a: ERROR: b");
        assert_eq!(complaint("a\n", "b\nc\n"), "c");
        assert_eq!(complaint("", ""), "no message");
    }

    #[test]
    fn output_larger_than_a_pipe_does_not_block() {
        let output = run(command("seq").arg("200000"), &Interrupt::default()).unwrap();
        assert!(output.ends_with("\n200000\n"));
    }

    #[test]
    fn a_program_that_is_not_installed_is_a_lack_of_the_host() {
        let error = run(&mut command("mkfs.pgcalm-none"), &Interrupt::default()).unwrap_err();
        assert!(matches!(error.downcast_ref::<Failure>(), Some(Failure::Host(_))));
    }
}

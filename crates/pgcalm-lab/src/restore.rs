use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use anyhow::{Context, bail};
use pgcalm_host::{HostRoot, block_device, mounts, process};
use rustix::io::Errno;
use rustix::ioctl::{IntegerSetter, Opcode};
use rustix::mount::UnmountFlags;
use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

use crate::interrupt::Interrupt;
use crate::{network, stacked, tool};

/// How long a server may take from SIGQUIT before it gets SIGKILL.
const GRACE: Duration = Duration::from_secs(5);

/// How long to wait for what must end by itself once nothing holds it up: processes inside the kernel, busy mounts.
const PATIENCE: Duration = Duration::from_secs(120);

/// Environment variable of a load command: the directory of its run.
pub(crate) const RUN_VARIABLE: &str = "PGCALM_RUN";

/// `LOOP_CTL_REMOVE` (include/uapi/linux/loop.h).
const LOOP_CTL_REMOVE: Opcode = 0x4C81;

/// One change to the host, told by what it takes to undo it.
///
/// Undoing is idempotent: the change may not have been made yet, or have been undone already.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Change {
    /// A file that is ours.
    File {
        /// To remove.
        path: PathBuf,
    },
    /// A directory that is ours.
    Directory {
        /// To remove with all it holds.
        path: PathBuf,
    },
    /// A loop device on a file of ours.
    LoopDevice {
        /// Its file; the device's number isn't known before it exists.
        backing_file: PathBuf,
    },
    /// Loop devices on parts of the loop device on a file of ours.
    LoopDevicesOn {
        /// The file of the device that they are on.
        image: PathBuf,
        /// Of the loop devices that the host had before, the last one's number: those beyond are removed.
        last: u32,
    },
    /// What lies on the loop device on a file of ours: a mapped device, an array.
    StackedOn {
        /// The file of the device below.
        backing_file: PathBuf,
    },
    /// All that is mounted below a directory that is ours.
    MountsBelow {
        /// The directory; not itself.
        directory: PathBuf,
    },
    /// A mounted filesystem.
    Mount {
        /// Where.
        target: PathBuf,
    },
    /// A value written to a kernel file: a sysctl, a queue limit, a cap.
    Setting {
        /// The file.
        file: PathBuf,
        /// What to write to get the former state back.
        former: String,
    },
    /// A control group.
    Cgroup {
        /// Its directory.
        path: PathBuf,
    },
    /// A network namespace, with the interfaces in it.
    NetworkNamespace {
        /// As ip-netns(8) names it.
        name: String,
    },
    /// PostgreSQL's programs with a working directory of ours: a server with its children, psql, pgbench.
    Processes {
        /// The directory of the program files.
        bindir: PathBuf,
        /// Their working directory is this or lies below.
        directory: PathBuf,
    },
    /// A load command with all that it has started, whatever programs they are and wherever they work.
    Command {
        /// What [`RUN_VARIABLE`] is in their environment.
        run: PathBuf,
    },
}

impl Change {
    /// Undoes the change.
    pub fn undo(&self, root: &HostRoot) -> anyhow::Result<()> {
        match self {
            Self::File { path } => {
                absent_is_fine(fs::remove_file(path)).with_context(|| format!("remove {}", path.display()))
            }
            Self::Directory { path } => {
                absent_is_fine(fs::remove_dir_all(path)).with_context(|| format!("remove {}", path.display()))
            }
            Self::LoopDevice { backing_file } => detach(root, backing_file),
            Self::LoopDevicesOn { image, last } => detach_all_on(root, image, *last),
            Self::StackedOn { backing_file } => {
                for device in block_device::loop_devices(root)? {
                    if stands_on(&device.backing_file, backing_file) {
                        stacked::take_down(root, &device.name)?;
                    }
                }
                Ok(())
            }
            Self::MountsBelow { directory } => unmount_below(root, directory),
            Self::Mount { target } => unmount(root, target),
            Self::Setting { file, former } => write_setting(root, file, former),
            Self::Cgroup { path } => absent_is_fine(fs::remove_dir(root.path(path)))
                .with_context(|| format!("remove control group {}", path.display())),
            Self::NetworkNamespace { name } => delete_namespace(root, name),
            Self::Processes { bindir, directory } => {
                let linked = linked(bindir);
                end_processes(directory, || find_processes(root, bindir, &linked, directory))
            }
            Self::Command { run } => end_processes(run, || find_commands(root, run)),
        }
    }

    /// Whether a reboot has undone it.
    pub fn ends_with_reboot(&self) -> bool {
        !matches!(self, Self::File { .. } | Self::Directory { .. })
    }
}

fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Detaches what stands on the loop device of `image`, and removes those that were added to the host for it.
fn detach_all_on(root: &HostRoot, image: &Path, last: u32) -> anyhow::Result<()> {
    let below: Vec<PathBuf> = block_device::loop_devices(root)?
        .into_iter()
        .filter(|device| stands_on(&device.backing_file, image))
        .map(|device| Path::new("/dev").join(device.name))
        .collect();
    let mut numbers = Vec::new();
    for device in block_device::loop_devices(root)? {
        if below.contains(&device.backing_file) {
            let number = device.name.strip_prefix("loop");
            numbers.extend(number.and_then(|number| number.parse::<u32>().ok()));
        }
    }
    for node in &below {
        detach(root, node)?;
    }
    if numbers.iter().any(|number| *number > last) {
        let control = fs::File::open("/dev/loop-control").context("open /dev/loop-control")?;
        for number in numbers.into_iter().filter(|number| *number > last) {
            // One that somebody else has taken meanwhile is refused, and theirs.
            // SAFETY: LOOP_CTL_REMOVE takes the number itself as its argument and accesses no memory of ours.
            let _ =
                unsafe { rustix::ioctl::ioctl(&control, IntegerSetter::<LOOP_CTL_REMOVE>::new_usize(number as usize)) };
        }
    }
    Ok(())
}

fn unmount_below(root: &HostRoot, directory: &Path) -> anyhow::Result<()> {
    // The latest first, should one be mounted on another.
    let mut targets: Vec<PathBuf> = mounts::read(root)?
        .into_iter()
        .map(|mount| mount.target)
        .filter(|target| target.starts_with(directory) && target != directory)
        .collect();
    targets.reverse();
    for target in targets {
        unmount(root, &target)?;
    }
    Ok(())
}

fn detach(root: &HostRoot, backing_file: &Path) -> anyhow::Result<()> {
    let end = Instant::now() + PATIENCE;
    loop {
        let devices = block_device::loop_devices(root)?;
        let ours: Vec<_> = devices.iter().filter(|device| stands_on(&device.backing_file, backing_file)).collect();
        if ours.is_empty() {
            return Ok(());
        }
        for device in ours {
            let node = format!("/dev/{}", device.name);
            // An interrupt must not stop the clean-up that it asked for: hence a fresh flag.
            let result = tool::run(tool::command("losetup").args(["--detach", &node]), &Interrupt::default());
            if Instant::now() > end {
                result?;
                bail!("{node} stays in use although nothing of the lab holds it; see lsof {node}");
            }
        }
        thread::sleep(Duration::from_millis(50));
    }
}

fn stands_on(file: &Path, ours: &Path) -> bool {
    file == ours
        || file.to_str().and_then(|file| file.strip_suffix(" (deleted)")).is_some_and(|file| Path::new(file) == ours)
}

fn unmount(root: &HostRoot, target: &Path) -> anyhow::Result<()> {
    let end = Instant::now() + PATIENCE;
    while mounts::read(root)?.iter().any(|m| m.target == target) {
        match rustix::mount::unmount(target, UnmountFlags::NOFOLLOW) {
            Ok(()) => {}
            Err(Errno::BUSY) if Instant::now() < end => thread::sleep(Duration::from_millis(100)),
            Err(error) => {
                return Err(error).with_context(|| {
                    format!("unmount {}; see fuser -vm {} for who holds it", target.display(), target.display())
                });
            }
        }
    }
    Ok(())
}

/// Its interfaces go with it, as soon as no process is in it any more.
fn delete_namespace(root: &HostRoot, name: &str) -> anyhow::Result<()> {
    if !root.path(network::NAMESPACES).join(name).exists() {
        return Ok(());
    }
    // An interrupt must not stop the clean-up that it asked for: hence a fresh flag.
    tool::run(tool::command("ip").args(["netns", "delete", name]), &Interrupt::default())?;
    Ok(())
}

fn write_setting(root: &HostRoot, file: &Path, former: &str) -> anyhow::Result<()> {
    match root.write(file, former) {
        Ok(()) => Ok(()),
        // The device or group that it belonged to has gone, and the setting with it.
        Err(pgcalm_host::Error::Write { source, .. })
            if source.kind() == io::ErrorKind::NotFound
                || source.raw_os_error() == Some(Errno::NODEV.raw_os_error()) =>
        {
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

fn end_processes(directory: &Path, find: impl Fn() -> anyhow::Result<Vec<(i32, PathBuf)>>) -> anyhow::Result<()> {
    let started = Instant::now();
    let mut signalled = Vec::new();
    loop {
        let found = find()?;
        if found.is_empty() {
            return Ok(());
        }
        let late = started.elapsed() > GRACE;
        if started.elapsed() > PATIENCE {
            bail!("processes in {} do not end: {found:?}", directory.display());
        }
        for (pid, program) in found {
            if signalled.contains(&pid) && !late {
                continue;
            }
            signalled.push(pid);
            let signal = if late {
                Signal::KILL
            } else if program.ends_with("postgres") {
                // An immediate shutdown: the data is not needed any more.
                Signal::QUIT
            } else {
                Signal::TERM
            };
            if let Some(pid) = Pid::from_raw(pid) {
                // It may have ended meanwhile.
                let _ = rustix::process::kill_process(pid, signal);
                // One that trouble has stopped takes no other signal.
                let _ = rustix::process::kill_process(pid, Signal::CONT);
            }
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// A link in a directory of programs.
struct Linked {
    /// What the kernel names a process by that was started by it.
    program: PathBuf,
    link: PathBuf,
}

/// The links in `bindir`; none if it is gone.
fn linked(bindir: &Path) -> Vec<Linked> {
    let paths = fs::read_dir(bindir).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let links = paths.filter(|path| path.is_symlink());
    links.filter_map(|link| Some(Linked { program: link.canonicalize().ok()?, link })).collect()
}

/// Processes of programs in `bindir`, or that it links to, that work in `directory`, with the path in `bindir`. Zombies have
/// neither and so don't count.
fn find_processes(
    root: &HostRoot,
    bindir: &Path,
    linked: &[Linked],
    directory: &Path,
) -> anyhow::Result<Vec<(i32, PathBuf)>> {
    let mut found = Vec::new();
    for process in process::table(root)? {
        let inside = process::working_directory(root, process.pid).is_some_and(|cwd| cwd.starts_with(directory));
        if !inside {
            continue;
        }
        let Some(program) = process::executable(root, process.pid) else { continue };
        if program.parent() == Some(bindir) {
            found.push((process.pid, program));
        } else if let Some(linked) = linked.iter().find(|linked| linked.program == program) {
            found.push((process.pid, linked.link.clone()));
        }
    }
    Ok(found)
}

/// Processes with [`RUN_VARIABLE`] in their environment, which children inherit. Zombies have none.
fn find_commands(root: &HostRoot, run: &Path) -> anyhow::Result<Vec<(i32, PathBuf)>> {
    let ours = [RUN_VARIABLE.as_bytes(), b"=", run.as_os_str().as_bytes()].concat();
    let mut found = Vec::new();
    for process in process::table(root)? {
        // It may have ended meanwhile.
        let environment = fs::read(root.path(format!("proc/{}/environ", process.pid)));
        let is_ours = environment.is_ok_and(|text| text.split(|b| *b == 0).any(|v| v == ours));
        if is_ours {
            let program = process::executable(root, process.pid);
            found.push((process.pid, program.unwrap_or_default()));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undoing_what_was_never_done_succeeds() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("absent");
        let root = HostRoot::default();
        for change in [
            Change::File { path: path.clone() },
            Change::Directory { path: path.clone() },
            Change::LoopDevice { backing_file: path.clone() },
            Change::LoopDevicesOn { image: path.clone(), last: 0 },
            Change::StackedOn { backing_file: path.clone() },
            Change::MountsBelow { directory: path.clone() },
            Change::Mount { target: path.clone() },
            Change::Setting { file: path.join("max_sectors_kb"), former: "1280".into() },
            Change::Cgroup { path: path.clone() },
            Change::NetworkNamespace { name: "pgcalm-lab-absent".into() },
            Change::Processes { bindir: path.clone(), directory: path.clone() },
            Change::Command { run: path.clone() },
        ] {
            change.undo(&root).unwrap();
        }
    }

    #[test]
    fn only_processes_inside_the_directory_are_ended() {
        let dir = tempfile::tempdir().unwrap();
        let inside = dir.path().canonicalize().unwrap();
        let sleep = fs::canonicalize("/bin/sleep").unwrap();
        let start = |cwd: &Path| tool::command(&sleep).arg("60").current_dir(cwd).spawn().unwrap();
        let mut ours = start(&inside);
        let mut foreign = start(Path::new("/"));
        Change::Processes { bindir: sleep.parent().unwrap().to_path_buf(), directory: inside }
            .undo(&HostRoot::default())
            .unwrap();
        assert!(ours.wait().unwrap().code().is_none());
        assert!(foreign.try_wait().unwrap().is_none());
        foreign.kill().unwrap();
        foreign.wait().unwrap();
    }

    #[test]
    fn processes_of_a_program_that_is_linked_to_are_ended_too() {
        let dir = tempfile::tempdir().unwrap();
        let inside = dir.path().canonicalize().unwrap();
        let bindir = inside.join("bin");
        fs::create_dir(&bindir).unwrap();
        let link = bindir.join("sleep");
        std::os::unix::fs::symlink("/bin/sleep", &link).unwrap();
        let start = |cwd: &Path| tool::command(&link).arg("60").current_dir(cwd).spawn().unwrap();
        let mut ours = start(&inside);
        let mut foreign = start(Path::new("/"));
        Change::Processes { bindir, directory: inside }.undo(&HostRoot::default()).unwrap();
        assert!(ours.wait().unwrap().code().is_none());
        assert!(foreign.try_wait().unwrap().is_none());
        foreign.kill().unwrap();
        foreign.wait().unwrap();
    }

    #[test]
    fn a_command_ends_with_what_it_has_started_in_whatever_group_and_directory() {
        let dir = tempfile::tempdir().unwrap();
        let start = |run: &Path| {
            tool::command("sh")
                .args(["-c", "cd /; setsid sleep 60 & echo $!; wait"])
                .env(RUN_VARIABLE, run)
                .stdout(std::process::Stdio::piped())
                .spawn()
                .unwrap()
        };
        let mut ours = start(dir.path());
        let mut foreign = start(&dir.path().join("other"));
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(ours.stdout.take().unwrap()), &mut line).unwrap();
        let grandchild: i32 = line.trim().parse().unwrap();
        let root = HostRoot::default();
        Change::Command { run: dir.path().to_path_buf() }.undo(&root).unwrap();
        assert!(ours.wait().unwrap().code().is_none());
        assert!(process::executable(&root, grandchild).is_none());
        assert!(foreign.try_wait().unwrap().is_none());
        Change::Command { run: dir.path().join("other") }.undo(&root).unwrap();
        foreign.wait().unwrap();
    }

    #[test]
    fn a_removed_backing_file_still_names_its_device() {
        let ours = Path::new("/lab/pgcalm-data.img");
        assert!(stands_on(ours, ours));
        assert!(stands_on(Path::new("/lab/pgcalm-data.img (deleted)"), ours));
        assert!(!stands_on(Path::new("/lab/pgcalm-data.img2"), ours));
    }
}

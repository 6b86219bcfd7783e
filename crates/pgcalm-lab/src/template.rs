use std::fs;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt, fchown, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use anyhow::{Context, anyhow, bail};
use rustix::fs::{Advice, OFlags};

use crate::connection::connect_to_copy;
use crate::installation::Installation;
use crate::interrupt::Interrupt;
use crate::journal::Change;
use crate::lab_dir::LabDir;
use crate::load::command_line::Told;
use crate::load::preparation::Preparation;
use crate::progress::Progress;
use crate::server::{Server, settings};
use crate::stage::Stage;
use crate::{private_dir, shared_file, tool};

/// Counts up when what a template holds changes, so that an old one is not taken for a new one.
const FORMAT: u32 = 1;

/// What is copied at once.
const COPY: usize = 4 << 20;

/// Enough for direct I/O on any device.
const ALIGNMENT: usize = 4096;

/// Files that are copied at the same time: one reads while the other writes.
const COPIERS: usize = 2;

/// Rows that are handed to the server at once.
const ROWS: u64 = 10_000;

/// After any preparation. Frozen and with its hint bits set, a page is dirtied by the load only, not by being read.
const FINISH: &str = "\\echo vacuuming\nvacuum (freeze, analyze);\ncheckpoint;\n";

/// A cleanly shut down cluster with the loaded table.
#[derive(Debug)]
pub(crate) struct Template {
    path: PathBuf,
}

impl Template {
    /// Where the template that `preparation` makes is or will be.
    pub(crate) fn place(lab: &LabDir, installation: &Installation, preparation: &Preparation) -> PathBuf {
        lab.templates().join(format!("pg{}-{}-v{FORMAT}", installation.major, preparation.key()))
    }

    /// Takes the template that an earlier run left, or makes it.
    pub(crate) fn obtain(stage: &Stage<'_>, preparation: &Preparation) -> anyhow::Result<Self> {
        let path = Self::place(&stage.dir, &stage.installation, preparation);
        if path.join("PG_VERSION").exists() {
            // Last used, for who needs room.
            File::open(&path)?.set_modified(SystemTime::now())?;
            stage.progress.note(&format!("using the loaded table in {}", path.display()));
            return Ok(Self { path });
        }
        stage.progress.note(&preparation.announcement());
        make(stage, &path, &["--data-checksums"], |data| {
            load(stage, data, preparation)?;
            stage.progress.note("syncing the loaded table");
            Ok(())
        })?;
        Ok(Self { path })
    }

    /// Removes templates other than that at `kept`, last used longest ago first, until there are `needed` bytes of `space`; none if
    /// all of them are not enough. They are made again when needed.
    pub(crate) fn make_room(
        lab: &LabDir,
        kept: &Path,
        needed: u64,
        space: impl Fn() -> anyhow::Result<u64>,
        progress: &Progress,
    ) -> anyhow::Result<()> {
        if !lab.templates().exists() || space()? >= needed {
            return Ok(());
        }
        let mut others = Vec::new();
        let mut bytes = 0;
        for entry in fs::read_dir(lab.templates())? {
            let entry = entry?;
            if entry.path() != kept {
                others.push((entry.metadata()?.modified()?, entry.path()));
                for_each_file(&entry.path(), &mut |file| {
                    bytes += file.metadata()?.len();
                    Ok(())
                })?;
            }
        }
        if space()? + bytes < needed {
            return Ok(());
        }
        others.sort();
        for (_, path) in others {
            if space()? >= needed {
                break;
            }
            progress.note(&format!("making room: removing {}", path.display()));
            // One that is half removed must not be taken for a whole one.
            let removed = path.with_extension("old");
            fs::rename(&path, &removed)
                .and_then(|()| fs::remove_dir_all(&removed))
                .with_context(|| format!("remove {}", path.display()))?;
        }
        Ok(())
    }

    /// Bytes of its databases: tables and indexes.
    pub(crate) fn table_bytes(&self) -> anyhow::Result<u64> {
        let mut bytes = 0;
        for_each_file(&self.path.join("base"), &mut |file| {
            bytes += file.metadata()?.len();
            Ok(())
        })?;
        Ok(bytes)
    }

    /// Copies the cluster to `data`, its WAL to `wal` if that is to be elsewhere. Little of it is in the page cache then.
    pub(crate) fn copy_to(&self, data: &Path, wal: Option<&Path>, stage: &Stage<'_>) -> anyhow::Result<()> {
        let Stage { installation, interrupt, .. } = stage;
        copy(&self.path, data, wal, Cache::Past, installation, interrupt)
    }

    /// The same for many copies: the template stays in the page cache.
    pub(crate) fn copy_again_to(&self, data: &Path, wal: &Path, stage: &Stage<'_>) -> anyhow::Result<()> {
        copy(&self.path, data, Some(wal), Cache::PastTarget, &stage.installation, stage.interrupt)
    }
}

/// Makes a cluster at `path` for others to be copied from. `fill` starts a server on it and shuts it down; what it sets for
/// that is not left in it. Nothing is there until all of it is, on disk.
pub(crate) fn make<T>(
    stage: &Stage<'_>,
    path: &Path,
    arguments: &[&str],
    fill: impl FnOnce(&Path) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let directory = stage.dir.templates();
    fs::create_dir_all(&directory).with_context(|| format!("create {}", directory.display()))?;
    let unfinished = path.with_extension("new");
    let undo = stage.journal.note(Change::Directory { path: unfinished.clone() })?;
    stage.new_cluster(&unfinished, arguments)?;
    let configuration = unfinished.join("postgresql.conf");
    let original = shared_file::read(&configuration)?;
    let filled = fill(&unfinished)?;
    shared_file::write(&configuration, original)?;
    for_each_file(&unfinished, &mut |file| {
        stage.interrupt.check()?;
        Ok(shared_file::open_for_reading(file)?.sync_all()?)
    })?;
    fs::rename(&unfinished, path).with_context(|| format!("rename {}", unfinished.display()))?;
    // Nothing is at the old name any more.
    undo.now()?;
    Ok(filled)
}

fn load(stage: &Stage<'_>, data: &Path, preparation: &Preparation) -> anyhow::Result<()> {
    let Stage { dir: lab, journal, installation, progress, interrupt, .. } = stage;
    // Nothing of this needs to survive a crash: a template counts only once it is renamed, and it is synced before.
    let settings = settings([
        ("fsync", "off"),
        ("synchronous_commit", "off"),
        ("full_page_writes", "off"),
        ("wal_level", "minimal"),
        ("max_wal_senders", "0"),
        ("max_wal_size", "16GB"),
        ("checkpoint_timeout", "1h"),
        ("shared_buffers", "256MB"),
        ("maintenance_work_mem", "512MB"),
        ("autovacuum", "off"),
    ]);
    let server = stage.start(stage.places(data.to_path_buf()), &settings)?;

    let (script, rows) = match preparation {
        Preparation::Standard { rows } => {
            load_standard(&lab.run(), *rows, progress, interrupt)?;
            (String::new(), *rows)
        }
        Preparation::Script { text, rows, .. } => (text.clone(), *rows),
        Preparation::Pgbench { scale } => {
            tool::run(
                server
                    .client("pgbench")
                    // Vacuumed with the rest.
                    .args(["-i", "-q", "-I", "dtgp", "-s", &scale.to_string(), "postgres"]),
                interrupt,
            )?;
            (String::new(), scale * 100_000)
        }
        Preparation::Command { line, rows, clients, seconds, .. } => {
            let directory = lab.run();
            let told = Told { rows: *rows, clients: *clients, seconds: *seconds, directory: &directory };
            // Ends what it leaves behind, too.
            let _command = journal.note(Change::Command { run: directory.clone() })?;
            tool::run(&mut line.command(installation, &told), interrupt).context("--prepare")?;
            (String::new(), *rows)
        }
    };
    run_script(&server, format!("{script}\n{FINISH}"), rows, progress, interrupt)?;
    progress.status("shutting the loading server down");
    server.shut_down(interrupt)
}

/// Runs a script by psql, showing what it prints.
fn run_script(
    server: &Server,
    script: String,
    rows: u64,
    progress: &Progress,
    interrupt: &Interrupt,
) -> anyhow::Result<()> {
    let mut child = tool::spawn(
        server
            .psql()
            .args(["-v", &format!("rows={rows}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped()),
    )?;
    let (Some(mut stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        bail!("psql has no pipes")
    };
    // The script fits into the pipe's buffer or is read on as psql goes; either way not by this thread.
    let writer = std::thread::spawn(move || stdin.write_all(script.as_bytes()));
    let errors = std::thread::spawn(move || tool::lines(stderr).collect::<Vec<_>>().join("\n"));
    let (sender, lines) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for line in tool::lines(stdout) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    let status = loop {
        while let Ok(line) = lines.try_recv() {
            progress.status(&line);
        }
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if let Err(interrupted) = interrupt.sleep(std::time::Duration::from_millis(100)) {
            child.kill()?;
            child.wait()?;
            return Err(interrupted.into());
        }
    };
    let _ = writer.join();
    let errors = errors.join().unwrap_or_default();
    if !status.success() {
        bail!("load failed ({status}): {}", tool::last_line(&errors));
    }
    Ok(())
}

/// Creates and fills the standard table. In one transaction, so that it needs no WAL, and by COPY FREEZE, so that nothing of it
/// has to be written again.
fn load_standard(socket: &Path, rows: u64, progress: &Progress, interrupt: &Interrupt) -> anyhow::Result<()> {
    let mut client = connect_to_copy(socket)?;
    let mut transaction = client.transaction()?;
    transaction.batch_execute("create table test (id int, info text, crt_time timestamp)")?;
    let now: i64 = transaction
        .query_one("select (extract(epoch from localtimestamp - timestamp '2000-01-01') * 1000000)::bigint", &[])?
        .get(0);
    let mut copy = transaction.copy_in("copy test from stdin with (format binary, freeze)")?;
    copy.write_all(COPY_HEADER)?;
    let mut random = fastrand::Rng::new();
    let mut part = Vec::new();
    let mut first = 1;
    while first <= rows {
        interrupt.check()?;
        let last = rows.min(first + ROWS - 1);
        part.clear();
        for id in first..=last {
            put_row(&mut part, id as i32, random.u128(..), now);
        }
        copy.write_all(&part)?;
        progress.status(&format!("loading: {last} of {rows} rows"));
        first = last + 1;
    }
    copy.write_all(&(-1i16).to_be_bytes())?;
    copy.finish()?;
    progress.status("building the index");
    transaction.batch_execute("alter table test add constraint test_pkey primary key (id)")?;
    transaction.commit()?;
    Ok(())
}

/// Signature, flags and length of an extension that there is not ("Binary Format" of COPY).
const COPY_HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

/// A row in COPY's binary format: an id, 32 hexadecimal digits, a time.
fn put_row(out: &mut Vec<u8>, id: i32, info: u128, time: i64) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.extend(3i16.to_be_bytes());
    out.extend(4i32.to_be_bytes());
    out.extend(id.to_be_bytes());
    out.extend(32i32.to_be_bytes());
    out.extend((0..32).map(|digit| DIGITS[(info >> (digit * 4) & 15) as usize]));
    out.extend(8i32.to_be_bytes());
    out.extend(time.to_be_bytes());
}

/// Copies directory `from` to `to`; its `pg_wal` goes to `wal` if given, with a link in its place.
pub(crate) fn copy_tree(
    from: &Path,
    to: &Path,
    wal: Option<&Path>,
    installation: &Installation,
    interrupt: &Interrupt,
) -> anyhow::Result<()> {
    copy(from, to, wal, Cache::Through, installation, interrupt)
}

/// Whether copies are written through the page cache, which has them then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cache {
    /// They are.
    Through,
    /// Large files are not, but for their end.
    Past,
    /// The same, and what is copied is not dropped from it.
    PastTarget,
}

fn copy(
    from: &Path,
    to: &Path,
    wal: Option<&Path>,
    cache: Cache,
    installation: &Installation,
    interrupt: &Interrupt,
) -> anyhow::Result<()> {
    let mut files = Vec::new();
    make_tree(from, to, wal, installation, &mut files)?;
    // The largest first, so that all copiers end at about the same time.
    files.sort_by_key(|file| std::cmp::Reverse(file.length));
    let next = AtomicUsize::new(0);
    let copy_files = || -> anyhow::Result<()> {
        let mut buffer = vec![0; COPY + ALIGNMENT];
        while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            copy_file(file, cache, installation, &mut buffer, interrupt)
                .with_context(|| format!("copy {} to {}", file.source.display(), file.target.display()))?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let copiers: Vec<_> = (0..COPIERS).map(|_| scope.spawn(copy_files)).collect();
        // All of them, whatever became of the first.
        let results: Vec<_> = copiers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        results.into_iter().try_for_each(|result| result.map_err(|_| anyhow!("copier panicked"))?)
    })
}

/// A file to be copied.
struct ToCopy {
    source: PathBuf,
    target: PathBuf,
    length: u64,
}

/// Makes the directories, and lists the files.
fn make_tree(
    from: &Path,
    to: &Path,
    wal: Option<&Path>,
    installation: &Installation,
    files: &mut Vec<ToCopy>,
) -> anyhow::Result<()> {
    private_dir::create(to, installation)?;
    for entry in fs::read_dir(from).with_context(|| format!("read {}", from.display()))? {
        let entry = entry?;
        let source = entry.path();
        let target = to.join(entry.file_name());
        match wal.filter(|_| entry.file_name() == "pg_wal") {
            Some(wal) => {
                make_tree(&source, wal, None, installation, files)?;
                symlink(wal, &target)?;
            }
            None if entry.file_type()?.is_dir() => {
                make_tree(&source, &target, None, installation, files)?;
            }
            None => files.push(ToCopy { length: entry.metadata()?.len(), source, target }),
        }
    }
    Ok(())
}

/// Not `fs::copy`, which can't be interrupted within a segment of 1 GiB. What is written past the page cache need not be written at
/// an unmount that follows, by one thread, while nothing is read.
fn copy_file(
    file: &ToCopy,
    cache: Cache,
    installation: &Installation,
    buffer: &mut [u8],
    interrupt: &Interrupt,
) -> anyhow::Result<()> {
    let to = &file.target;
    // Both trees are the servers' user's.
    let source = fs::OpenOptions::new().read(true).custom_flags(OFlags::NOFOLLOW.bits() as i32).open(&file.source)?;
    let target = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
    fchown(&target, Some(installation.uid), Some(installation.gid))?;
    let start = buffer.as_ptr().align_offset(ALIGNMENT);
    let buffer = &mut buffer[start..start + COPY];
    let mut offset = 0;
    if cache != Cache::Through
        && file.length >= COPY as u64
        && let Ok(direct) =
            fs::OpenOptions::new().write(true).custom_flags((OFlags::DIRECT | OFlags::NOFOLLOW).bits() as i32).open(to)
    {
        while fill(&source, buffer, offset)? == COPY {
            interrupt.check()?;
            direct.write_all_at(buffer, offset)?;
            offset += COPY as u64;
        }
    }
    loop {
        interrupt.check()?;
        let length = fill(&source, buffer, offset)?;
        target.write_all_at(&buffer[..length], offset)?;
        offset += length as u64;
        if length < COPY {
            break;
        }
    }
    // What is read here belongs to no contestant's memory. Left there, the host runs out of it, and its kswapd takes some from the
    // contestants' control group as well.
    if cache == Cache::Past {
        rustix::fs::fadvise(&source, 0, None, Advice::DontNeed)?;
    }
    Ok(())
}

/// Reads from `offset` as much as fits or there is.
fn fill(source: &File, buffer: &mut [u8], offset: u64) -> std::io::Result<usize> {
    let mut length = 0;
    while length < buffer.len() {
        match source.read_at(&mut buffer[length..], offset + length as u64)? {
            0 => break,
            read => length += read,
        }
    }
    Ok(length)
}

/// Calls `f` for every regular file below `directory`.
pub(crate) fn for_each_file(directory: &Path, f: &mut impl FnMut(&Path) -> anyhow::Result<()>) -> anyhow::Result<()> {
    for entry in fs::read_dir(directory).with_context(|| format!("read {}", directory.display()))? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            for_each_file(&entry.path(), f)?;
        } else if kind.is_file() {
            f(&entry.path()).with_context(|| entry.path().display().to_string())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;

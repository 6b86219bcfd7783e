use std::collections::BTreeMap;
use std::fs;
use std::fs::File;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Read;
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::fs::chown;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::Context;
use anyhow::bail;

use crate::installation::Installation;
use crate::interrupt::Interrupt;
use crate::journal::Change;
use crate::journal::Journal;
use crate::lab_dir::LabDir;
use crate::load::command_line::Told;
use crate::load::preparation::Preparation;
use crate::progress::Progress;
use crate::server::Places;
use crate::server::Server;
use crate::tool;

/// Counts up when what a template holds changes, so that an old one is not taken for a new one.
const FORMAT: u32 = 1;

/// Rows are loaded in parts, so that progress is seen and an interrupt is heard.
const PART: u64 = 500_000;

/// After any preparation. Frozen and with its hint bits set, a page is dirtied by the load only, not by being read.
const FINISH: &str = "\\echo vacuuming\nvacuum (freeze, analyze);\ncheckpoint;\n";

/// A cleanly shut down cluster with the loaded table.
#[derive(Debug)]
pub struct Template {
    path: PathBuf,
}

impl Template {
    /// Where the template that `preparation` makes is or will be.
    pub fn place(lab: &LabDir, installation: &Installation, preparation: &Preparation) -> PathBuf {
        lab.templates().join(format!(
            "pg{}-{}-v{FORMAT}",
            installation.major,
            preparation.key()
        ))
    }

    /// Takes the template that an earlier run left, or makes it.
    pub fn obtain(
        lab: &LabDir,
        journal: &Journal,
        installation: &Installation,
        preparation: &Preparation,
        progress: &Progress,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Self> {
        let path = Self::place(lab, installation, preparation);
        if path.join("PG_VERSION").exists() {
            progress.note(&format!("using the loaded table in {}", path.display()));
            return Ok(Self { path });
        }
        fs::create_dir_all(lab.templates())
            .with_context(|| format!("create {}", lab.templates().display()))?;
        let unfinished = path.with_extension("new");
        let undo = journal.note(Change::Directory {
            path: unfinished.clone(),
        })?;
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished)?;
        }
        create_private_dir(&unfinished, installation)?;
        let _processes = journal.note(installation.processes_in(&unfinished))?;
        progress.note(&preparation.announcement());
        tool::run(
            installation.initdb(&unfinished).arg("--data-checksums"),
            interrupt,
        )?;
        let configuration = fs::read_to_string(unfinished.join("postgresql.conf"))?;
        load(
            lab,
            journal,
            installation,
            &unfinished,
            preparation,
            progress,
            interrupt,
        )?;
        // Without the settings of the load.
        fs::write(unfinished.join("postgresql.conf"), configuration)?;
        progress.note("syncing the loaded table");
        for_each_file(&unfinished, &mut |file| {
            interrupt.check()?;
            Ok(File::open(file)?.sync_all()?)
        })?;
        fs::rename(&unfinished, &path)
            .with_context(|| format!("rename {}", unfinished.display()))?;
        // Nothing is at the old name any more.
        undo.now()?;
        Ok(Self { path })
    }

    /// Bytes of its databases: tables and indexes.
    pub fn table_bytes(&self) -> anyhow::Result<u64> {
        let mut bytes = 0;
        for_each_file(&self.path.join("base"), &mut |file| {
            bytes += file.metadata()?.len();
            Ok(())
        })?;
        Ok(bytes)
    }

    /// Copies the cluster to `data`, its WAL to `wal` if that is to be elsewhere.
    pub fn copy_to(
        &self,
        data: &Path,
        wal: Option<&Path>,
        installation: &Installation,
        interrupt: &Interrupt,
    ) -> anyhow::Result<()> {
        copy_tree(&self.path, data, wal, installation, interrupt)
    }
}

fn load(
    lab: &LabDir,
    journal: &Journal,
    installation: &Installation,
    data: &Path,
    preparation: &Preparation,
    progress: &Progress,
    interrupt: &Interrupt,
) -> anyhow::Result<()> {
    // Nothing of this needs to survive a crash: a template counts only once it is renamed, and it is synced before.
    let settings: BTreeMap<String, String> = [
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
    ]
    .into_iter()
    .map(|(name, value)| (name.to_string(), value.to_string()))
    .collect();
    let places = Places {
        data: data.to_path_buf(),
        socket: lab.run(),
        log: lab.run().join("template.log"),
    };
    let server = Server::start(journal, installation, places, &settings, interrupt)?;

    let (script, rows) = match preparation {
        Preparation::Standard { rows } => (standard_script(*rows), *rows),
        Preparation::Script { text, rows, .. } => (text.clone(), *rows),
        Preparation::Pgbench { scale } => {
            tool::run(
                server
                    .client("pgbench")
                    .args(["-i", "-q", "-s", &scale.to_string(), "postgres"]),
                interrupt,
            )?;
            (String::new(), scale * 100_000)
        }
        Preparation::Command {
            line,
            rows,
            clients,
            seconds,
            ..
        } => {
            let directory = lab.run();
            let told = Told {
                rows: *rows,
                clients: *clients,
                seconds: *seconds,
                directory: &directory,
            };
            // Ends what it leaves behind, too.
            let _command = journal.note(Change::Command {
                run: directory.clone(),
            })?;
            tool::run(&mut line.command(installation, &told), interrupt).context("--prepare")?;
            (String::new(), *rows)
        }
    };
    run_script(
        &server,
        format!("{script}\n{FINISH}"),
        rows,
        progress,
        interrupt,
    )?;
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
    let (Some(mut stdin), Some(stdout), Some(stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        bail!("psql has no pipes");
    };
    // The script fits into the pipe's buffer or is read on as psql goes; either way not by this thread.
    let writer = std::thread::spawn(move || stdin.write_all(script.as_bytes()));
    let errors = std::thread::spawn(move || {
        let mut text = String::new();
        let _ = BufReader::new(stderr).read_to_string(&mut text);
        text
    });
    let (sender, lines) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
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

/// One transaction creates and fills the table, which so needs no WAL.
fn standard_script(rows: u64) -> String {
    let mut script =
        String::from("begin;\ncreate table test (id int, info text, crt_time timestamp);\n");
    let mut first = 1;
    while first <= rows {
        let last = rows.min(first + PART - 1);
        script.push_str(&format!(
            "insert into test select i, md5(random()::text), now() from generate_series({first}, {last}) i;\n\
             \\echo loading: {last} of {rows} rows\n"
        ));
        first = last + 1;
    }
    script.push_str(
        "\\echo building the index\n\
         alter table test add constraint test_pkey primary key (id);\n\
         commit;\n",
    );
    script
}

/// Creates a directory that only the servers' user may enter, as a data directory must be.
pub fn create_private_dir(path: &Path, installation: &Installation) -> anyhow::Result<()> {
    fs::DirBuilder::new()
        .mode(0o700)
        .create(path)
        .and_then(|()| chown(path, Some(installation.uid), Some(installation.gid)))
        .with_context(|| format!("create {}", path.display()))
}

/// Copies directory `from` to `to`; its `pg_wal` goes to `wal` if given, with a link in its place.
pub fn copy_tree(
    from: &Path,
    to: &Path,
    wal: Option<&Path>,
    installation: &Installation,
    interrupt: &Interrupt,
) -> anyhow::Result<()> {
    create_private_dir(to, installation)?;
    let mut buffer = vec![0; 1 << 20];
    for entry in fs::read_dir(from).with_context(|| format!("read {}", from.display()))? {
        let entry = entry?;
        let source = entry.path();
        let target = to.join(entry.file_name());
        match wal.filter(|_| entry.file_name() == "pg_wal") {
            Some(wal) => {
                copy_tree(&source, wal, None, installation, interrupt)?;
                symlink(wal, &target)?;
            }
            None if entry.file_type()?.is_dir() => {
                copy_tree(&source, &target, None, installation, interrupt)?;
            }
            None => copy_file(&source, &target, installation, &mut buffer, interrupt)
                .with_context(|| format!("copy {} to {}", source.display(), target.display()))?,
        }
    }
    Ok(())
}

/// Not `fs::copy`, which can't be interrupted within a segment of 1 GiB.
fn copy_file(
    from: &Path,
    to: &Path,
    installation: &Installation,
    buffer: &mut [u8],
    interrupt: &Interrupt,
) -> anyhow::Result<()> {
    let mut source = File::open(from)?;
    let mut target = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(to)?;
    chown(to, Some(installation.uid), Some(installation.gid))?;
    loop {
        interrupt.check()?;
        let length = source.read(buffer)?;
        if length == 0 {
            return Ok(());
        }
        target.write_all(&buffer[..length])?;
    }
}

/// Calls `f` for every regular file below `directory`.
pub fn for_each_file(
    directory: &Path,
    f: &mut impl FnMut(&Path) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
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
mod tests {
    use super::*;

    #[test]
    fn every_row_is_loaded_once() {
        let script = standard_script(1_200_000);
        let series: Vec<&str> = script
            .lines()
            .filter_map(|line| line.split_once("generate_series("))
            .map(|(_, rest)| rest)
            .collect();
        assert_eq!(
            series,
            [
                "1, 500000) i;",
                "500001, 1000000) i;",
                "1000001, 1200000) i;"
            ]
        );
    }
}

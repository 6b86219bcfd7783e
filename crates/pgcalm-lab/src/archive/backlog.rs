//! A cluster with WAL that was never archived.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::archive::options::Options;
use crate::installation::Installation;
use crate::interrupt::Interrupt;
use crate::server::{Server, settings};
use crate::stage::Stage;
use crate::{shared_file, template, tool};

/// Counts up when what a template holds changes.
const FORMAT: u32 = 1;

/// Rows of the table that pgbench upserts.
pub(super) const ROWS: u64 = 100_000;

/// The slot that holds the backlog, for pg_receivewal.
pub(super) const SLOT: &str = "pgcalm";

/// The list of the backlog's files in the template, one name a line.
const LIST: &str = "pgcalm-backlog";

/// Rows whose WAL is about 50 MB: text of random digits, as compressible as WAL of inserts is.
const FILL: &str = "insert into filler select i, md5(random()::text), now() from generate_series(1, 400000) i";

/// A cleanly shut down cluster with its backlog.
#[derive(Debug)]
pub(super) struct Backlog {
    path: PathBuf,
    /// Names of the WAL files, oldest first.
    pub files: Vec<String>,
    /// Whether they are to be made as empty files.
    empty: bool,
}

impl Backlog {
    /// Takes the template that an earlier run left, or makes it.
    pub(super) fn obtain(options: &Options, stage: &Stage<'_>) -> anyhow::Result<Self> {
        let path = stage.dir.templates().join(format!(
            "pg{}-backlog{}x{}{}-v{FORMAT}",
            stage.installation.major,
            options.backlog_files(),
            options.segment_size,
            if options.empty { "-empty" } else { "" }
        ));
        if path.join(LIST).exists() {
            stage.progress.note(&format!("using the backlog in {}", path.display()));
            return Self::open(path, options);
        }
        stage.progress.note(&format!("making a backlog of {} WAL files", options.backlog_files()));
        let segment_size = format!("--wal-segsize={}", options.segment_size.bytes() >> 20);
        let arguments = ["--data-checksums", &segment_size];
        template::make(stage, &path, &arguments, |data| {
            let files = Maker { options, stage, data }.make()?;
            Ok(shared_file::write(&data.join(LIST), files.join("\n"))?)
        })?;
        Self::open(path, options)
    }

    fn open(path: PathBuf, options: &Options) -> anyhow::Result<Self> {
        let list = path.join(LIST);
        let text = shared_file::read(&list).with_context(|| format!("read {}", list.display()))?;
        Ok(Self {
            files: String::from_utf8_lossy(&text).lines().map(str::to_string).collect(),
            empty: options.empty,
            path,
        })
    }

    /// Copies the cluster to `data`, its WAL to `wal`. Nothing of the backlog is ready to be archived there.
    pub(super) fn copy_to(
        &self,
        data: &Path,
        wal: &Path,
        installation: &Installation,
        interrupt: &Interrupt,
    ) -> anyhow::Result<()> {
        template::copy_tree(&self.path, data, Some(wal), installation, interrupt)?;
        if self.empty {
            for name in &self.files {
                let path = wal.join(name);
                shared_file::create(&path).with_context(|| format!("create {}", path.display()))?;
                shared_file::give(&path, installation)?;
            }
        }
        Ok(())
    }

    /// What the file `name` holds.
    pub(super) fn original(&self, name: &str) -> PathBuf {
        self.path.join("pg_wal").join(name)
    }
}

/// What it takes to make a template.
struct Maker<'a> {
    options: &'a Options,
    stage: &'a Stage<'a>,
    data: &'a Path,
}

impl Maker<'_> {
    fn make(&self) -> anyhow::Result<Vec<String>> {
        let interrupt = self.stage.interrupt;
        let files = if self.options.empty { self.move_ahead()? } else { Vec::new() };
        let server = self.start()?;
        server.sql(
            &format!(
                "create table test (id int primary key, info text, crt_time timestamp); \
                 insert into test select i, md5(random()::text), now() from generate_series(1, {ROWS}) i; \
                 create table filler (id int, info text, crt_time timestamp)"
            ),
            interrupt,
        )?;
        server.sql("vacuum (freeze, analyze) test", interrupt)?;
        let files = if self.options.empty { files } else { self.fill(&server)? };
        server.shut_down(interrupt)?;
        // Nothing is ready: runs say when.
        let status = self.status_directory();
        for entry in fs::read_dir(&status)? {
            fs::remove_file(entry?.path())?;
        }
        Ok(files)
    }

    /// Moves the start of WAL behind the names of an empty backlog, which so is old WAL to the server.
    fn move_ahead(&self) -> anyhow::Result<Vec<String>> {
        let names = names_from(1, self.options.files + 16, self.options.segment_size.bytes());
        let (files, ahead) = names.split_at(self.options.files as usize);
        let next = ahead.last().context("no name for the first WAL file")?;
        tool::run(
            self.stage.installation.command("pg_resetwal", self.data).args(["-l", next, "-D"]).arg(self.data),
            self.stage.interrupt,
        )?;
        Ok(files.to_vec())
    }

    fn start(&self) -> anyhow::Result<Server> {
        // Nothing of this needs to survive a crash.
        let settings = settings([
            ("fsync", "off"),
            ("max_wal_size", "100GB"),
            ("checkpoint_timeout", "1h"),
            ("shared_buffers", "256MB"),
            ("autovacuum", "off"),
            // Files become ready, and nothing takes them.
            ("archive_mode", "on"),
            ("archive_command", ""),
        ]);
        self.stage.start(self.stage.places(self.data.to_path_buf()), &settings)
    }

    fn fill(&self, server: &Server) -> anyhow::Result<Vec<String>> {
        server.sql("select pg_switch_wal()", self.stage.interrupt)?;
        server.sql("checkpoint", self.stage.interrupt)?;
        server.sql(&format!("select pg_create_physical_replication_slot('{SLOT}', true)"), self.stage.interrupt)?;
        let before = self.ready()?;
        let wanted = self.options.backlog_files() as usize;
        loop {
            let mut files: Vec<String> = self.ready()?.difference(&before).cloned().collect();
            self.stage.progress.status(&format!("making a backlog: {} of {wanted} WAL files", files.len()));
            if files.len() >= wanted {
                files.truncate(wanted);
                server.sql("drop table filler", self.stage.interrupt)?;
                return Ok(files);
            }
            server.sql(FILL, self.stage.interrupt)?;
            server.sql("truncate filler", self.stage.interrupt)?;
        }
    }

    fn status_directory(&self) -> PathBuf {
        self.data.join("pg_wal/archive_status")
    }

    fn ready(&self) -> anyhow::Result<BTreeSet<String>> {
        let mut ready = BTreeSet::new();
        for entry in fs::read_dir(self.status_directory())? {
            let name = entry?.file_name();
            let Some(name) = name.to_str() else { bail!("{name:?} in archive_status") };
            if let Some(name) = name.strip_suffix(".ready") {
                ready.insert(name.to_string());
            }
        }
        Ok(ready)
    }
}

/// `count` names of WAL files on timeline 1 from segment number `first` (`XLogFileName`, xlog_internal.h).
fn names_from(first: u64, count: u32, segment_size: u64) -> Vec<String> {
    let per_log = (1 << 32) / segment_size;
    (first..first + u64::from(count))
        .map(|number| format!("00000001{:08X}{:08X}", number / per_log, number % per_log))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_on_in_the_next_log_where_one_is_full() {
        assert_eq!(
            names_from(254, 3, 16 << 20),
            ["0000000100000000000000FE", "0000000100000000000000FF", "000000010000000100000000"]
        );
        assert_eq!(names_from(4, 1, 1 << 30), ["000000010000000100000000"]);
    }
}

//! What makes a server lose data, so that the cycles show whether they would notice.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::io::BufReader;
use std::process::Child;
use std::process::Stdio;

use anyhow::Context;
use anyhow::bail;
use pgcalm_host::HostRoot;
use pgcalm_host::process;

use crate::interrupt::Interrupt;
use crate::server::Places;
use crate::server::Server;
use crate::tool;

/// A way to lose data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    /// Nothing is ever synced, WAL least of all: acknowledged transactions are lost.
    FsyncOff,
    /// Checkpoints complete although the table was not synced, as they would if the module lost an fsync or its error.
    UnsyncedFiles,
}

impl Sabotage {
    /// As the report names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::FsyncOff => "fsync=off",
            Self::UnsyncedFiles => {
                "the checkpointer's fsync of the table and its index does nothing"
            }
        }
    }

    /// Settings of the server.
    pub fn settings(self) -> BTreeMap<String, String> {
        let pair = match self {
            Self::FsyncOff => Some(("fsync", "off")),
            Self::UnsyncedFiles => None,
        };
        pair.into_iter()
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect()
    }
}

/// strace, which lets the checkpointer believe that it has synced. It ends with the checkpointer.
#[derive(Debug)]
pub struct Tracer(Child);

impl Tracer {
    /// Attaches to the checkpointer of `server`.
    pub fn start(
        root: &HostRoot,
        server: &Server,
        places: &Places,
        client: &mut postgres::Client,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Self> {
        let row = client.query_one(
            "select pg_relation_filepath('ledger'), pg_relation_filepath('ledger_pkey'), \
             (select pid from pg_stat_activity where backend_type = 'checkpointer')",
            &[],
        )?;
        let (table, index): (String, String) = (row.try_get(0)?, row.try_get(1)?);
        let checkpointer: i32 = row.try_get(2)?;
        let family = process::family(&process::table(root)?, server.pid());
        if !family.iter().any(|process| process.pid == checkpointer) {
            bail!("process {checkpointer} is not the server's");
        }
        interrupt.check()?;
        let mut child = tool::spawn(
            tool::command("strace")
                .args(["-e", "trace=fsync", "-e", "inject=fsync:retval=0"])
                .args(["-o", "/dev/null", "-p"])
                .arg(checkpointer.to_string())
                .arg("-P")
                .arg(places.data.join(table))
                .arg("-P")
                .arg(places.data.join(index))
                .stdout(Stdio::null())
                .stderr(Stdio::piped()),
        )?;
        let words = child.stderr.take();
        let tracer = Self(child);
        for line in BufReader::new(words.context("strace has no standard error")?).lines() {
            let line = line?;
            if line.contains("attached") {
                return Ok(tracer);
            }
            if !line.contains("Requested path") {
                bail!("{line}");
            }
        }
        bail!("strace ended before it was attached")
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        // Mostly it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

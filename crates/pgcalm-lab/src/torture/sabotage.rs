//! What makes a server lose data, so that the cycles show whether they would notice.

use std::collections::BTreeMap;

use anyhow::bail;
use pgcalm_host::{HostRoot, process};

use crate::interrupt::Interrupt;
use crate::server::{Places, Server};
use crate::strace::Strace;

/// A way to lose data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sabotage {
    /// Nothing is ever synced, WAL least of all: acknowledged transactions are lost.
    FsyncOff,
    /// Checkpoints complete although the table was not synced, as they would if the module lost an fsync or its error.
    UnsyncedFiles,
}

pgcalm_host::names! {
    pub(super) fn name(Sabotage):
        FsyncOff "fsync=off", UnsyncedFiles "the checkpointer's fsync of the table and its index does nothing"
}

impl Sabotage {
    /// Settings of the server.
    pub(super) fn settings(self) -> BTreeMap<String, String> {
        let pair = match self {
            Self::FsyncOff => Some(("fsync", "off")),
            Self::UnsyncedFiles => None,
        };
        pair.into_iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    /// strace, which lets the checkpointer of `server` believe that it has synced the table.
    pub(super) fn deceive_checkpointer(
        root: &HostRoot,
        server: &Server,
        places: &Places,
        client: &mut pgcalm_postgres::Client,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Strace> {
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
        let files = [table, index].map(|name| places.data.join(name));
        Strace::tamper(&[checkpointer], "fsync", "retval=0", &files.each_ref().map(std::path::PathBuf::as_path))
    }
}

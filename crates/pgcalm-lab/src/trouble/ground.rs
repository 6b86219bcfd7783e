use std::path::Path;

use anyhow::Context;

use crate::contest::Options;
use crate::contest::devices::Devices;
use crate::contestant::Contestant;
use crate::server::Server;
use crate::stage::Stage;

/// What there is before the server starts.
#[derive(Debug)]
pub(crate) struct Before<'a> {
    pub(crate) stage: &'a Stage<'a>,
    pub(crate) devices: &'a Devices<'a>,
    /// The cluster; nothing of it is in the page cache but what was asked for by `--warm`.
    pub(crate) cluster: &'a Path,
}

/// What trouble meets: a server under load.
#[derive(Debug)]
pub(crate) struct Ground<'a> {
    pub(crate) stage: &'a Stage<'a>,
    pub(crate) devices: &'a Devices<'a>,
    pub(crate) options: &'a Options,
    pub(crate) contestant: &'a Contestant,
    pub(crate) server: &'a Server,
    /// Where the file system with the data is mounted.
    pub(crate) volume: &'a Path,
    pub(crate) cluster: &'a Path,
    /// Of the run: sockets, logs.
    pub(crate) directory: &'a Path,
    pub(crate) table: Table,
}

/// The largest table of the load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table {
    /// Quoted as SQL needs it.
    pub(crate) name: String,
    /// Its first column, likewise.
    pub(crate) column: String,
    /// Blocks of the table alone.
    pub(crate) blocks: u64,
}

impl Table {
    /// Asks the server for it. To be called while there is no load.
    pub(crate) fn largest(stage: &Stage<'_>, server: &Server) -> anyhow::Result<Self> {
        let row = server.sql(
            "select c.oid::regclass, quote_ident(a.attname), pg_relation_size(c.oid) / current_setting('block_size')::int \
               from pg_class c join pg_namespace n on n.oid = c.relnamespace \
                    join pg_attribute a on a.attrelid = c.oid and a.attnum = 1 \
              where c.relkind = 'r' and n.nspname not in ('pg_catalog', 'information_schema') \
              order by pg_relation_size(c.oid) desc limit 1",
            stage.interrupt,
        )?;
        Self::read(&row).context("find the largest table")
    }

    fn read(row: &str) -> Option<Self> {
        // A name in double quotes may hold anything.
        let (row, blocks) = row.trim_end().rsplit_once('|')?;
        let (name, column) = row.rsplit_once('|')?;
        Some(Self { name: name.to_string(), column: column.to_string(), blocks: blocks.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read_from_a_line_of_psql() {
        assert_eq!(Table::read("test|id|123\n"), Some(Table { name: "test".into(), column: "id".into(), blocks: 123 }));
        assert_eq!(Table::read("\n"), None);
    }
}

//! Looking at a recovered cluster.

use crate::interrupt::Interrupt;
use crate::server::Server;
use crate::tool;
use crate::torture::ledger::Row;

/// Which way rows are read.
#[derive(Debug, Clone, Copy)]
enum Path {
    Table,
    Index,
}

/// Reads all rows, by the table and again by its index; what is found wrong besides is added to `problems`.
pub(super) fn read(client: &mut pgcalm_postgres::Client, problems: &mut Vec<String>) -> Option<Vec<Row>> {
    let table = read_by(client, Path::Table);
    let index = read_by(client, Path::Index);
    match (table, index) {
        (Ok(mut table), Ok(index)) => {
            table.sort_by_key(|row| row.key);
            if table != index {
                problems.push(format!(
                    "reading through the index gives {} rows, reading the table {}, and they differ",
                    index.len(),
                    table.len()
                ));
            }
            Some(table)
        }
        (table, index) => {
            for error in [table.as_ref().err(), index.as_ref().err()].into_iter().flatten() {
                // The server's message and its hint are on lines of their own.
                let words = format!("{error:#}").replace('\n', " ");
                problems.push(format!("reading the ledger: {words}"));
            }
            // Half of it would count as loss of the rest.
            table.ok()
        }
    }
}

fn read_by(client: &mut pgcalm_postgres::Client, path: Path) -> anyhow::Result<Vec<Row>> {
    let by_index = match path {
        Path::Table => "off",
        Path::Index => "on",
    };
    let by_table = match path {
        Path::Table => "on",
        Path::Index => "off",
    };
    client.batch_execute(&format!(
        "set enable_seqscan = {by_table}; set enable_sort = {by_table}; set enable_bitmapscan = off; \
         set enable_indexscan = {by_index}; set enable_indexonlyscan = off; set max_parallel_workers_per_gather = 0"
    ))?;
    let order = match path {
        Path::Table => "",
        Path::Index => " order by id",
    };
    client
        .query(&format!("select id, version, info from ledger{order}"), &[])?
        .iter()
        .map(|row| Ok(Row { key: row.try_get(0)?, version: row.try_get(1)?, info: row.try_get(2)? }))
        .collect()
}

/// Structure of all tables and indexes, and whether every row is in every index.
pub(super) fn amcheck(server: &Server, interrupt: &Interrupt, problems: &mut Vec<String>) -> anyhow::Result<()> {
    let result = tool::run(server.client("pg_amcheck").args(["--heapallindexed", "postgres"]), interrupt);
    finding(result, interrupt, problems)
}

/// Checksums of all pages, with the server down.
pub(super) fn checksums(
    command: &mut std::process::Command,
    interrupt: &Interrupt,
    problems: &mut Vec<String>,
) -> anyhow::Result<()> {
    let result = tool::run(command, interrupt);
    finding(result, interrupt, problems)
}

/// A program that fails has found something, unless it was interrupted or isn't there.
fn finding(result: anyhow::Result<String>, interrupt: &Interrupt, problems: &mut Vec<String>) -> anyhow::Result<()> {
    interrupt.check()?;
    match result {
        Ok(_) => Ok(()),
        Err(error) if error.downcast_ref::<pgcalm_host::Failure>().is_some() => Err(error),
        Err(error) => {
            problems.push(format!("{error:#}"));
            Ok(())
        }
    }
}

/// What a server log tells of damage.
pub(super) fn log(text: &str, problems: &mut Vec<String>) {
    let grave = ["PANIC:", "page verification failed", "invalid page in block"];
    if let Some(line) = text.lines().find(|line| grave.iter().any(|words| line.contains(words))) {
        problems.push(format!("log: {line}"));
    }
}

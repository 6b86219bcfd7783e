//! The WAL flood of the lag study: a table of 201 columns is made, filled and dropped, again and again.
//!
//! Its pages hardly ever reach the data device, since they are dropped before a checkpoint comes for them: nearly all that
//! is written is WAL.

use std::ffi::OsString;
use std::path::Path;

use anyhow::Context;

use crate::interrupt::Interrupt;
use crate::load::Load;
use crate::replica::Options;
use crate::server::Server;
use crate::shared_file;
use crate::stage::Stage;

/// The role and its schema: no superuser, which the guard would exempt.
const ROLE: &str = "flood";

/// Columns besides the key.
const COLUMNS: u32 = 200;

/// Makes the role of the load.
pub(super) fn prepare(server: &Server, interrupt: &Interrupt) -> anyhow::Result<()> {
    server.sql(&format!("create role {ROLE} login; create schema authorization {ROLE}"), interrupt)?;
    Ok(())
}

/// Starts the load in `directory`, where its logs go. It ends by itself after `seconds`, or after so many loads, if that is given.
pub(super) fn start(
    stage: &Stage<'_>,
    server: &Server,
    directory: &Path,
    options: &Options,
    seconds: u32,
) -> anyhow::Result<Load> {
    let Options { rows, clients, loads, .. } = *options;
    let file = directory.join("flood.sql");
    shared_file::write(&file, script(rows)).with_context(|| format!("write {}", file.display()))?;
    // Not prepared: the table of a statement that is prepared ahead is not there yet.
    let mut arguments: Vec<OsString> = ["-U", ROLE, "-M", "simple", "-f"].map(OsString::from).into();
    arguments.push(file.into());
    arguments.extend(loads.iter().flat_map(|loads| ["-t".into(), loads.to_string().into()]));
    Load::start_with(stage, server, directory, &arguments, clients, seconds)
}

/// Three transactions, of which the second makes nearly all of the WAL.
fn script(rows: u64) -> String {
    let list = |item: fn(u32) -> String| (1..=COLUMNS).map(item).collect::<String>();
    format!(
        "create table flood_:client_id (id int8{});\n\
         insert into flood_:client_id select i{} from generate_series(1, {rows}) i;\n\
         drop table flood_:client_id;\n",
        list(|column| format!(", c{column} int8")),
        list(|_| ", i".to_string()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_fills_201_columns_of_a_table_of_its_own() {
        let script = script(7);
        let statements: Vec<&str> = script.lines().collect();
        assert_eq!(statements[0].matches("int8").count(), 201);
        assert_eq!(statements[1].matches(", i").count(), 200);
        assert!(statements[1].ends_with("generate_series(1, 7) i;"));
        assert!(statements.iter().all(|s| s.contains("flood_:client_id")));
    }
}

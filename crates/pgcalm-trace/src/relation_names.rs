//! Names of relations, from their files or OIDs.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use anyhow::{Context, bail};
use pgcalm_postgres::{Address, Client, Text};

use crate::checkpoint::report::Checkpoint;
use crate::locks::report::LockWaits;
use crate::session::Session;
use crate::target::Target;
use crate::{connect_option, connection, polling};

/// Asks the databases for names. A session of its own per database is opened when one is asked for the first time.
pub(crate) struct Names {
    target: Target,
    address: Address,
    databases: HashMap<u32, String>,
    clients: HashMap<u32, Client>,
    /// By database and OID; none for what was not found.
    by_oid: HashMap<(u32, u32), Option<String>>,
}

/// Of `c`, a row of pg_class: with the schema, but for those that hardly anybody names.
const NAME: &str = "CASE WHEN n.nspname IN ('public', 'pg_catalog') THEN quote_ident(c.relname) \
     ELSE quote_ident(n.nspname) || '.' || quote_ident(c.relname) END \
     FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace";

/// What a path says about a relation's file.
#[derive(Debug, PartialEq, Eq)]
struct RelationFile {
    /// 0 for shared relations.
    database: u32,
    filenode: u32,
    /// Whether it lies in a tablespace of its own, whose OID is not in the path.
    in_tablespace: bool,
}

/// The answer that is missing where names are.
pub(crate) const NAMES: &str = "names of relations";

impl Names {
    /// Connects if `connect` says where to; else names are missing from the session.
    pub(crate) fn of(session: &mut Session, connect: Option<&str>) -> anyhow::Result<Option<Self>> {
        let Some(connect) = connect else {
            session.miss(NAMES, "without --connect the database can't be asked");
            return Ok(None);
        };
        Self::connect(&session.target, connect).map(Some)
    }

    /// Connects; see [`connection::address`].
    pub(crate) fn connect(target: &Target, connect: &str) -> anyhow::Result<Self> {
        let address = connection::address(target, connect)?;
        let mut names = Self {
            target: target.clone(),
            address,
            databases: HashMap::new(),
            clients: HashMap::new(),
            by_oid: HashMap::new(),
        };
        names.read_databases().context(connect_option::OPTION)?;
        Ok(names)
    }

    /// Fills in the relations of the slowest files, and of each file where all are told.
    pub(crate) fn resolve(&mut self, checkpoint: &mut Checkpoint) -> anyhow::Result<()> {
        if checkpoint.sync.is_none() && checkpoint.files.is_none() {
            return Ok(());
        }
        self.check_is_running()?;
        let slowest = checkpoint.sync.iter_mut().flat_map(|sync| &mut sync.slowest);
        let all = checkpoint.files.iter_mut().flatten();
        let result = slowest
            .map(|file| (&file.path, &mut file.relation))
            .chain(all.map(|file| (&file.path, &mut file.relation)))
            .try_for_each(|(path, relation)| {
                if let Some(file) = parse(path) {
                    *relation = self.of_file(&file)?;
                }
                Ok(())
            });
        // No session stays open between checkpoints: it would hold back DROP DATABASE.
        self.clients.clear();
        result
    }

    /// Fills in the relations of heavyweight locks.
    pub(crate) fn resolve_locks(&mut self, locks: &mut [LockWaits]) -> anyhow::Result<()> {
        self.check_is_running()?;
        let result = locks.iter_mut().try_for_each(|lock| {
            if let (Some(database), Some(relation)) = (lock.database, lock.relation) {
                lock.relation_name = self.of_oid(database, relation)?;
            }
            Ok(())
        });
        self.clients.clear();
        result
    }

    fn check_is_running(&self) -> anyhow::Result<()> {
        if polling::is_stopped(&self.target) {
            bail!("{}", polling::stopped_reason(&self.target));
        }
        Ok(())
    }

    fn of_file(&mut self, file: &RelationFile) -> anyhow::Result<Option<String>> {
        let Some((database, client)) = self.client(file.database)? else { return Ok(None) };
        // Tablespace 0 is the database's own; 1664 is pg_global.
        let row = if file.in_tablespace {
            client.query(&format!("SELECT {NAME} WHERE c.relfilenode = $1 LIMIT 2"), &[&file.filenode])?
        } else {
            let tablespace: u32 = if file.database == 0 { 1664 } else { 0 };
            client.query(
                &format!("SELECT {NAME} WHERE c.oid = pg_filenode_relation($1, $2)"),
                &[&tablespace, &file.filenode],
            )?
        };
        // The same file node may be used in two tablespaces.
        let [row] = row.as_slice() else { return Ok(None) };
        Ok(Some(qualified(database.as_deref(), row.get(0))))
    }

    fn of_oid(&mut self, database: u32, relation: u32) -> anyhow::Result<Option<String>> {
        if let Some(known) = self.by_oid.get(&(database, relation)) {
            return Ok(known.clone());
        }
        let name = match self.client(database)? {
            Some((database, client)) => client
                .query_opt(&format!("SELECT {NAME} WHERE c.oid = $1"), &[&relation])?
                .map(|row| qualified(database.as_deref(), row.get(0))),
            None => None,
        };
        self.by_oid.insert((database, relation), name.clone());
        Ok(name)
    }

    /// A session in a database, with its name; 0 is no database: shared relations are seen from any. `None` if there is
    /// no such database.
    fn client(&mut self, oid: u32) -> anyhow::Result<Option<(Option<String>, &mut Client)>> {
        if oid != 0 && !self.databases.contains_key(&oid) {
            self.read_databases()?;
        }
        let database = match oid {
            0 => None,
            oid => match self.databases.get(&oid) {
                Some(name) => Some(name.clone()),
                None => return Ok(None),
            },
        };
        let client = match self.clients.entry(oid) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let client = match &database {
                    Some(name) => self.address.with_database(name).connect(),
                    None => self.address.connect(),
                };
                entry.insert(client?)
            }
        };
        Ok(Some((database, client)))
    }

    fn read_databases(&mut self) -> anyhow::Result<()> {
        let mut client = self.address.connect()?;
        self.databases = client
            .query("SELECT oid, datname::text FROM pg_database", &[])?
            .iter()
            .map(|row| (row.get(0), row.get::<_, Text>(1).0))
            .collect();
        Ok(())
    }
}

/// As the report has it: the database, if it is not shared, and the relation.
fn qualified(database: Option<&str>, relation: &str) -> String {
    match database {
        Some(database) => format!("{database}: {relation}"),
        None => relation.to_string(),
    }
}

/// `base/5/16427.1`, `global/1262`, `PG_15_202209061/5/16427_vm`.
fn parse(path: &str) -> Option<RelationFile> {
    let parts: Vec<&str> = path.split('/').collect();
    let filenode = |name: &str| {
        let digits = name.split(['.', '_']).next()?;
        digits.parse::<u32>().ok()
    };
    match parts.as_slice() {
        ["global", name] => Some(RelationFile { database: 0, filenode: filenode(name)?, in_tablespace: false }),
        ["base", database, name] => {
            Some(RelationFile { database: database.parse().ok()?, filenode: filenode(name)?, in_tablespace: false })
        }
        [version, database, name] if version.starts_with("PG_") => {
            Some(RelationFile { database: database.parse().ok()?, filenode: filenode(name)?, in_tablespace: true })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relation_files_are_told_from_others() {
        let file = |database, filenode, in_tablespace| Some(RelationFile { database, filenode, in_tablespace });
        assert_eq!(parse("base/5/16427.1"), file(5, 16427, false));
        assert_eq!(parse("base/5/16427_fsm"), file(5, 16427, false));
        assert_eq!(parse("global/1262"), file(0, 1262, false));
        assert_eq!(parse("PG_15_202209061/5/99"), file(5, 99, true));
        assert_eq!(parse("pg_xact/0000"), None);
        assert_eq!(parse("global/pg_control"), None);
    }
}

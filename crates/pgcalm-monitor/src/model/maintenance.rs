//! What runs in a server besides its users: vacuum, backups, dumps.

use serde::{Deserialize, Serialize};

/// One of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Maintenance {
    /// `autovacuum`, `vacuum`, `analyze`, `index`, `cluster`, `base_backup` or `dump`.
    pub kind: String,
    /// What it works on: for autovacuum the name of the table, for others the database and the number of the relation.
    pub object: Option<String>,
    /// Its phase, in the server's words.
    pub phase: Option<String>,
}

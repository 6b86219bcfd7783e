//! What can go wrong when a primary is asked.

/// Why there is no sample. Complete in itself: what failed, and the way out.
#[derive(Debug, thiserror::Error)]
pub enum LagError {
    /// The server is a standby: only a primary knows how far standbys are.
    #[error(
        "the server is a standby, and only a primary knows the lag of its standbys: connect to the primary{}",
        primary.as_ref().map(|place| format!(", which it takes to be at {place}")).unwrap_or_default()
    )]
    Standby {
        /// Host and port of the server that it receives WAL from.
        primary: Option<String>,
    },
    /// The role may not read statistics of others.
    #[error("role {role:?} may not read pg_stat_replication: GRANT pg_monitor TO it, or connect as a superuser")]
    Rights {
        /// The role.
        role: String,
    },
    /// The server is too old.
    #[error("the server is PostgreSQL {0}: pgcalm lag is for 15 and later")]
    Version(String),
    /// A statement failed, or the connection broke.
    #[error("read {what} from the server: {}", reason(source))]
    Query {
        /// What was asked for.
        what: &'static str,
        /// Why not.
        source: postgres::Error,
    },
}

/// What the server said, in one line; details and hints of it are of no use to who did not write the statement.
fn reason(error: &postgres::Error) -> String {
    pgcalm_postgres::with_cause(error)
}

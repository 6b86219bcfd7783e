//! Kinds of files of the server.

use serde::{Deserialize, Serialize};

/// Kinds of files of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// No file descriptor, or it could not be read.
    None,
    /// Relations, their forks, and pg_filenode.map.
    Data,
    /// WAL segments.
    Wal,
    /// pg_xact, pg_subtrans, pg_multixact, pg_commit_ts, pg_notify, pg_serial.
    Slru,
    /// Temporary files and temporary tables.
    Temporary,
    /// archive_status.
    WalStatus,
    /// Files of the statistics collector or of pg_stat.
    Statistics,
    /// postgresql.conf, pg_hba.conf and the like.
    Configuration,
    /// pg_internal.init, the file of the relation cache: a backend that finds none writes it.
    RelationCache,
    /// Sockets.
    Socket,
    /// Pipes.
    Pipe,
    /// Anything else, pg_control included.
    Other,
}

// The order is that of `enum file_kind` in bpf/file_kind.bpf.h.
pgcalm_host::names! {
    pub fn label(FileKind), ALL:
        None "–",
        Data "data",
        Wal "WAL",
        Slru "SLRU",
        Temporary "temporary",
        WalStatus "WAL status",
        Statistics "statistics",
        Configuration "configuration",
        RelationCache "relation cache",
        Socket "socket",
        Pipe "pipe",
        Other "other",
}

//! What a PostgreSQL process does, from its command line.

use std::fmt;

/// Kinds of PostgreSQL server processes, as init_ps_display and the process titles in the server's sources name them.
///
/// The numbers go into BPF maps; 0 stands for a process whose command line has not been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum Role {
    /// Its command line has not been read: it ended or was looked at too early.
    Unknown = 0,
    /// The server's first process.
    Postmaster = 1,
    /// Serves a client.
    Backend = 2,
    /// Writes dirty buffers at checkpoints, and makes all fsync calls on data files.
    Checkpointer = 3,
    /// Writes dirty buffers between checkpoints.
    BackgroundWriter = 4,
    /// Writes WAL for asynchronous commits.
    WalWriter = 5,
    /// Sends WAL to a standby or a backup.
    WalSender = 6,
    /// Receives WAL from a primary.
    WalReceiver = 7,
    /// Replays WAL.
    Startup = 8,
    /// Hands finished WAL segments to the archive.
    Archiver = 9,
    /// Starts autovacuum workers.
    AutovacuumLauncher = 10,
    /// Vacuums tables.
    AutovacuumWorker = 11,
    /// Part of a parallel query.
    ParallelWorker = 12,
    /// Any other background worker.
    BackgroundWorker = 13,
    /// Collects statistics (before PostgreSQL 15).
    StatisticsCollector = 14,
    /// Writes the log.
    Logger = 15,
    /// Does I/O for other processes (PostgreSQL 18).
    IoWorker = 16,
    /// Summarizes WAL for incremental backups (PostgreSQL 17).
    WalSummarizer = 17,
    /// Keeps replication slots in step on a standby (PostgreSQL 17).
    SlotSyncWorker = 18,
}

names! {
    pub fn name(Role), ALL:
        Unknown "unknown",
        Postmaster "postmaster",
        Backend "client backend",
        Checkpointer "checkpointer",
        BackgroundWriter "background writer",
        WalWriter "walwriter",
        WalSender "walsender",
        WalReceiver "walreceiver",
        Startup "startup",
        Archiver "archiver",
        AutovacuumLauncher "autovacuum launcher",
        AutovacuumWorker "autovacuum worker",
        ParallelWorker "parallel worker",
        BackgroundWorker "background worker",
        StatisticsCollector "stats collector",
        Logger "logger",
        IoWorker "io worker",
        WalSummarizer "walsummarizer",
        SlotSyncWorker "slotsync worker",
}

impl Role {
    /// The role with that number; [`Role::Unknown`] if there is none.
    pub fn from_number(number: u32) -> Self {
        Self::ALL.into_iter().find(|role| *role as u32 == number).unwrap_or(Self::Unknown)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a process title says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Title {
    /// Its role.
    pub role: Role,
    /// Of backends and walsenders: the client's address, `[local]` for a Unix socket.
    pub client: Option<String>,
}

/// Reads the title of a child of the postmaster, e.g. `postgres: walsender rep 10.0.0.5(44444) streaming 0/3000060`.
///
/// `cluster_name` is what the server has in that setting, which stands first in its titles; empty if it has none. `None`
/// if this is no title: a child has the postmaster's command line until it sets its own.
pub fn parse_title(command_line: &str, cluster_name: &str) -> Option<Title> {
    let title = command_line.strip_prefix("postgres: ")?;
    let title = match title.strip_prefix(cluster_name) {
        Some(rest) if !cluster_name.is_empty() => rest.strip_prefix(": ").unwrap_or(title),
        _ => title,
    };
    let title = title.trim_end();
    let role = match title {
        "checkpointer" | "checkpointer process" => Role::Checkpointer,
        "background writer" => Role::BackgroundWriter,
        "walwriter" => Role::WalWriter,
        "logger" => Role::Logger,
        "stats collector" => Role::StatisticsCollector,
        "autovacuum launcher" => Role::AutovacuumLauncher,
        "logical replication launcher" => Role::BackgroundWorker,
        _ if starts(title, "archiver") => Role::Archiver,
        _ if starts(title, "startup") => Role::Startup,
        _ if starts(title, "walreceiver") => Role::WalReceiver,
        _ if starts(title, "walsummarizer") => Role::WalSummarizer,
        _ if starts(title, "slotsync worker") => Role::SlotSyncWorker,
        _ if starts(title, "io worker") => Role::IoWorker,
        _ if starts(title, "autovacuum worker") => Role::AutovacuumWorker,
        _ if starts(title, "parallel worker for PID") => Role::ParallelWorker,
        _ if starts(title, "walsender") => Role::WalSender,
        // USER DATABASE CLIENT [STATE]; background workers have a name of their own choice
        _ if client(title, 2).is_some() => Role::Backend,
        _ => Role::BackgroundWorker,
    };
    let client = match role {
        Role::Backend => client(title, 2),
        Role::WalSender => client(title, 2).or_else(|| client(title, 3)),
        _ => None,
    };
    Some(Title { role, client })
}

fn starts(title: &str, name: &str) -> bool {
    title.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}

/// The word at `index`, or a later one since user and database may hold spaces, if it is a client's address.
fn client(title: &str, index: usize) -> Option<String> {
    title.split(' ').skip(index).find_map(|word| {
        if word == "[local]" {
            return Some(word.to_string());
        }
        let (address, port) = word.strip_suffix(')')?.split_once('(')?;
        (!address.is_empty() && port.parse::<u16>().is_ok()).then(|| address.to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(title: &str) -> (Role, Option<String>) {
        let title = parse_title(&format!("postgres: {title}"), "").unwrap();
        (title.role, title.client)
    }

    #[test]
    fn titles_of_all_kinds() {
        assert_eq!(read("checkpointer "), (Role::Checkpointer, None));
        assert_eq!(
            read("walsender rep 10.0.0.5(44444) streaming 0/3000060"),
            (Role::WalSender, Some("10.0.0.5".into()))
        );
        assert_eq!(read("walsender rep postgres [local] idle"), (Role::WalSender, Some("[local]".into())));
        assert_eq!(read("checkpointer shop ::1(5000) idle in transaction"), (Role::Backend, Some("::1".into())));
        assert_eq!(read("a b shop [local] COMMIT"), (Role::Backend, Some("[local]".into())));
        assert_eq!(read("archiver last was 000000010000000000000003"), (Role::Archiver, None));
        assert_eq!(read("logical replication launcher "), (Role::BackgroundWorker, None));
        assert_eq!(read("pg_calm writeback "), (Role::BackgroundWorker, None));
        assert_eq!(read("parallel worker for PID 7 "), (Role::ParallelWorker, None));
    }

    #[test]
    fn the_cluster_name_stands_before_the_title() {
        let title = parse_title("postgres: 15/main: walwriter ", "15/main").unwrap();
        assert_eq!(title.role, Role::WalWriter);
        assert_eq!(parse_title("/usr/lib/postgresql/15/bin/postgres -D /data", ""), None);
    }

    #[test]
    fn numbers_name_roles() {
        for role in Role::ALL {
            assert_eq!(Role::from_number(role as u32), role);
        }
        assert_eq!(Role::from_number(99), Role::Unknown);
    }
}

use crate::contest::Options;
use crate::options::Named;
use crate::trouble::play::{Play, boxed};
use crate::trouble::{
    base_backup, big_delete, caps_halve, caps_told, copy, cpu_quota, create_index, drop_table, files_read, idle,
    memory_halves, neighbour, pg_dump, process_stopped, restart, second_server, small_tables, vacuum_freeze,
    volume_hangs, wal_kept, worker_killed,
};

/// A trouble that can be asked for.
#[derive(Debug)]
pub struct Trouble {
    /// As on the command line.
    pub name: &'static str,
    /// What happens, in one line.
    pub summary: &'static str,
    /// The second of the measured part in which it comes unless told; none: before the server starts.
    pub at: Option<u32>,
    /// What it can't be without.
    pub needs: &'static [Need],
    /// Bytes that it takes of the data's device.
    pub(crate) room: fn(&Options) -> u64,
    pub(crate) make: fn() -> Box<dyn Play>,
}

/// What a trouble can't be without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// The server module: it means nothing to contestants without, who run undisturbed.
    Module,
    /// `--memory`.
    Memory,
    /// `--memory` that is enough for shared buffers when halved.
    MemoryToSpare,
    /// Limits of volumes or control groups.
    Caps,
    /// A volume whose limits a server can't see.
    Volume,
    /// A load by pgbench.
    Pgbench,
}

impl Need {
    /// As `lab list` and the documentation have it.
    pub fn told(self) -> &'static str {
        match self {
            Self::Module => "a contestant with the module",
            Self::Memory | Self::MemoryToSpare => "--memory",
            Self::Caps => "caps",
            Self::Volume => "--volume",
            Self::Pgbench => "a load by pgbench",
        }
    }
}

impl Named for Trouble {
    fn name(&self) -> &'static str {
        self.name
    }
}

/// The default of most: the load has come to its pace.
const SECOND: Option<u32> = Some(20);

const NO_ROOM: fn(&Options) -> u64 = |_| 0;

/// One that needs nothing.
const fn plain(name: &'static str, summary: &'static str, make: fn() -> Box<dyn Play>) -> Trouble {
    Trouble { name, summary, at: SECOND, needs: &[], room: NO_ROOM, make }
}

const ARCHIVE_DOWN: Trouble = plain(
    "archive-down",
    "archive_command fails until a minute before the end, before it has taken all at once; WAL is kept",
    wal_kept::archive_down,
);

const ARCHIVE_SLOW: Trouble = plain(
    "archive-slow",
    "archive_command takes a tenth of the WAL that came before, until a minute before the end; WAL is kept",
    wal_kept::archive_slow,
);

const SLOT: Trouble =
    plain("slot", "a replication slot that nobody reads, until a minute before the end; WAL is kept", wal_kept::slot);

const LOGICAL_SLOT: Trouble = plain(
    "logical-slot",
    "the same with a logical slot, as of a subscription or of change data capture that is away",
    wal_kept::logical_slot,
);

const SLOW_STANDBY: Trouble = plain(
    "slow-standby",
    "a replication slot comes on at a tenth of the rate of WAL before, as of a slow standby, until a minute before the end",
    wal_kept::slow_standby,
);

/// Those by which WAL fills its volume.
pub static WAL_KEPT: [Trouble; 5] = [ARCHIVE_DOWN, ARCHIVE_SLOW, SLOT, LOGICAL_SLOT, SLOW_STANDBY];

/// All that there are.
pub static TROUBLES: [Trouble; 33] = [
    Trouble { at: None, ..plain("none", "nothing, for an axis of a suite", boxed::<Nothing>) },
    plain(
        "base-backup-fast",
        "pg_basebackup of the server with a fast checkpoint, read and thrown away",
        base_backup::fast,
    ),
    plain("base-backup-spread", "the same with a spread checkpoint", base_backup::spread),
    Trouble {
        at: None,
        ..plain(
            "files-read-before-start",
            "cat reads the data files before the server starts, instead of --warm, so that they are cached in large folios",
            files_read::before_start,
        )
    },
    Trouble {
        at: Some(0),
        ..plain(
            "files-read-after-start",
            "the page cache is empty at the start, and then cat reads the data files, as a backup or a restore does",
            files_read::after_start,
        )
    },
    plain("pg-dump", "pg_dump of the database, thrown away", pg_dump::make),
    plain("vacuum-freeze", "VACUUM FREEZE of all pages of the largest table, without cost delay", vacuum_freeze::make),
    Trouble {
        room: |options| options.load.table_bytes(options.table_rows()) / 2,
        ..plain("create-index", "CREATE INDEX CONCURRENTLY on the largest table", create_index::make)
    },
    Trouble {
        needs: &[Need::Memory],
        room: |options| copy::bytes(options) * 5 / 4,
        ..plain("copy-twice-memory", "COPY of twice --memory into a new table", copy::make)
    },
    plain(
        "big-delete",
        "DELETE of the first half of the largest table, in transactions of 1,000 blocks",
        big_delete::make,
    ),
    Trouble {
        room: |options| options.load.table_bytes(options.table_rows()),
        ..plain(
            "drop-large-table",
            "DROP of a copy of the largest table, which was made before the load",
            drop_table::make,
        )
    },
    Trouble {
        room: |_| 64 << 20,
        ..plain(
            "small-tables",
            "1,000 small tables beside, 200 updates per second all over them, to the end",
            small_tables::make,
        )
    },
    Trouble {
        room: |_| second_server::ROOM,
        ..plain(
            "second-server",
            "a second server without the module on the same volume, under pgbench of 2 clients, to the end",
            boxed::<second_server::SecondServer>,
        )
    },
    Trouble {
        room: |_| neighbour::ROOM,
        ..plain(
            "neighbour-writes",
            "another program writes a file on the same file system as fast as it can, to the end",
            neighbour::writes,
        )
    },
    Trouble {
        room: |_| neighbour::ROOM,
        ..plain(
            "neighbour-syncs",
            "another program writes 8 kB and calls fsync, again and again, to the end",
            neighbour::syncs,
        )
    },
    Trouble {
        room: |_| neighbour::ROOM,
        ..plain(
            "neighbour-reads",
            "another program reads 64 kB at random places past the page cache, 4 at a time, to the end",
            neighbour::reads,
        )
    },
    Trouble {
        needs: &[Need::Caps],
        ..plain(
            "volume-hangs",
            "no request is answered for 5 s; with caps of control groups, one per second is",
            boxed::<volume_hangs::VolumeHangs>,
        )
    },
    Trouble {
        needs: &[Need::Caps],
        ..plain(
            "caps-halve",
            "the limits of all devices halve, to the end; the module is not told",
            boxed::<caps_halve::CapsHalve>,
        )
    },
    Trouble {
        at: None,
        needs: &[Need::Module, Need::Caps],
        ..plain("caps-told-half", "the module's settings say half of what the limits are", boxed::<caps_told::CapsTold>)
    },
    Trouble {
        at: None,
        needs: &[Need::Module, Need::Caps],
        ..plain("caps-told-double", "the module's settings say twice what the limits are", boxed::<caps_told::CapsTold>)
    },
    Trouble {
        at: None,
        needs: &[Need::Module, Need::Volume],
        ..plain("caps-not-told", "the module's settings say nothing of the limits", boxed::<caps_told::CapsTold>)
    },
    Trouble {
        needs: &[Need::Memory, Need::MemoryToSpare],
        ..plain(
            "memory-halves",
            "the memory of the host that is played halves, to the end",
            boxed::<memory_halves::MemoryHalves>,
        )
    },
    Trouble {
        needs: &[Need::Module],
        ..plain(
            "worker-stopped",
            "SIGSTOP to the module's writeback worker, SIGCONT after 30 s",
            process_stopped::worker,
        )
    },
    Trouble {
        needs: &[Need::Module],
        ..plain("cleaner-stopped", "SIGSTOP to the module's cleaner, SIGCONT after 30 s", process_stopped::cleaner)
    },
    Trouble {
        needs: &[Need::Module],
        ..plain(
            "worker-killed",
            "SIGTERM to the module's writeback worker (SIGKILL of any process makes PostgreSQL restart all of them)",
            boxed::<worker_killed::WorkerKilled>,
        )
    },
    Trouble {
        needs: &[Need::Pgbench],
        ..plain("idle-then-burst", "no load for 60 s, then all clients at once", boxed::<idle::Idle>)
    },
    Trouble {
        needs: &[Need::Pgbench],
        ..plain(
            "restart-in-mid-load",
            "the server is restarted (fast shutdown) under load; clients come back when it takes connections",
            boxed::<restart::Restart>,
        )
    },
    plain("cpu-quota", "the server has half a core, to the end", boxed::<cpu_quota::CpuQuota>),
    ARCHIVE_DOWN,
    ARCHIVE_SLOW,
    SLOT,
    LOGICAL_SLOT,
    SLOW_STANDBY,
];

/// No trouble.
#[derive(Debug, Default)]
struct Nothing;

impl Play for Nothing {}

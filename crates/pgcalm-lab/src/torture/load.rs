//! Clients that write and note what is acknowledged, and one that keeps the server busy otherwise.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use fastrand::Rng;

use crate::background::{Background, sleep_until};
use crate::connection::connect;
use crate::torture::ledger::{ClientLedger, Ledger};
use pgcalm_host::stop::Stop;

/// Most rows of one transaction.
const ROWS_PER_TRANSACTION: usize = 8;

const UPSERT: &str = "insert into ledger (id, version, info) \
    select * from unnest($1::int[], $2::bigint[], $3::text[]) \
    on conflict (id) do update set version = excluded.version, info = excluded.info";

/// A checkpoint that drains files before it syncs them; one by CHECKPOINT is immediate and drains none. The backup that this begins
/// ends with its session.
pub(super) const SPREAD_CHECKPOINT: &str = "select pg_backup_start('torture', false)";

/// What the busybody does, some more often than others.
const CHORES: [&str; 6] = [
    "checkpoint",
    "checkpoint",
    SPREAD_CHECKPOINT,
    SPREAD_CHECKPOINT,
    "vacuum ledger",
    "create table chore as select i, repeat('x', 500) from generate_series(1, 2000) i; drop table chore",
];

/// What all threads of a load share.
#[derive(Debug, Default)]
struct Shared {
    commits: AtomicU64,
    rows: AtomicU64,
    /// The first error of a client.
    error: Mutex<Option<String>>,
}

impl Shared {
    fn fail(&self, error: &anyhow::Error) {
        let mut first = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert_with(|| format!("{error:#}"));
    }
}

/// The running load. Dropping it asks the threads to end, which they do at the latest when the server ends.
#[derive(Debug)]
pub(super) struct Load {
    shared: Arc<Shared>,
    clients: Vec<Background<ClientLedger>>,
    busybody: Background<()>,
}

/// What a load has come to.
#[derive(Debug)]
pub(super) struct Done {
    /// With what the clients have noted.
    pub ledger: Ledger,
    /// Acknowledged transactions.
    pub commits: u64,
    /// Their rows.
    pub rows: u64,
}

impl Load {
    /// Starts it on the server with its socket in `directory`.
    pub(super) fn start(directory: &Path, ledger: Ledger, random: &mut Rng) -> anyhow::Result<Self> {
        let shared = Arc::new(Shared::default());
        let mut connections = Vec::new();
        let ledgers = ledger.into_clients();
        for _ in &ledgers {
            connections.push(connect(directory)?);
        }
        let connection = connect(directory)?;
        let clients = ledgers
            .into_iter()
            .zip(connections)
            .map(|(mut ledger, connection)| {
                let (shared, random) = (Arc::clone(&shared), random.fork());
                let client = Background::start(move |stop| {
                    if let Err(error) = write(connection, &mut ledger, &shared, random, stop) {
                        shared.fail(&error);
                    }
                    ledger
                });
                client.with_patience(Duration::ZERO)
            })
            .collect();
        let of_busybody = (Arc::clone(&shared), random.fork(), directory.to_path_buf());
        let busybody = Background::start(move |stop| {
            let (shared, random, directory) = of_busybody;
            if let Err(error) = do_chores(connection, &directory, random, stop) {
                shared.fail(&error);
            }
        });
        let busybody = busybody.with_patience(Duration::ZERO);
        Ok(Self { shared, clients, busybody })
    }

    /// What has gone wrong with a client so far.
    pub(super) fn error(&self) -> Option<String> {
        self.shared.error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Collects the ledgers, once the server has crashed.
    pub(super) fn finish(mut self) -> anyhow::Result<Done> {
        self.busybody.tell();
        self.clients.iter().for_each(Background::tell);
        let mut ledgers = Vec::new();
        for client in self.clients.drain(..) {
            ledgers.push(client.finish().context("a client panicked")?);
        }
        Ok(Done {
            ledger: Ledger::from_clients(ledgers),
            commits: self.shared.commits.load(Ordering::Relaxed),
            rows: self.shared.rows.load(Ordering::Relaxed),
        })
    }

    /// Whether all its threads have ended.
    pub(super) fn has_ended(&self) -> bool {
        self.busybody.has_ended() && self.clients.iter().all(Background::has_ended)
    }
}

fn write(
    mut connection: pgcalm_postgres::Client,
    ledger: &mut ClientLedger,
    shared: &Shared,
    mut random: Rng,
    stop: &Stop,
) -> anyhow::Result<()> {
    let upsert = connection.prepare(UPSERT)?;
    while !stop.is_set() {
        let mut indexes: Vec<usize> =
            (0..random.usize(1..=ROWS_PER_TRANSACTION)).map(|_| random.usize(..ledger.len())).collect();
        indexes.sort_unstable();
        indexes.dedup();
        let rows = ledger.attempt(indexes);
        let keys: Vec<i32> = rows.iter().map(|row| row.key).collect();
        let versions: Vec<i64> = rows.iter().map(|row| row.version).collect();
        let infos: Vec<&str> = rows.iter().map(|row| row.info.as_str()).collect();
        connection.execute(&upsert, &[&keys, &versions, &infos])?;
        ledger.acknowledge();
        shared.commits.fetch_add(1, Ordering::Relaxed);
        shared.rows.fetch_add(rows.len() as u64, Ordering::Relaxed);
    }
    Ok(())
}

fn do_chores(
    mut connection: pgcalm_postgres::Client,
    directory: &Path,
    mut random: Rng,
    stop: &Stop,
) -> anyhow::Result<()> {
    while !sleep_until(Instant::now() + Duration::from_millis(random.u64(100..1500)), stop) {
        match CHORES[random.usize(..CHORES.len())] {
            SPREAD_CHECKPOINT => connect(directory)?.batch_execute(SPREAD_CHECKPOINT)?,
            chore => connection.batch_execute(chore)?,
        }
    }
    Ok(())
}

//! What the server's views tell of a second: transactions and WAL, where they can't be counted in the kernel.

use anyhow::Context;
use pgcalm_report::trace::why::Wal;
use pgcalm_report::trace::why::WalSource;
use postgres::Client;

use crate::connection;
use crate::target::Target;

const TRANSACTIONS: &str =
    "SELECT sum(xact_commit)::int8, sum(xact_rollback)::int8 FROM pg_stat_database";
/// PostgreSQL 14 and later.
const WAL: &str = "SELECT wal_bytes::int8, wal_records, wal_fpi FROM pg_stat_wal";

/// Counters of the server since its statistics were reset.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counters {
    /// Transactions committed, those of this session among them.
    pub commits: i64,
    /// Transactions aborted.
    pub aborts: i64,
    wal: [i64; 3],
}

/// A connection that reads them.
pub struct Views {
    client: Client,
    has_wal: bool,
}

impl Views {
    /// Connects; see [`connection::address`].
    pub fn connect(target: &Target, connect: &str) -> anyhow::Result<Self> {
        Ok(Self {
            client: connection::connect(target, connect)?,
            has_wal: target.major >= 14,
        })
    }

    /// Whether the server has ended the session.
    pub fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// The counters now.
    pub fn read(&mut self) -> anyhow::Result<Counters> {
        let row = self
            .client
            .query_one(TRANSACTIONS, &[])
            .context("read the numbers of transactions")?;
        let mut counters = Counters {
            commits: row.get(0),
            aborts: row.get(1),
            ..Counters::default()
        };
        if self.has_wal {
            let row = self
                .client
                .query_one(WAL, &[])
                .context("read pg_stat_wal")?;
            counters.wal = [row.get(0), row.get(1), row.get(2)];
        }
        Ok(counters)
    }
}

impl Counters {
    /// What was added since `before`; nothing after a reset of the statistics.
    pub fn since(&self, before: &Self) -> Difference {
        let difference = |now: i64, before: i64| u64::try_from(now - before).unwrap_or(0);
        let [bytes, records, page_images] =
            [0, 1, 2].map(|i: usize| difference(self.wal[i], before.wal[i]));
        Difference {
            commits: difference(self.commits, before.commits),
            aborts: difference(self.aborts, before.aborts),
            wal: Wal {
                source: WalSource::Views,
                bytes,
                records,
                page_images,
                page_image_bytes: 0,
                writes: None,
                written_bytes: None,
                syncs: None,
                sync_s: None,
            },
        }
    }
}

/// What a time has added.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// Transactions committed.
    pub commits: u64,
    /// Transactions aborted.
    pub aborts: u64,
    /// WAL.
    pub wal: Wal,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reset_of_the_statistics_gives_no_wild_figures() {
        let before = Counters {
            commits: 1000,
            aborts: 10,
            wal: [5_000_000, 100, 7],
        };
        let after = Counters {
            commits: 1010,
            aborts: 0,
            wal: [5_008_192, 101, 0],
        };
        let difference = after.since(&before);
        assert_eq!((difference.commits, difference.aborts), (10, 0));
        assert_eq!(
            (difference.wal.bytes, difference.wal.page_images),
            (8192, 0)
        );
    }
}

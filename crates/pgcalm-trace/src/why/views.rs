//! What the server's views tell of a second: transactions and WAL, where they can't be counted in the kernel.

use anyhow::Context;
use pgcalm_postgres::{Client, Version};

use crate::connection;
use crate::target::Target;
use crate::why::report::{Wal, WalSource};

const TRANSACTIONS: &str = "SELECT sum(xact_commit)::int8, sum(xact_rollback)::int8 FROM pg_stat_database";

/// Counters of the server since its statistics were reset.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counters {
    /// Transactions committed, those of this session among them.
    pub commits: i64,
    /// Transactions aborted.
    pub aborts: i64,
    wal: pgcalm_postgres::Wal,
}

/// A connection that reads them.
pub(super) struct Views {
    client: Client,
    version: Version,
}

impl Views {
    /// Connects; see [`connection::address`].
    pub(super) fn connect(target: &Target, connect: &str) -> anyhow::Result<Self> {
        Ok(Self { client: connection::connect(target, connect)?, version: Version::of_major(target.major as i32) })
    }

    /// Whether the server has ended the session.
    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// The counters now.
    pub(super) fn read(&mut self) -> anyhow::Result<Counters> {
        let row = self.client.query_one(TRANSACTIONS, &[]).context("read the numbers of transactions")?;
        Ok(Counters {
            commits: row.get(0),
            aborts: row.get(1),
            wal: pgcalm_postgres::Wal::read(&mut self.client, self.version).context("read pg_stat_wal")?,
        })
    }
}

impl Counters {
    /// What was added since `before`; nothing after a reset of the statistics.
    pub(super) fn since(&self, before: &Self) -> Difference {
        let difference = |now: i64, before: i64| u64::try_from(now - before).unwrap_or(0);
        Difference {
            commits: difference(self.commits, before.commits),
            aborts: difference(self.aborts, before.aborts),
            wal: Wal {
                source: WalSource::Views,
                bytes: difference(self.wal.bytes, before.wal.bytes),
                records: difference(self.wal.records, before.wal.records),
                page_images: difference(self.wal.page_images, before.wal.page_images),
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
pub(super) struct Difference {
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
        let wal =
            |bytes, records, page_images| pgcalm_postgres::Wal { bytes, records, page_images, ..Default::default() };
        let before = Counters { commits: 1000, aborts: 10, wal: wal(5_000_000, 100, 7) };
        let after = Counters { commits: 1010, aborts: 0, wal: wal(5_008_192, 101, 0) };
        let difference = after.since(&before);
        assert_eq!((difference.commits, difference.aborts), (10, 0));
        assert_eq!((difference.wal.bytes, difference.wal.page_images), (8192, 0));
    }
}

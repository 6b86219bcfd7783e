use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::fs::FallocateFlags;

use crate::shared_file;
use crate::trouble::play::Play;
use crate::trouble::{Before, Ground};

/// How long the load goes on without it at the end of a long run; in a short one, as long as with it.
const AFTER: Duration = Duration::from_secs(60);

/// What is kept free for a server that has died of it: a file that is removed then.
const BALLAST: u64 = 64 << 20;

/// How long that server may take to recover.
const RECOVERY: Duration = Duration::from_secs(300);

/// Between two steps of the slow standby.
const STEP: Duration = Duration::from_secs(1);

/// What part of the rate before a slow standby or a slow archive comes on at.
const SLOW_SHARE: f64 = 0.1;

/// A segment of WAL, bytes, as the lab's clusters have it.
const SEGMENT: f64 = (16 << 20) as f64;

const SLOT: &str = "pgcalm_lab";

pub(crate) fn archive_down() -> Box<dyn Play> {
    Box::new(WalKept::by(Keeper::Archive))
}

pub(crate) fn archive_slow() -> Box<dyn Play> {
    Box::new(WalKept::by(Keeper::SlowArchive))
}

pub(crate) fn slot() -> Box<dyn Play> {
    Box::new(WalKept::by(Keeper::Slot))
}

pub(crate) fn logical_slot() -> Box<dyn Play> {
    Box::new(WalKept::by(Keeper::LogicalSlot))
}

pub(crate) fn slow_standby() -> Box<dyn Play> {
    Box::new(WalKept::by(Keeper::Standby))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keeper {
    Archive,
    /// Takes what comes, but slower than it comes.
    SlowArchive,
    Slot,
    /// A slot of a subscription or of change data capture that is away.
    LogicalSlot,
    /// A slot that comes on as one that a slow standby reads.
    Standby,
}

/// Something keeps WAL, which fills its volume.
#[derive(Debug)]
struct WalKept {
    keeper: Keeper,
    /// End of WAL before the load, bytes.
    start: u64,
    /// When it begins, and the end of WAL then.
    begun: Option<(Instant, u64)>,
    until: Option<Instant>,
    /// Of the standby or the archive where it is slow, bytes per second.
    rate: f64,
    stepped: Option<Instant>,
    ballast: Option<PathBuf>,
}

impl WalKept {
    fn by(keeper: Keeper) -> Self {
        Self { keeper, start: 0, begun: None, until: None, rate: 0.0, stepped: None, ballast: None }
    }

    fn sql(ground: &Ground<'_>, sql: &str) -> anyhow::Result<String> {
        ground.server.sql(sql, ground.stage.interrupt)
    }

    fn end_of_wal(ground: &Ground<'_>) -> anyhow::Result<u64> {
        let bytes = Self::sql(ground, "select pg_current_wal_insert_lsn() - '0/0'")?;
        bytes.trim().parse().with_context(|| format!("read the end of WAL: {bytes:?}"))
    }

    /// The archiver is told, and looks at once; without that it would do so within a minute.
    fn archive(ground: &Ground<'_>, change: &str) -> anyhow::Result<()> {
        let mut psql = ground.server.psql();
        psql.args(["-c", &format!("alter system {change}"), "-c", "select pg_reload_conf()"]);
        crate::tool::run(&mut psql, ground.stage.interrupt).map(|_| ())
    }
}

impl Play for WalKept {
    fn before_start(&mut self, before: &Before<'_>) -> anyhow::Result<()> {
        let settings = match self.keeper {
            // An archive that takes all at once.
            Keeper::Archive | Keeper::SlowArchive => "\narchive_mode = on\narchive_command = 'true'\n",
            Keeper::LogicalSlot => "\nwal_level = logical\n",
            Keeper::Slot | Keeper::Standby => return Ok(()),
        };
        let path = before.cluster.join("postgresql.conf");
        shared_file::append(&path, settings).with_context(|| format!("write {}", path.display()))
    }

    fn prepare(&mut self, ground: &Ground<'_>) -> anyhow::Result<bool> {
        let wal = fs::canonicalize(ground.cluster.join("pg_wal")).context("find pg_wal")?;
        let ballast = wal.with_file_name("ballast");
        let file = fs::File::create_new(&ballast).with_context(|| format!("create {}", ballast.display()))?;
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, BALLAST)
            .with_context(|| format!("make {}", ballast.display()))?;
        self.ballast = Some(ballast);
        self.start = Self::end_of_wal(ground)?;
        Ok(false)
    }

    fn begin(&mut self, ground: &Ground<'_>, left: Duration) -> anyhow::Result<()> {
        let now = Self::end_of_wal(ground)?;
        let loaded = Duration::from_secs(ground.options.load_seconds().into()).saturating_sub(left);
        self.rate = SLOW_SHARE * now.saturating_sub(self.start) as f64 / loaded.as_secs_f64().max(1.0);
        match self.keeper {
            Keeper::Archive => Self::archive(ground, "set archive_command = 'false'")?,
            Keeper::SlowArchive => {
                let command = format!("sleep {:.2}", SEGMENT / self.rate.max(1.0));
                Self::archive(ground, &format!("set archive_command = '{command}'"))?;
            }
            Keeper::LogicalSlot => {
                Self::sql(ground, &format!("select pg_create_logical_replication_slot('{SLOT}', 'pgoutput')"))?;
            }
            Keeper::Slot | Keeper::Standby => {
                Self::sql(ground, &format!("select pg_create_physical_replication_slot('{SLOT}', true)"))?;
            }
        }
        let begun = Instant::now();
        self.begun = Some((begun, now));
        self.until = Some(begun + left.saturating_sub(AFTER).max(left / 2));
        Ok(())
    }

    fn is_over(&mut self, ground: &Ground<'_>) -> anyhow::Result<bool> {
        let now = Instant::now();
        if let Some((begun, from)) = self.begun
            && self.keeper == Keeper::Standby
            && self.stepped.is_none_or(|stepped| now >= stepped + STEP)
        {
            self.stepped = Some(now);
            let to = from + (self.rate * (now - begun).as_secs_f64()) as u64;
            // Not beyond the end of WAL. A server that has died does not answer, which the load tells.
            let _ = Self::sql(
                ground,
                &format!(
                    "select pg_replication_slot_advance('{SLOT}', least('0/0'::pg_lsn + {to}, pg_current_wal_flush_lsn()))"
                ),
            );
        }
        Ok(self.until.is_none_or(|until| now >= until))
    }

    fn revive(&mut self, ground: &Ground<'_>) -> anyhow::Result<bool> {
        let Some(ballast) = self.ballast.take() else { return Ok(false) };
        fs::remove_file(&ballast).with_context(|| format!("remove {}", ballast.display()))?;
        let end = Instant::now() + RECOVERY;
        let mut started = false;
        loop {
            // It may recover by itself.
            if ground.server.has_ended()? {
                if started {
                    bail!("the server did not start again");
                }
                ground.server.start_again()?;
                ground.devices.admit(ground.server.pid())?;
                started = true;
            }
            if ground.server.is_ready(ground.stage.interrupt) {
                return Ok(true);
            }
            if Instant::now() > end {
                bail!("the server is not back {} s after it died", RECOVERY.as_secs());
            }
            ground.stage.interrupt.sleep(Duration::from_millis(100))?;
        }
    }

    fn end(&mut self, ground: &Ground<'_>) -> anyhow::Result<()> {
        if self.begun.take().is_none() {
            return Ok(());
        }
        match self.keeper {
            Keeper::Archive | Keeper::SlowArchive => Self::archive(ground, "reset archive_command"),
            Keeper::Slot | Keeper::LogicalSlot | Keeper::Standby => {
                Self::sql(ground, &format!("select pg_drop_replication_slot('{SLOT}')")).map(|_| ())
            }
        }
    }

    fn done(&self) -> Option<String> {
        matches!(self.keeper, Keeper::Standby | Keeper::SlowArchive)
            .then(|| format!("it came on at {:.1} MiB/s", self.rate / f64::from(1 << 20)))
    }
}

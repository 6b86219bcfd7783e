//! Logins, one after the other: what a new connection waits for, by what it finds of the relation cache.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use std::{fs, io};

use anyhow::{Context, bail};
use pgcalm_postgres::Address;

use crate::connection::connect;
use crate::interference::probe::{Probe, Seen};

/// Time between two connects, so that they don't take the CPUs from what they are to measure.
const PAUSE: Duration = Duration::from_millis(20);

/// The same where each reads the catalogs, which costs more.
const COLD_PAUSE: Duration = Duration::from_millis(100);

/// The database whose relation cache is made cold, and the OID that it has in every cluster. Nobody else connects to it.
const COLD_DATABASE: (&str, u32) = ("template1", 1);

/// Connects to the server with its socket in `socket`. The file of the relation cache is there, so that it writes nothing.
pub(super) fn warm(socket: &Path) -> Probe {
    let socket = socket.to_path_buf();
    Probe::start(PAUSE, move |_| {
        connect(&socket)?.batch_execute("select 1")?;
        Ok(())
    })
}

/// Connects to a database without pg_internal.init, so that the backend has to write it.
#[derive(Debug)]
pub(super) struct Cold {
    probe: Probe,
    file: PathBuf,
    /// Whether a backend has written it.
    written: Arc<OnceLock<()>>,
}

impl Cold {
    /// Starts it on the server with its socket in `socket` and its data directory in `data`.
    pub(super) fn start(socket: &Path, data: &Path) -> anyhow::Result<Self> {
        let (database, oid) = COLD_DATABASE;
        let address = Address::of_superuser(socket, "pgcalm lab")?.with_database(database);
        // The database's file is enough: without it a backend writes the one in global, too. If that were missing, the
        // other connections would write it as well.
        let file = data.join(format!("base/{oid}/pg_internal.init"));
        let written = Arc::new(OnceLock::new());
        let probe = Probe::start_prepared(
            COLD_PAUSE,
            {
                let file = file.clone();
                move || match fs::remove_file(&file) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        Err(error).with_context(|| format!("remove {}", file.display()))
                    }
                    _ => Ok(()),
                }
            },
            {
                let (file, written) = (file.clone(), Arc::clone(&written));
                move |_| {
                    address.connect()?.batch_execute("select 1")?;
                    if file.exists() {
                        let _ = written.set(());
                    }
                    Ok(())
                }
            },
        );
        Ok(Self { probe, file, written })
    }

    /// Ends it; `window` is for how long it counts.
    pub(super) fn finish(self, window: Duration) -> anyhow::Result<Seen> {
        let seen = self.probe.finish(window)?;
        // A backend leaves it out if catalogs change meanwhile, but not each time.
        if self.written.get().is_none() {
            bail!(
                "no connection has written {}, which was removed before each: there is no time with a cold relcache",
                self.file.display()
            );
        }
        Ok(seen)
    }
}

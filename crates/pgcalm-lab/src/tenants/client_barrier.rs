//! Clients of many servers begin at the same time, however long it takes to start them.
//!
//! pgbench begins its transactions when all of its clients are connected. So the postmasters are stopped while the programs start: who
//! connects then waits in the socket's queue, and is taken from there when they go on.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use pgcalm_host::unix_socket;
use pgcalm_host::unix_socket::ServerSocket;
use rustix::process::{Pid, Signal};

use crate::server::Server;
use crate::stage::Stage;

/// For all clients to connect.
const PATIENCE: Duration = Duration::from_secs(120);

/// Servers whose postmasters are stopped until this is opened or dropped.
pub(super) struct ClientBarrier<'a> {
    servers: &'a [Server],
}

impl<'a> ClientBarrier<'a> {
    /// Stops the postmasters; their other processes go on.
    pub(super) fn close(servers: &'a [Server]) -> anyhow::Result<Self> {
        let barrier = Self { servers };
        for server in servers {
            signal(server, Signal::STOP)?;
        }
        Ok(barrier)
    }

    /// Waits until a client waits at each server, and lets all of them go on.
    pub(super) fn open(self, stage: &Stage<'_>) -> anyhow::Result<()> {
        let end = Instant::now() + PATIENCE;
        loop {
            let waiting = unix_socket::waiting_clients(stage.root())?;
            let missing = self.servers.iter().find(|server| {
                let (directory, port) = server.address();
                let socket = ServerSocket { directory: directory.to_path_buf(), port };
                !waiting.contains_key(&socket)
            });
            let Some(missing) = missing else {
                return Ok(());
            };
            if Instant::now() > end {
                bail!(
                    "no client has come to the server in {} within {} s",
                    missing.address().0.display(),
                    PATIENCE.as_secs()
                );
            }
            stage.interrupt.sleep(Duration::from_millis(50))?;
        }
    }
}

impl Drop for ClientBarrier<'_> {
    fn drop(&mut self) {
        for server in self.servers {
            // One that has ended meanwhile is told of by its clients.
            let _ = signal(server, Signal::CONT);
        }
    }
}

fn signal(server: &Server, signal: Signal) -> anyhow::Result<()> {
    let pid = Pid::from_raw(server.pid()).context("the server has no process id")?;
    rustix::process::kill_process(pid, signal).context("signal a server")
}

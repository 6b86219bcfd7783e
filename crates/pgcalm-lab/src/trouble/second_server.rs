use std::time::Duration;

use crate::server::{Places, Server, settings};
use crate::tool;
use crate::trouble::Ground;
use crate::trouble::play::Play;
use crate::trouble::program::{Program, Start};

/// Cluster, tables of pgbench, WAL.
pub(crate) const ROOM: u64 = 1 << 30;

const PORT: &str = "5433";

/// Branches of pgbench: some 160 MB, more than its shared buffers.
const SCALE: &str = "10";

#[derive(Debug, Default)]
pub(crate) struct SecondServer {
    load: Option<Program>,
    server: Option<Server>,
}

impl Play for SecondServer {
    fn prepare(&mut self, ground: &Ground<'_>) -> anyhow::Result<bool> {
        let stage = ground.stage;
        let data = ground.volume.join("second");
        stage.new_cluster(&data, &[])?;
        let places = Places { data, socket: ground.directory.to_path_buf(), log: ground.directory.join("second.log") };
        let server = stage.start(
            places,
            &settings([
                ("port", PORT),
                ("shared_buffers", "64MB"),
                ("max_wal_size", "256MB"),
                ("checkpoint_timeout", "60"),
            ]),
        )?;
        ground.devices.admit_beside(ground.options, server.pid())?;
        tool::run(server.client("pgbench").args(["-i", "-q", "-s", SCALE, "postgres"]), stage.interrupt)?;
        server.sql("checkpoint", stage.interrupt)?;
        self.server = Some(server);
        Ok(false)
    }

    fn begin(&mut self, ground: &Ground<'_>, left: Duration) -> anyhow::Result<()> {
        let Some(server) = &self.server else { return Ok(()) };
        let mut command = server.client("pgbench");
        command.args(["-n", "-N", "-c", "2"]).args(["-T", &(left.as_secs() + 1).to_string()]).arg("postgres");
        self.load = Some(Program::start(&ground.stage.journal, ground.directory, "second-server", Start::of(command))?);
        Ok(())
    }

    fn is_over(&mut self, _ground: &Ground<'_>) -> anyhow::Result<bool> {
        match &mut self.load {
            Some(load) => load.has_ended(),
            None => Ok(true),
        }
    }

    fn end(&mut self, _ground: &Ground<'_>) -> anyhow::Result<()> {
        self.load = None;
        match self.server.take() {
            Some(server) => server.discard(),
            None => Ok(()),
        }
    }
}

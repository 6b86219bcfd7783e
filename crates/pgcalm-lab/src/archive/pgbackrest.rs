//! What pgBackRest needs before it archives.

use std::path::Path;
use std::process::Command;

use anyhow::Context;

use crate::archive::archiver::{STANZA, Way};
use crate::installation::Installation;
use crate::interrupt::Interrupt;
use crate::{private_dir, shared_file, tool};

/// Writes its configuration and makes its repository. Where it keeps notes of asynchronous work is beside the cluster.
pub(super) fn prepare(
    way: Way,
    configuration: &Path,
    archive: &Path,
    data: &Path,
    socket: &Path,
    installation: &Installation,
    interrupt: &Interrupt,
) -> anyhow::Result<()> {
    let Way::PgBackRest { asynchronous, lz4 } = way else { return Ok(()) };
    let spool = data.with_file_name("spool");
    private_dir::create(&spool, installation)?;
    let text = format!(
        "[global]\nrepo1-path={}\nspool-path={}\nlock-path={}\nlog-path={}\nlog-level-file=off\n\
         compress-type={}\narchive-async={}\nprocess-max={}\n\n\
         [{STANZA}]\npg1-path={}\npg1-socket-path={}\npg1-user=postgres\n",
        archive.display(),
        spool.display(),
        socket.join("pgbackrest-lock").display(),
        socket.display(),
        if lz4 { "lz4" } else { "none" },
        if asynchronous.is_some() { "y" } else { "n" },
        asynchronous.unwrap_or(1),
        data.display(),
        socket.display(),
    );
    shared_file::write(configuration, text).with_context(|| format!("write {}", configuration.display()))?;
    shared_file::give(configuration, installation)?;
    let mut command: Command = tool::command("pgbackrest");
    installation.run_as(&mut command, socket);
    tool::run(
        command.arg(format!("--config={}", configuration.display())).arg(format!("--stanza={STANZA}")).args([
            "--no-online",
            "--log-level-console=error",
            "stanza-create",
        ]),
        interrupt,
    )?;
    Ok(())
}

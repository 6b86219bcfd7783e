use crate::trouble::Ground;
use crate::trouble::play::Play;
use crate::trouble::program::{ByProgram, Start, amount};

pub(crate) fn fast() -> Box<dyn Play> {
    Box::new(ByProgram::new(
        "base-backup-fast",
        |ground, _left| Ok(start(ground, "fast")),
        |bytes, _line| Some(amount("read", bytes)),
    ))
}

pub(crate) fn spread() -> Box<dyn Play> {
    Box::new(ByProgram::new(
        "base-backup-spread",
        |ground, _left| Ok(start(ground, "spread")),
        |bytes, _line| Some(amount("read", bytes)),
    ))
}

/// The archive goes to the program's output, which nobody keeps: it reads the volume and writes nothing to it.
fn start(ground: &Ground<'_>, checkpoint: &str) -> Start {
    let mut command = ground.server.client("pg_basebackup");
    command.args(["-D", "-", "-F", "tar", "-X", "none", "--no-sync"]).args(["-c", checkpoint]);
    Start::of(command)
}

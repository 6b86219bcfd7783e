use std::io::Write;
use std::process::ChildStdin;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Size;
use crate::contest::Options;
use crate::trouble::play::Play;
use crate::trouble::program::{ByProgram, Start, amount, statement};

/// Bytes of a row as text: eight of them fit on a page, less than one of a table of the lab.
const ROW: usize = 900;

/// What is copied.
pub(crate) fn bytes(options: &Options) -> u64 {
    2 * options.memory.map_or(0, Size::bytes)
}

pub(crate) fn make() -> Box<dyn Play> {
    Box::new(ByProgram {
        prepare: |ground| {
            ground.server.sql("create table pgcalm_trouble_copy (line text)", ground.stage.interrupt)?;
            Ok(true)
        },
        ..ByProgram::new(
            "copy-twice-memory",
            |ground, _left| {
                let command = statement(ground, "copy pgcalm_trouble_copy from stdin");
                Ok(Start::fed(command, feed, bytes(ground.options)))
            },
            |bytes, _line| Some(amount("copied", bytes)),
        )
    })
}

fn feed(input: &mut ChildStdin, bytes: u64, fed: &AtomicU64) {
    let mut line = vec![b'x'; ROW];
    line[ROW - 1] = b'\n';
    let lines = line.repeat(256);
    let mut left = bytes;
    while left > 0 {
        if input.write_all(&lines).is_err() {
            return;
        }
        fed.fetch_add(lines.len() as u64, Ordering::Relaxed);
        left = left.saturating_sub(lines.len() as u64);
    }
}

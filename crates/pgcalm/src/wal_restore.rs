//! `pgcalm wal-restore`, and what its exit code tells the server.
//!
//! The server calls it by `system()` and reads the code in `RestoreArchivedFile` (xlogarchive.c) by
//! `wait_result_is_any_signal(rc, true)`:
//!
//! - 1 to 125: the file is not in the archive. Recovery takes this for the end of the archived WAL, and in the end
//!   opens the database there.
//! - above 125, or a signal: something is wrong; FATAL, the server stops.
//! - SIGTERM: somebody is shutting the server down; it exits quietly. A shell passes it on as 143.
//!
//! So everything but "is not there" has a code above 125: a damaged file, a failed read, a mistyped option, even a defect
//! of this program. Taken for the end of WAL, each of them would lose all transactions after it, without a word. Only to a
//! standby an archive that can't be read, or a damaged file, is 1: it streams, or asks again (`pgcalm_archive::restore` says why). And the code is none of a shell's own: 126 and 127 are commands that can't be run, 129 to 192 signals.

use std::panic;

use pgcalm_archive::{Outcome, Request, Target, restore};

use crate::args::{WAL_RESTORE, WalRestoreArgs};
use crate::exit::RestoreExit;
use crate::output;

/// Restores or checks a file and returns the exit code. What it prints goes to the server's log.
pub(crate) fn run(args: WalRestoreArgs) -> RestoreExit {
    let request = Request {
        archive: args.archive,
        file: args.file,
        target: match (args.check, args.target) {
            (false, Some(path)) => Target::File(path),
            (_, like) => Target::Nowhere(like),
        },
    };
    // A panic's own code, 101, would be taken for "is not there".
    match panic::catch_unwind(|| restore(&request)) {
        Ok(Ok(Outcome::Restored(restored))) => {
            for reason in &restored.damaged {
                say(&format!("{reason}; took {} instead", restored.source.display()));
            }
            if restored.unchecked {
                say(&format!(
                    "{}: compressed without a checksum, only its length and its WAL pages were checked",
                    restored.source.display()
                ));
            }
            if args.check && !print(&format!("{}: whole\n", restored.source.display())) {
                return RestoreExit::Stop;
            }
            RestoreExit::Restored
        }
        Ok(Ok(Outcome::Absent(text))) => {
            say(&text);
            RestoreExit::NotFound
        }
        Ok(Err(error)) => {
            say(&error.to_string());
            RestoreExit::Stop
        }
        Err(_) => RestoreExit::Stop,
    }
}

fn print(text: &str) -> bool {
    output::print(text).inspect_err(|error| say(&format!("{error:#}"))).is_ok()
}

fn say(text: &str) {
    output::say(&format!("pgcalm {WAL_RESTORE}: {text}"));
}

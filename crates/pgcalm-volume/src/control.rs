//! A volume that another process starts and steers, by lines on its standard input and output.
//!
//! `ready FILE` is printed when it is mounted. `limits on` and `limits off` are answered `ok`; `stats` is answered with one
//! line of JSON, [`Counters`](crate::Counters). Anything else is answered `error` and what there is. The end of the input
//! changes nothing: whoever steered may have been killed, and a mounted file system whose volume goes would hang.

use std::io;
use std::io::BufRead;
use std::io::Write;
use std::path::Path;
use std::thread;

use signal_hook::consts::SIGHUP;
use signal_hook::consts::SIGINT;
use signal_hook::consts::SIGTERM;
use signal_hook::iterator::Signals;

use crate::Server;
use crate::Volume;
use crate::VolumeError;
use crate::server::Handle;

/// Serves until it is unmounted, by whomever. SIGTERM unmounts it, and it is served on for as long as the file is open; a
/// second SIGTERM ends it at once. SIGINT and SIGHUP of the terminal are for whoever steers.
pub fn run(
    volume: &Volume,
    image: &Path,
    mountpoint: &Path,
    honour_flushes: bool,
) -> Result<(), VolumeError> {
    // Before the mount: none of them may end this process from here on.
    let signals =
        Signals::new([SIGTERM, SIGINT, SIGHUP]).map_err(VolumeError::io("take signals"))?;
    let server = Server::mount(image, mountpoint, volume.limits(), honour_flushes)?;
    let handle = server.handle();
    thread::spawn(move || await_signals(signals, &handle));
    let mut stdout = io::stdout();
    let announced = writeln!(stdout, "ready {}", server.file().display())
        .and_then(|()| stdout.flush())
        .map_err(VolumeError::io("write to standard output"));
    let handle = server.handle();
    if let Err(error) = announced {
        handle.detach()?;
        server.wait()?;
        return Err(error);
    }
    thread::spawn(move || answer_lines(&handle));
    server.wait()
}

fn await_signals(mut signals: Signals, handle: &Handle) {
    let mut asked = false;
    for signal in &mut signals {
        if signal != SIGTERM {
            continue;
        }
        if asked {
            std::process::exit(1);
        }
        asked = true;
        // It may have been unmounted meanwhile.
        let _ = handle.detach();
    }
}

fn answer_lines(handle: &Handle) {
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { return };
        let answer = match line.trim() {
            "limits on" => {
                handle.set_limited(true);
                "ok".to_string()
            }
            "limits off" => {
                handle.set_limited(false);
                "ok".to_string()
            }
            "stats" => serde_json::to_string(&handle.counters())
                .unwrap_or_else(|error| format!("error {error}")),
            _ => "error: there are limits on, limits off, stats".to_string(),
        };
        let mut stdout = io::stdout();
        if writeln!(stdout, "{answer}")
            .and_then(|()| stdout.flush())
            .is_err()
        {
            return;
        }
    }
}

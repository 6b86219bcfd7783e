//! The terminal while pictures are shown on it: raw mode, alternate screen, no cursor; and all of that taken back.

use std::io;
use std::io::{IsTerminal, Stdout};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Signal;

/// A thread, this one or another, has panicked: the terminal is restored, and not to be drawn on any more.
static PANICKED: AtomicBool = AtomicBool::new(false);

/// The terminal is in the state for pictures.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Whether there is a terminal to show pictures on, and to read keys from.
pub fn is_there() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// Waits for input, at most so long, and says whether the terminal has hung up.
///
/// To be called before crossterm looks for input: where a read returns nothing, as after a hang-up, it reads again for
/// ever (`UnixInternalEventSource::try_read`), and no signal ends that.
pub fn is_gone_after(time: Duration) -> anyhow::Result<bool> {
    let stdin = io::stdin();
    let mut files = [PollFd::new(&stdin, PollFlags::IN)];
    let timeout = Timespec::try_from(time).context("time to wait for keys")?;
    match poll(&mut files, Some(&timeout)) {
        Ok(_) => Ok(files[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)),
        // The signal is looked at by the caller.
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error).context("wait for keys"),
    }
}

/// The terminal in the state for pictures, until it is dropped or any thread panics.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    /// Raw mode, alternate screen, no cursor. If that fails half-way, the terminal is restored.
    pub fn enter() -> anyhow::Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let former = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                PANICKED.store(true, Ordering::SeqCst);
                // Before the message, which nobody could read otherwise.
                restore();
                former(panic);
            }));
        });
        prepare()
            .and_then(|()| Terminal::new(CrosstermBackend::new(io::stdout())))
            .map(|terminal| Self { terminal })
            .inspect_err(|_| restore())
            .context("prepare the terminal for pictures")
    }

    /// Shows one picture, which `render` draws.
    pub fn draw(&mut self, render: impl FnOnce(&mut ratatui::Frame)) -> anyhow::Result<()> {
        if PANICKED.load(Ordering::SeqCst) {
            bail!("a thread has failed; its message is above");
        }
        self.terminal.draw(render).map(|_| ()).context("write to the terminal")
    }

    /// All is drawn anew by the next picture, as after another program wrote to the terminal.
    pub fn clear(&mut self) -> anyhow::Result<()> {
        self.terminal.clear().context("write to the terminal")
    }

    /// Stops this process with all of its job, as Ctrl-Z does; returns once it goes on.
    pub fn suspend(&mut self) -> anyhow::Result<()> {
        restore();
        rustix::process::kill_current_process_group(Signal::TSTP).context("suspend")?;
        prepare().context("prepare the terminal for pictures")?;
        self.clear()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

fn prepare() -> io::Result<()> {
    TAKEN.store(true, Ordering::SeqCst);
    enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen, Hide)
}

/// Only once: leaving the alternate screen also puts the cursor where it was before, and a second time that would be over
/// what was written since, such as a panic's message.
fn restore() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        // Each part for itself: the terminal may be gone, as after SIGHUP, and then there is nobody to tell.
        let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
    }
}

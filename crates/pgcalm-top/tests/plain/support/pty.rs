//! A terminal to run `pgcalm top` in: a pseudo-terminal, and what a user would see on it.

use std::io::{Read, Write};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use pty_process::Size;
use pty_process::blocking::{Command, Pts, Pty};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, Signal};
use rustix::termios::{LocalModes, Termios};

/// Until then something has to come about, however slow the machine.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) struct Terminal {
    pty: Pty,
    // Kept open, so that the modes can be read when the program has ended.
    _pts: Pts,
    child: Child,
    screen: vt100::Parser,
    before: Termios,
}

impl Terminal {
    /// Runs a program in a terminal of that size.
    pub(super) fn run(program: &str, arguments: &[&str], rows: u16, columns: u16) -> Self {
        let (pty, pts) = pty_process::blocking::open().unwrap();
        pty.resize(Size::new(rows, columns)).unwrap();
        let before = rustix::termios::tcgetattr(&pty).unwrap();
        let child = Command::new(program)
            .args(arguments)
            .env("TERM", "xterm-256color")
            .env_remove("NO_COLOR")
            // A message has to fit on the screen.
            .env("RUST_BACKTRACE", "0")
            .spawn_borrowed(&pts)
            .unwrap();
        Self { pty, _pts: pts, child, screen: vt100::Parser::new(rows, columns, 0), before }
    }

    pub(super) fn type_keys(&mut self, keys: &str) {
        self.pty.write_all(keys.as_bytes()).unwrap();
    }

    pub(super) fn resize(&mut self, rows: u16, columns: u16) {
        self.screen.set_size(rows, columns);
        self.pty.resize(Size::new(rows, columns)).unwrap();
    }

    pub(super) fn signal(&self, signal: Signal) {
        rustix::process::kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits until the screen is as wanted.
    pub(super) fn wait_for(&mut self, what: &str, condition: impl Fn(&str) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !condition(&self.text()) {
            assert!(Instant::now() < end, "{what} does not come in\n{}", self.text());
            self.read();
        }
    }

    /// Types keys whenever the screen has come to rest, until it is as wanted.
    pub(super) fn type_until(&mut self, keys: &str, what: &str, condition: impl Fn(&str) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !condition(&self.text()) {
            assert!(Instant::now() < end, "{what} does not come in\n{}", self.text());
            if !self.read() {
                self.type_keys(keys);
            }
        }
    }

    /// Waits for a text on the screen.
    pub(super) fn wait_for_text(&mut self, text: &str) {
        self.wait_for(text, |screen| screen.contains(text));
    }

    /// Waits for the end of the program, and looks whether the terminal is as it was.
    pub(super) fn wait_for_end(mut self) -> (ExitStatus, String) {
        let end = Instant::now() + PATIENCE;
        let status = loop {
            self.read();
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < end, "it does not end:\n{}", self.text());
        };
        // What it wrote last.
        while self.read() {}
        self.assert_restored();
        (status, self.text())
    }

    pub(super) fn assert_restored(&self) {
        let screen = self.screen.screen();
        assert!(!screen.alternate_screen(), "still the alternate screen");
        assert!(!screen.hide_cursor(), "still no cursor");
        let after = rustix::termios::tcgetattr(&self.pty).unwrap();
        assert_eq!(after.local_modes, self.before.local_modes);
        assert_eq!(after.input_modes, self.before.input_modes);
        assert_eq!(after.output_modes, self.before.output_modes);
    }

    /// Whether pictures are shown: otherwise the tests above would find nothing to restore.
    pub(super) fn assert_taken(&self) {
        let screen = self.screen.screen();
        assert!(screen.alternate_screen());
        assert!(screen.hide_cursor());
        let modes = rustix::termios::tcgetattr(&self.pty).unwrap();
        assert!(!modes.local_modes.contains(LocalModes::ICANON));
        assert!(!modes.local_modes.contains(LocalModes::ECHO));
    }

    pub(super) fn text(&self) -> String {
        self.screen.screen().contents()
    }

    /// Reads what is there, or waits a moment; whether there was anything.
    fn read(&mut self) -> bool {
        let mut fds = [PollFd::new(&self.pty, PollFlags::IN)];
        let moment = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        if rustix::event::poll(&mut fds, Some(&moment)).unwrap() == 0 {
            return false;
        }
        let mut bytes = [0; 4096];
        let count = self.pty.read(&mut bytes).unwrap();
        self.screen.process(&bytes[..count]);
        count > 0
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Of a test that has failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

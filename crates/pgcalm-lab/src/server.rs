//! PostgreSQL servers of the lab.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use pgcalm_host::HostRoot;
use rustix::process::{Pid, Signal};

use crate::crash::SharedMemory;
use crate::installation::Installation;
use crate::interrupt::Interrupt;
use crate::journal::{Journal, Undo};
use crate::{crash, preload, shared_file, tool};

/// How long a start may take: the longest part is recovery, which a copied template doesn't need.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Its port, on its socket and where it listens otherwise, unless it is set.
pub const PORT: u16 = 5432;

/// Where a server's files are.
#[derive(Debug, Clone)]
pub struct Places {
    /// Data directory.
    pub data: PathBuf,
    /// Directory of the socket; the working directory of clients.
    pub socket: PathBuf,
    /// Its log, on the host's file system: log writes must not wait for a capped device.
    pub log: PathBuf,
}

/// A running server, child of this process.
#[derive(Debug)]
pub struct Server {
    /// Another one after [`stop`](Self::stop) and [`start_again`](Self::start_again).
    child: Mutex<Child>,
    places: Places,
    preload: Option<PathBuf>,
    clients: Clients,
    undo: Option<Undo>,
}

/// How clients of a server are started.
#[derive(Debug, Clone)]
pub struct Clients {
    installation: Installation,
    socket: PathBuf,
    port: u16,
}

impl Clients {
    /// A client program, told where the server is.
    pub fn command(&self, program: &str) -> Command {
        let mut command = self.installation.command(program, &self.socket);
        command.arg("-h").arg(&self.socket).args(["-p", &self.port.to_string()]).args(["-U", "postgres"]);
        command
    }
}

impl Server {
    /// Starts the server on `places.data` and waits until it takes connections.
    pub fn start(
        journal: &Journal,
        installation: &Installation,
        places: Places,
        settings: &BTreeMap<String, String>,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Self> {
        write_settings(&places, settings)?;
        Self::restart(journal, installation, places, interrupt)
    }

    /// Starts a server again that has been started here before, with the settings of that time.
    pub fn restart(
        journal: &Journal,
        installation: &Installation,
        places: Places,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Self> {
        let settings = written_settings(&places)?;
        let port = settings.get("port").map_or(Ok(PORT), |port| port.parse()).context("port")?;
        let preload = preload::library(&settings, &places.socket, installation, interrupt)?;
        let undo = journal.note(installation.processes_in(&places.data))?;
        let log = shared_file::create(&places.log).with_context(|| format!("create {}", places.log.display()))?;
        let child = spawn(installation, &places, preload.as_deref(), log)?;
        let server = Self {
            child: Mutex::new(child),
            clients: Clients { installation: installation.clone(), socket: places.socket.clone(), port },
            places,
            preload,
            undo: Some(undo),
        };
        server.wait_until_ready(interrupt)?;
        Ok(server)
    }

    /// Asks it to end its sessions and itself, with all data written; it is not waited for.
    pub fn stop(&self) -> anyhow::Result<()> {
        match Pid::from_raw(self.pid()) {
            Some(pid) => Ok(rustix::process::kill_process(pid, Signal::INT).context("signal the server to stop")?),
            None => Ok(()),
        }
    }

    /// Starts it after it has ended, on the same files, with the same log; it is not waited for.
    pub fn start_again(&self) -> anyhow::Result<()> {
        let log = OpenOptions::new()
            .append(true)
            .open(&self.places.log)
            .with_context(|| format!("open {}", self.places.log.display()))?;
        *self.child() = spawn(&self.clients.installation, &self.places, self.preload.as_deref(), log)?;
        Ok(())
    }

    /// Whether it takes connections.
    pub fn is_ready(&self, interrupt: &Interrupt) -> bool {
        tool::run(self.client("pg_isready").args(["-q", "-t", "1"]), interrupt).is_ok()
    }

    /// Process id of the postmaster.
    pub fn pid(&self) -> i32 {
        // Pids fit: the kernel's own type is i32.
        self.child().id() as i32
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs SQL and returns what it gives, without headings.
    pub fn sql(&self, sql: &str, interrupt: &Interrupt) -> anyhow::Result<String> {
        tool::run(self.psql().args(["-c", sql]), interrupt)
    }

    /// The only row of a view.
    pub fn row(&self, view: &str, interrupt: &Interrupt) -> anyhow::Result<BTreeMap<String, serde_json::Value>> {
        let row = self.sql(&format!("select row_to_json(v) from {view} v"), interrupt)?;
        serde_json::from_str(row.trim()).with_context(|| format!("read {view}"))
    }

    /// psql, connected to this server.
    pub fn psql(&self) -> Command {
        let mut command = self.client("psql");
        command.args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-d", "postgres"]);
        command
    }

    /// A client program, told where the server is.
    pub fn client(&self, program: &str) -> Command {
        self.clients.command(program)
    }

    /// How its clients are started, also by whoever outlives it.
    pub fn clients(&self) -> &Clients {
        &self.clients
    }

    /// Directory of its socket, and its port.
    pub fn address(&self) -> (&Path, u16) {
        (&self.places.socket, self.clients.port)
    }

    /// Lets another program run as the clients do.
    pub fn as_client(&self, command: &mut Command) {
        self.clients.installation.run_as(command, &self.places.socket);
    }

    /// Its log so far.
    pub fn log(&self) -> String {
        read_log(&self.places.log)
    }

    /// Shuts it down cleanly, with all data written.
    pub fn shut_down(self, interrupt: &Interrupt) -> anyhow::Result<()> {
        self.stop()?;
        loop {
            let ended = self.child().try_wait()?;
            if let Some(status) = ended {
                if !status.success() {
                    bail!("server ended with {status}: {}", complaint(&self.log()));
                }
                return Ok(());
            }
            interrupt.sleep(Duration::from_millis(50))?;
        }
    }

    /// Whether its postmaster has ended by itself.
    pub fn has_ended(&self) -> anyhow::Result<bool> {
        Ok(self.child().try_wait()?.is_some())
    }

    /// Crashes it: SIGKILL to all its processes. Returns once they are gone, with the shared memory that stays.
    pub fn kill(self, root: &HostRoot) -> anyhow::Result<SharedMemory> {
        let memory = crash::kill_family(root, self.pid())?;
        self.child().wait()?;
        Ok(memory)
    }

    /// Ends it at once; its data is not needed any more.
    pub fn discard(mut self) -> anyhow::Result<()> {
        let result = self.undo.take().map_or(Ok(()), Undo::now);
        self.reap();
        result
    }

    fn wait_until_ready(&self, interrupt: &Interrupt) -> anyhow::Result<()> {
        let end = Instant::now() + START_TIMEOUT;
        loop {
            let ended = self.child().try_wait()?;
            if let Some(status) = ended {
                bail!("server did not start ({status}): {}", complaint(&self.log()));
            }
            if tool::run(self.client("pg_isready").arg("-q"), interrupt).is_ok() {
                return Ok(());
            }
            if Instant::now() > end {
                bail!("server took no connections within {} s: {}", START_TIMEOUT.as_secs(), complaint(&self.log()));
            }
            interrupt.sleep(Duration::from_millis(100))?;
        }
    }

    fn reap(&self) {
        // It has ended; this only frees its entry in the process table.
        let _ = self.child().try_wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.undo.take());
        self.reap();
    }
}

fn spawn(installation: &Installation, places: &Places, preload: Option<&Path>, log: File) -> anyhow::Result<Child> {
    let mut command = installation.postgres(&places.data);
    command.envs(preload.map(|library| ("LD_PRELOAD", library)));
    tool::spawn(command.stdout(log.try_clone()?).stderr(log))
}

/// Settings from what a scenario has of them.
pub(crate) fn settings<N: ToString, V: ToString>(own: impl IntoIterator<Item = (N, V)>) -> BTreeMap<String, String> {
    own.into_iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

/// The line of a server log that tells best what went wrong.
pub fn complaint(log: &str) -> &str {
    // Before it gives up on its configuration file, the server says what is wrong with it.
    let refused = log.lines().find(|line| line.contains("LOG:") && line.contains(" in file \""));
    if let Some(line) = refused.filter(|_| log.contains("contains errors")) {
        return line;
    }
    ["PANIC:", "FATAL:", "ERROR:"]
        .iter()
        .find_map(|severity| {
            log.lines()
                .rev()
                // What it says to pg_isready at first is no complaint.
                .filter(|line| !line.ends_with("the database system is starting up"))
                .find(|line| line.contains(severity))
        })
        .unwrap_or_else(|| tool::last_line(log))
}

/// The text of a server log; empty if it can't be read.
pub fn read_log(path: &Path) -> String {
    shared_file::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

/// Appends to postgresql.conf what the lab depends on, then `settings`; the last one of a name holds.
fn write_settings(places: &Places, settings: &BTreeMap<String, String>) -> anyhow::Result<()> {
    let socket = places.socket.to_string_lossy();
    let own = [
        ("listen_addresses", ""),
        ("port", "5432"),
        ("unix_socket_directories", socket.as_ref()),
        ("log_destination", "stderr"),
        ("logging_collector", "off"),
        ("log_checkpoints", "on"),
        ("log_timezone", "UTC"),
        // %n, the time as a number, spares the parser the calendar; %m is for people.
        ("log_line_prefix", "%m %n [%p] "),
        ("lc_messages", "C"),
    ];
    let mut text = String::from("\n# pgcalm lab\n");
    for (name, value) in own.into_iter().chain(settings.iter().map(|(n, v)| (n.as_str(), v.as_str()))) {
        text.push_str(&setting_line(name, value));
    }
    let path = places.data.join("postgresql.conf");
    shared_file::append(&path, text).with_context(|| format!("write {}", path.display()))
}

/// Those of the file in which [`write_settings`] has written, as they stand there: quotes within are doubled.
fn written_settings(places: &Places) -> anyhow::Result<BTreeMap<String, String>> {
    let path = places.data.join("postgresql.conf");
    let text = shared_file::read(&path).with_context(|| format!("read {}", path.display()))?;
    let text = String::from_utf8_lossy(&text);
    let lines = text.lines().filter_map(|line| line.split_once(" = "));
    Ok(settings(lines.map(|(name, value)| (name, value.trim_matches('\'')))))
}

fn setting_line(name: &str, value: &str) -> String {
    // The configuration file's grammar takes backslash escapes, too.
    let value = value.replace('\\', "\\\\").replace('\'', "''");
    format!("{name} = '{value}'\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gravest_line_of_a_log_is_the_complaint() {
        let log = "x LOG:  starting\nx FATAL:  could not access file \"pg_calm\"\nx LOG:  down\n";
        assert_eq!(complaint(log), "x FATAL:  could not access file \"pg_calm\"");
        assert_eq!(complaint("a\nb\n\n"), "b");
        let log = "x FATAL:  the database system is starting up\nx LOG:  ready\n";
        assert_eq!(complaint(log), "x LOG:  ready");
        let log = "x LOG:  unrecognized configuration parameter \"a\" in file \"/c\" line 5\n\
                   x FATAL:  configuration file \"/c\" contains errors\n";
        assert!(complaint(log).contains("unrecognized"));
    }

    /// What it takes beside its files is made anew from these.
    #[test]
    fn a_restart_has_the_settings_of_the_start() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name| dir.path().join(name);
        let places = Places { data: dir.path().into(), socket: file("socket"), log: file("log") };
        std::fs::write(file("postgresql.conf"), "#port = 5432\nmax_connections = 100\t# (change requires restart)\n")
            .unwrap();
        let (name, value) = preload::CHECKPOINTER_FLUSH;
        write_settings(&places, &settings([("port", "5433"), (name, value)])).unwrap();
        let written = written_settings(&places).unwrap();
        assert_eq!((written["port"].as_str(), written[name].as_str()), ("5433", value));
    }

    #[test]
    fn values_are_quoted_for_the_configuration_file() {
        assert_eq!(setting_line("a", "it's\\n"), "a = 'it''s\\\\n'\n");
    }
}

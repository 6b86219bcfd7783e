//! A server of a test's own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};

use rustix::process::{Pid, Signal};

use crate::programs::Programs;
use crate::wait_for;

/// How a server is to be started, and reached.
#[derive(Debug, Clone)]
pub struct Launch {
    programs: Programs,
    data: PathBuf,
    /// Its output.
    pub log: PathBuf,
    /// Where clients find it: the directory of its socket, or an address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Whom clients connect as.
    pub role: String,
    /// Lines of postgresql.conf, after those that let it be reached by a socket in the programs' directory only.
    pub settings: String,
}

impl Launch {
    /// Of a data directory that is there, with its log beside it.
    pub fn new(programs: &Programs, data: &Path) -> Self {
        Self {
            programs: programs.clone(),
            data: data.to_path_buf(),
            log: data.with_extension("log"),
            host: programs.directory().display().to_string(),
            port: 5432,
            role: "postgres".to_string(),
            settings: String::new(),
        }
    }

    /// Starts it, and waits until it answers.
    pub fn start(self) -> Server {
        self.start_wrapped(|command| command)
    }

    /// With its command wrapped up, in a shell for example.
    pub fn start_wrapped(self, wrap: impl FnOnce(Command) -> Command) -> Server {
        let file = self.data.join("postgresql.conf");
        let mut settings = fs::read_to_string(&file).unwrap();
        settings.push_str(&format!(
            "\nport = {}\nlisten_addresses = ''\nunix_socket_directories = '{}'\n{}\n",
            self.port,
            self.programs.directory().display(),
            self.settings
        ));
        fs::write(&file, settings).unwrap();
        let log = fs::File::create(&self.log).unwrap();
        let mut command = self.programs.command("postgres");
        command.arg("-D").arg(&self.data);
        let child = wrap(command).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        let mut server = Server {
            // Pids fit: the kernel's own type is i32.
            pid: child.id() as i32,
            launch: self,
            child: Some(child),
        };
        wait_for("the server", || {
            let ended = server.child.as_mut().unwrap().try_wait().unwrap();
            assert!(ended.is_none(), "{ended:?}: {}", server.log());
            server.query("SELECT 1").status.success()
        });
        server
    }
}

/// A running server; ended without mercy when dropped.
#[derive(Debug)]
pub struct Server {
    launch: Launch,
    pid: i32,
    child: Option<Child>,
}

impl Server {
    /// Makes a data directory in the programs' directory, and starts a server in it that is reached by a socket there.
    pub fn create(programs: &Programs, settings: &str) -> Self {
        let data = programs.directory().join("data");
        programs.initdb(&data, &[]);
        let mut launch = Launch::new(programs, &data);
        launch.settings = settings.to_string();
        launch.start()
    }

    /// The postmaster's process, or that of what it is wrapped in.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Where its programs run.
    pub fn directory(&self) -> &Path {
        self.launch.programs.directory()
    }

    /// Its data directory.
    pub fn data(&self) -> &Path {
        &self.launch.data
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.launch.port
    }

    /// A connection string.
    pub fn conninfo(&self) -> String {
        format!("host='{}' port={} user={} dbname=postgres", self.launch.host, self.launch.port, self.launch.role)
    }

    /// A client program that finds it by the environment.
    pub fn client(&self, program: &str) -> Command {
        let mut command = self.launch.programs.command(program);
        command
            .env("PGHOST", &self.launch.host)
            .env("PGPORT", self.launch.port.to_string())
            .env("PGUSER", &self.launch.role)
            .env("PGDATABASE", "postgres");
        command
    }

    /// psql that runs SQL and prints rows without headings.
    pub fn psql(&self, sql: &str) -> Command {
        let mut command = self.client("psql");
        command.args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-c", sql]);
        command
    }

    /// Runs SQL that may fail.
    pub fn query(&self, sql: &str) -> Output {
        self.psql(sql).output().unwrap()
    }

    /// Runs SQL that has to succeed; what it gave.
    pub fn sql(&self, sql: &str) -> String {
        let output = self.query(sql);
        assert!(output.status.success(), "{sql}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_string()
    }

    /// Its log so far.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.launch.log).unwrap_or_default()
    }

    /// Where its log is.
    pub fn log_file(&self) -> &Path {
        &self.launch.log
    }

    /// Ends it as `pg_ctl stop --mode=fast` does.
    pub fn stop(&mut self) {
        self.end(Signal::INT);
    }

    /// Ends it at once, as a crash does.
    pub fn kill(&mut self) {
        self.end(Signal::QUIT);
    }

    fn end(&mut self, signal: Signal) {
        if let Some(mut child) = self.child.take() {
            let _ = rustix::process::kill_process(Pid::from_child(&child), signal);
            let _ = child.wait();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

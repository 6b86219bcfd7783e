//! Servers of its own for a test.

// Each test file is a program of its own and uses what it needs.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use pgcalm_host::{HostRoot, process};
use pgcalm_lab::installation::Installation;
use pgcalm_lab::interrupt::Interrupt;
use pgcalm_lab::journal::Journal;
use pgcalm_lab::server::{Places, Server};
use pgcalm_testkit::programs::{bindir, initdb};
use pgcalm_testkit::{module_directory, need};

/// Whether servers can be run as another user; if not, says so.
pub(crate) fn can_run() -> bool {
    need::met("monitor", &[need::ROOT, need::ANY_SERVER])
}

/// Whether they can load pg_calm, too.
pub(crate) fn can_run_module() -> bool {
    need::met("monitor with pg_calm", &[need::ROOT, need::SERVER, need::MODULE])
}

/// Of the module, what the servers load and has an extension of its name.
const LIBRARIES: [&str; 2] = ["pg_calm", "pg_calm_guard"];

/// Servers in a directory, which goes with them. Dropped in this order.
pub(crate) struct Servers {
    pub servers: Vec<Server>,
    pub installation: Installation,
    journal: Journal,
    pub directory: tempfile::TempDir,
}

impl Servers {
    /// None yet.
    pub(crate) fn new() -> Self {
        let root = HostRoot::default();
        let directory = tempfile::Builder::new().prefix("pgcalm-monitor-test-").tempdir_in("/var/tmp").unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let journal = Journal::open(root.clone(), &directory.path().join("journal.json")).unwrap();
        Self {
            servers: Vec::new(),
            installation: Installation::find(&root, None, &Interrupt::default()).unwrap(),
            journal,
            directory,
        }
    }

    /// None yet, of the version that pg_calm was built for.
    pub(crate) fn with_module() -> Self {
        let mut servers = Self::new();
        let root = HostRoot::default();
        servers.installation = Installation::find(&root, bindir().as_deref(), &Interrupt::default()).unwrap();
        for name in LIBRARIES {
            let library = format!("{name}.so");
            fs::copy(module_directory().join(&library), servers.directory.path().join(&library)).unwrap();
        }
        servers
    }

    /// Settings by which they load it as it was built, without its being installed.
    pub(crate) fn module_settings(&self) -> [(&'static str, String); 2] {
        [
            ("dynamic_library_path", format!("{}:$libdir", self.directory.path().display())),
            ("shared_preload_libraries", LIBRARIES.join(",")),
        ]
    }

    /// What CREATE EXTENSION would do if it were installed.
    pub(crate) fn create_extensions(&self, server: usize) {
        for name in LIBRARIES {
            let script = fs::read_to_string(module_directory().join(format!("{name}--0.1.sql"))).unwrap();
            let script: String = script
                .lines()
                .filter(|line| !line.starts_with('\\'))
                .map(|line| line.replace("MODULE_PATHNAME", name) + "\n")
                .collect();
            // The monitor looks for the views where the extension is, so that nobody else's are taken for them.
            self.sql(
                server,
                &format!(
                    "SET allow_system_table_mods = on; {script} \
                     INSERT INTO pg_extension (oid, extname, extowner, extnamespace, extrelocatable, extversion) \
                     VALUES (pg_nextoid('pg_extension', 'oid', 'pg_extension_oid_index'), '{name}', 10, \
                     'public'::regnamespace, true, '0.1')"
                ),
            );
        }
    }

    /// Starts a server of that name. All listen on port 5432, in socket directories of their own.
    pub(crate) fn start(&mut self, name: &str, settings: &[(&str, &str)]) -> usize {
        let place = self.directory.path().join(name);
        fs::create_dir(&place).unwrap();
        let data = self.own(&place.join("data"), 0o700);
        let socket = self.own(&place.join("socket"), 0o755);
        initdb(self.installation.command("initdb", &data), &data, &[]);
        let all: BTreeMap<String, String> = [("shared_buffers", "16MB"), ("fsync", "off")]
            .into_iter()
            .chain(settings.iter().copied())
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect();
        let server = Server::start(
            &self.journal,
            &self.installation,
            Places { data, socket: socket.clone(), log: place.join("log") },
            &all,
            &Interrupt::default(),
        );
        self.servers.push(server.unwrap());
        self.servers.len() - 1
    }

    /// Process ids of all processes of a server.
    pub(crate) fn family(&self, server: usize) -> Vec<i32> {
        let table = process::table(&HostRoot::default()).unwrap();
        process::family(&table, self.servers[server].pid()).iter().map(|process| process.pid).collect()
    }

    /// Its socket directory.
    pub(crate) fn socket(&self, name: &str) -> PathBuf {
        self.directory.path().join(name).join("socket")
    }

    /// Runs SQL.
    pub(crate) fn sql(&self, server: usize, sql: &str) -> String {
        self.servers[server].sql(sql, &Interrupt::default()).unwrap()
    }

    /// A new directory that belongs to that user.
    pub(crate) fn own_directory(&self, name: &str, uid: u32) -> PathBuf {
        let path = self.directory.path().join(name);
        fs::create_dir(&path).unwrap();
        std::os::unix::fs::chown(&path, Some(uid), None).unwrap();
        path
    }

    fn own(&self, path: &Path, mode: u32) -> PathBuf {
        fs::create_dir(path).unwrap();
        std::os::unix::fs::chown(path, Some(self.installation.uid), Some(self.installation.gid)).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        path.to_path_buf()
    }
}

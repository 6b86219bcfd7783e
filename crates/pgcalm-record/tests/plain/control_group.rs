//! A control group that holds a server to limits.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, thread};

use pgcalm_host::{HostRoot, process};
use pgcalm_lab::journal::{Change, Undo};

use crate::arena::Arena;

/// A control group of version 1 with a server in it.
pub(crate) struct Group {
    path: PathBuf,
    server: i32,
    _group: Undo,
}

impl Group {
    /// Makes it, and puts the server into it until dropped.
    pub(crate) fn new(arena: &Arena, controller: &str) -> Self {
        let path = PathBuf::from(format!("/sys/fs/cgroup/{controller}/pgcalm-record-test-{}", arena.data_device.name));
        let undo = arena.journal.note(Change::Cgroup { path: path.clone() }).unwrap();
        fs::create_dir(&path).unwrap();
        let group = Self { path, server: arena.server.pid(), _group: undo };
        group.take(&group.path.join("cgroup.procs"));
        group
    }

    /// Sets a limit, until dropped.
    pub(crate) fn limit(&self, name: &str, value: &str) -> Limit {
        let file = self.path.join(name);
        fs::write(&file, value).unwrap();
        Limit(file)
    }

    fn take(&self, procs: &Path) {
        let table = process::table(&HostRoot::default()).unwrap();
        for member in process::family(&table, self.server) {
            // It may have ended.
            let _ = fs::write(procs, member.pid.to_string());
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // What was started meanwhile is taken the next time, and who is about to end has to be waited for.
        for _ in 0..100 {
            self.take(&self.path.with_file_name("cgroup.procs"));
            if fs::remove_dir(&self.path).is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A limit of a group, until dropped.
pub(crate) struct Limit(PathBuf);

impl Drop for Limit {
    fn drop(&mut self) {
        fs::write(&self.0, "-1").unwrap();
    }
}

//! Connections to the server that is looked at.

use std::time::Duration;

use anyhow::anyhow;
use pgcalm_host::postmaster::Candidate;
use pgcalm_host::{HostRoot, postmaster};
use pgcalm_postgres::{Address, Caller, Client, DefaultUser, Found, Session, Text, Wanted};

/// A connection, and which server it leads to.
pub struct Connection {
    /// The session.
    pub client: Client,
    /// Names the cluster; a standby has its primary's.
    pub system_identifier: String,
    /// As the server names it; `None` without the privilege to see it.
    pub data_directory: Option<String>,
    /// Port.
    pub port: u16,
    /// Process id of the session's backend, in the server's namespace of processes.
    pub backend_pid: i32,
    /// Inode of the data directory, of a server that is known to run here: servers in containers may have all else in
    /// common.
    pub inode: Option<u64>,
}

impl Connection {
    /// Known to be with the instance whose postmaster is `pid`.
    pub fn of_instance(mut self, root: &HostRoot, pid: i32) -> Self {
        let directory = rustix::fs::stat(root.path(format!("proc/{pid}/cwd")));
        self.inode = directory.ok().map(|found| found.st_ino);
        self
    }
}

const CALLER: Caller = Caller {
    application_name: "pgcalm doctor",
    user: DefaultUser::OperatingSystem,
    connect_timeout: Duration::from_secs(10),
    gives_up: true,
    // ALTER SYSTEM and pg_reload_conf count as reading (ClassifyUtilityCommandAsReadOnly of utility.c).
    session: Some(Session::LOOK),
};

/// Where the server is that was named, or is to be had without a name.
pub fn address(root: &HostRoot, wanted: Wanted) -> anyhow::Result<Address> {
    wanted.address(root, &CALLER)
}

/// How to reach the instance whose postmaster is `pid`: by its Unix socket, or by TCP if it has none.
pub fn to_instance(root: &HostRoot, pid: i32) -> anyhow::Result<Address> {
    let Candidate::Postmaster(server) = postmaster::examine(root, pid)? else {
        return Err(anyhow!("pid {pid} is no server that is up"));
    };
    let found = Found::process(root, &server);
    Ok(Address::new("", Some(&found), &CALLER)?)
}

/// Connects.
pub fn open(address: &Address) -> anyhow::Result<Connection> {
    let mut client = address.connect()?;
    let row = client.query_one(
        "SELECT (SELECT system_identifier::text FROM pg_control_system()), \
                (SELECT setting FROM pg_settings WHERE name = 'data_directory'), \
                current_setting('port')::int, pg_backend_pid()",
        &[],
    )?;
    Ok(Connection {
        client,
        system_identifier: row.get(0),
        data_directory: row.get::<_, Option<Text>>(1).map(|path| path.0),
        port: row.get::<_, i32>(2) as u16,
        backend_pid: row.get(3),
        inode: None,
    })
}

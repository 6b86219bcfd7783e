//! Connections to the server that is looked at.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;

use anyhow::Context;
use anyhow::anyhow;
use pgcalm_host::HostRoot;
use pgcalm_host::postmaster;
use pgcalm_host::postmaster::Candidate;
use postgres::Client;
use postgres::Config;
use postgres::NoTls;
use postgres::config::Host;
use rustix::process::Gid;
use rustix::process::Uid;

use crate::DoctorError;

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
    /// When the server started, seconds since 1970.
    pub started: i64,
}

/// An operating system user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Owner {
    uid: u32,
    gid: u32,
}

/// Reads a connection string of libpq's.
pub fn parse(connect: &str) -> anyhow::Result<Config> {
    connect.parse().map_err(|error| {
        // The string is not repeated: it may hold a password.
        DoctorError::Usage(format!(
            "--connect: {error}; give e.g. \"host=/run/postgresql user=postgres dbname=postgres\""
        ))
        .into()
    })
}

/// How to reach the instance whose postmaster is `pid`: by its Unix socket, or by TCP if it has none.
pub fn to_instance(root: &HostRoot, pid: i32) -> anyhow::Result<Config> {
    let Candidate::Postmaster(server) = postmaster::examine(root, pid)? else {
        return Err(anyhow!("pid {pid} is no server that is up"));
    };
    let mut config = Config::new();
    match &server.socket_directory {
        // An abstract socket is in the network namespace, not in a folder.
        Some(directory) if !directory.starts_with("@") => {
            let directory = directory.strip_prefix("/").unwrap_or(directory);
            config.host_path(root.path(format!("proc/{pid}/root")).join(directory));
        }
        _ => {
            config.host("localhost");
        }
    }
    if let Some(port) = server.port {
        config.port(port);
    }
    Ok(config)
}

/// Connects as `postgres` to database `postgres` unless `config` says otherwise, to /run/postgresql if it names no host.
///
/// Root connects to a Unix socket as the owner of the socket, as `sudo -u postgres psql` does: `peer`, the usual
/// authentication there, would refuse root.
pub fn open(mut config: Config) -> anyhow::Result<Connection> {
    if config.get_hosts().is_empty() {
        config.host_path("/run/postgresql");
    }
    if config.get_user().is_none() {
        config.user("postgres");
    }
    if config.get_dbname().is_none() {
        config.dbname("postgres");
    }
    config.application_name("pgcalm doctor");
    config.connect_timeout(std::time::Duration::from_secs(10));
    let mut client = match socket_owner(&config) {
        Some(owner) if rustix::process::geteuid().is_root() && owner.uid != 0 => {
            connect_as(config, owner)?
        }
        _ => config.connect(NoTls)?,
    };
    client.batch_execute("SET statement_timeout = '30s'; SET lock_timeout = '5s'")?;
    let row = client.query_one(
        "SELECT (SELECT system_identifier::text FROM pg_control_system()), \
                (SELECT setting FROM pg_settings WHERE name = 'data_directory'), \
                current_setting('port')::int, \
                extract(epoch FROM pg_postmaster_start_time())::bigint",
        &[],
    )?;
    Ok(Connection {
        client,
        system_identifier: row.get(0),
        data_directory: row.get(1),
        port: row.get::<_, i32>(2) as u16,
        started: row.get(3),
    })
}

/// Where a connection was to lead, for messages.
pub fn place(config: &Config) -> String {
    match config.get_hosts().first() {
        Some(Host::Tcp(host)) => host.clone(),
        Some(Host::Unix(path)) => Path::display(path).to_string(),
        None => "/run/postgresql".to_string(),
    }
}

fn socket_owner(config: &Config) -> Option<Owner> {
    let [Host::Unix(directory)] = config.get_hosts() else {
        return None;
    };
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let socket = std::fs::metadata(directory.join(format!(".s.PGSQL.{port}"))).ok()?;
    Some(Owner {
        uid: socket.uid(),
        gid: socket.gid(),
    })
}

/// The server sees the user of the thread that connects (`SO_PEERCRED`), and on Linux users are of threads. A thread of its
/// own takes the user, connects and ends.
fn connect_as(config: Config, owner: Owner) -> anyhow::Result<Client> {
    let connecting = thread::spawn(move || -> anyhow::Result<Client> {
        let gid = Gid::from_raw(owner.gid);
        let uid = Uid::from_raw(owner.uid);
        rustix::thread::set_thread_res_gid(gid, gid, gid).context("take the server's group")?;
        rustix::thread::set_thread_res_uid(uid, uid, uid).context("take the server's user")?;
        Ok(config.connect(NoTls)?)
    });
    connecting
        .join()
        .map_err(|_| anyhow!("the connecting thread panicked"))?
}

//! The cluster whose files they are.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use pgcalm_host::{Failure, HostRoot, Unknown, control_file};
use pgcalm_postgres::{Caller, Client, DefaultUser, Session, Settings, Wanted};

use crate::pace::Caps;

/// Where saved files are, one for each cluster.
pub const DIRECTORY: &str = "/var/lib/pgcalm/warm";

/// Its files on this host and, where it runs and lets us in, a session.
pub struct Cluster {
    /// As it is reached from here.
    pub data: PathBuf,
    /// Its standbys have it, too.
    pub system_identifier: u64,
    /// The session, or why there is none.
    pub client: Result<Client, Unknown>,
}

impl Cluster {
    /// The cluster in `data`, which need not run; else the server that is meant.
    pub fn find(root: &HostRoot, data: Option<&Path>, wanted: Wanted) -> anyhow::Result<Self> {
        let caller = Caller {
            application_name: "pgcalm warm",
            user: DefaultUser::OperatingSystem,
            connect_timeout: Duration::from_secs(10),
            gives_up: true,
            session: Some(Session::LOOK),
        };
        let Some(data) = data else {
            let mut client = wanted
                .connect(root, &caller)
                .context("find the running server (--data-directory names one that is down)")?;
            let row = client.query_one(
                "SELECT (SELECT setting FROM pg_settings WHERE name = 'data_directory'), system_identifier FROM pg_control_system()",
                &[],
            );
            let row = row.context("ask for the data directory")?;
            let name: Option<String> = row.try_get(0)?;
            let Some(name) = name else {
                anyhow::bail!(Failure::Host(
                    "this role may not see the data directory: give --data-directory, or connect as a member of pg_monitor"
                        .to_string(),
                ));
            };
            let cluster = Self::open(&PathBuf::from(name), Ok(client))?;
            if cluster.system_identifier != row.try_get::<_, i64>(1)? as u64 {
                anyhow::bail!(Failure::Host(format!(
                    "{}: is of another cluster than the server that was asked; run this on the server's host",
                    cluster.data.display()
                )));
            }
            return Ok(cluster);
        };
        let name = data.to_string_lossy();
        let client = Wanted { connect: None, instance: Some(&name) }.connect(root, &caller);
        Self::open(data, client.map_err(|error| Unknown::new(format!("what shared buffers hold: {error:#}"))))
    }

    fn open(data: &Path, client: Result<Client, Unknown>) -> anyhow::Result<Self> {
        let control = control_file::path(data);
        let read = || Ok((control_file::system_identifier(data)?, std::fs::metadata(&control)?.uid()));
        let (system_identifier, owner) = read().map_err(|error: std::io::Error| {
            Failure::Host(format!(
                "read {}: {error}; run this on the host of the data directory, as its owner or root",
                control.display()
            ))
        })?;
        let user = rustix::process::geteuid();
        // To anybody else the kernel says that all is cached.
        if !user.is_root() && user.as_raw() != owner {
            anyhow::bail!(Failure::Host(format!(
                "{}: only its owner and root are told what is cached; run this as one of them",
                data.display()
            )));
        }
        Ok(Self { data: data.to_path_buf(), system_identifier, client })
    }

    /// What `pg_calm` has been told of the volume.
    pub fn caps(&mut self) -> Caps {
        let Ok(client) = &mut self.client else { return Caps::default() };
        // Without them it is slower at worst.
        let settings = Settings::read(client, &["pg_calm.iops", "pg_calm.bandwidth"]).unwrap_or_default();
        let given = |name| settings.number(name).filter(|cap| *cap > 0.0);
        Caps { operations: given("pg_calm.iops"), bytes: given("pg_calm.bandwidth") }
    }

    /// Seconds since the server started; none where that can't be asked, as what is in its buffers.
    pub fn age(&mut self) -> Option<f64> {
        let age = "SELECT extract(epoch FROM clock_timestamp() - pg_postmaster_start_time())::float8";
        self.client.as_mut().ok()?.query_one(age, &[]).ok()?.try_get(0).ok()
    }

    /// The file of its own.
    pub fn default_file(&self) -> PathBuf {
        Path::new(DIRECTORY).join(self.system_identifier.to_string())
    }
}

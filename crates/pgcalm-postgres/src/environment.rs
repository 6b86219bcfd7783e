//! What a process has around it that a connection may depend on.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;

use crate::error::ConnectError;
use crate::user::User;

/// Where Debian's libpq looks for pg_service.conf (`pg_config --sysconfdir`), unless PGSYSCONFDIR names another directory.
const SYSTEM_DIRECTORY: &str = "/etc/postgresql-common";

/// Variables, home directory and user of a process; of a test, what it says.
#[derive(Debug, Clone)]
pub(crate) struct Environment {
    /// Environment variables whose names begin with PG.
    pub variables: HashMap<String, OsString>,
    /// HOME, or the user's directory in the user database. `None`: no file in it is looked for.
    pub home: Option<PathBuf>,
    /// The effective user.
    pub uid: u32,
    /// Its name; `None` if the user database has none, or PGUSER is to be taken.
    pub user: Option<String>,
}

impl Environment {
    /// That of this process.
    pub(crate) fn of_process() -> Self {
        let uid = rustix::process::geteuid().as_raw();
        let variables: HashMap<String, OsString> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
            .filter(|(name, _)| name.starts_with("PG"))
            .collect();
        let home = std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
        // Nothing is asked for that is known.
        let is_given = home.is_some() && variables.get("PGUSER").is_some_and(|name| !name.is_empty());
        let user = if is_given { None } else { User::of(uid) };
        Self {
            variables,
            home: home.or_else(|| user.as_ref().map(|user| user.home.clone())),
            uid,
            user: user.map(|user| user.name),
        }
    }

    /// One without anything in it.
    pub(crate) fn none() -> Self {
        Self { variables: HashMap::new(), home: None, uid: rustix::process::geteuid().as_raw(), user: None }
    }

    /// An environment variable. One that is empty counts, as with libpq. One that is no UTF-8 is an error: libpq passes its
    /// bytes on, which can't be done here, and taken for unset it would lead to another database.
    pub(crate) fn variable(&self, name: &str) -> Result<Option<&str>, ConnectError> {
        let Some(value) = self.variables.get(name) else { return Ok(None) };
        value.to_str().map(Some).ok_or_else(|| {
            ConnectError::Parameters(format!(
                "{name}: is no UTF-8: give what it stands for in the connection string, in UTF-8"
            ))
        })
    }

    /// A path in an environment variable, in whatever encoding.
    pub(crate) fn path(&self, name: &str) -> Option<PathBuf> {
        self.variables.get(name).map(PathBuf::from)
    }

    /// A file in the home directory.
    pub(crate) fn in_home(&self, name: &str) -> Option<PathBuf> {
        self.home.as_ref().map(|home| home.join(name))
    }

    /// The service file of the whole system.
    pub(crate) fn system_service_file(&self) -> PathBuf {
        self.path("PGSYSCONFDIR").unwrap_or_else(|| PathBuf::from(SYSTEM_DIRECTORY)).join("pg_service.conf")
    }
}

//! Which server, of every verb that is about one.

use clap::Args;
use pgcalm_postgres::Wanted;

/// At most one of them is given.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ServerArgs {
    /// The server, as a connection string of libpq's or a URI, e.g. "host=db1 user=monitor" [default: the only server of
    /// this host].
    ///
    /// PG* variables, ~/.pgpass and pg_service.conf count, and TLS works, as with psql: docs/operate/integrations.md.
    #[arg(long, value_name = "CONNINFO", conflicts_with = "instance")]
    pub connect: Option<String>,
    #[command(flatten)]
    pub instance: InstanceArg,
}

impl ServerArgs {
    pub(crate) fn wanted(&self) -> Wanted<'_> {
        Wanted { connect: self.connect.as_deref(), instance: self.instance.instance.as_deref() }
    }
}

/// Of verbs that watch all servers.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ConnectList {
    /// A server, as a connection string of libpq's or a URI, e.g. "host=db1 user=monitor"; may be repeated [default: all
    /// servers of this host, those that are started later, too].
    ///
    /// PG* variables, ~/.pgpass and pg_service.conf count, and TLS works, as with psql: docs/operate/integrations.md. Of a
    /// server on another host there are no devices and no dirty memory. A role that is a member of pg_monitor sees
    /// everything.
    #[arg(long, value_name = "CONNINFO")]
    pub connect: Vec<String>,
}

#[derive(Debug, Clone, Default, Args)]
pub(crate) struct InstanceArg {
    /// A server of this host: its data directory, its port, or the process id of its postmaster.
    #[arg(long, value_name = "INSTANCE")]
    pub instance: Option<String>,
}

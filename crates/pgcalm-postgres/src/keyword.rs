//! The parameters that a connection string, a service file and the environment may give.

/// What becomes of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// It has its effect.
    Taken,
    /// It is of no concern here, whatever its value: these programs speak UTF-8, and use neither GSSAPI nor compression.
    Ignored,
    /// It asks for a protection or a mode that is not there. Only these values, which ask for nothing, are let pass.
    Only(&'static [&'static str]),
}

/// A parameter of libpq's (`PQconninfoOptions` in fe-connect.c of 15 to 18).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Keyword {
    pub name: &'static str,
    /// Whence it is taken if nothing else gives it.
    pub variable: Option<&'static str>,
    pub usage: Use,
}

/// All that libpq knows, so that a string that works with psql is not refused here for a word.
pub(crate) const KEYWORDS: &[Keyword] = &[
    taken("service", Some("PGSERVICE")),
    taken("servicefile", Some("PGSERVICEFILE")),
    taken("user", Some("PGUSER")),
    taken("password", Some("PGPASSWORD")),
    taken("passfile", Some("PGPASSFILE")),
    taken("channel_binding", Some("PGCHANNELBINDING")),
    taken("connect_timeout", Some("PGCONNECT_TIMEOUT")),
    taken("dbname", Some("PGDATABASE")),
    taken("host", Some("PGHOST")),
    taken("hostaddr", Some("PGHOSTADDR")),
    taken("port", Some("PGPORT")),
    taken("options", Some("PGOPTIONS")),
    taken("application_name", Some("PGAPPNAME")),
    taken("fallback_application_name", None),
    taken("keepalives", None),
    taken("keepalives_idle", None),
    taken("keepalives_interval", None),
    taken("keepalives_count", None),
    taken("tcp_user_timeout", None),
    taken("sslmode", Some("PGSSLMODE")),
    taken("sslnegotiation", Some("PGSSLNEGOTIATION")),
    taken("sslcert", Some("PGSSLCERT")),
    taken("sslkey", Some("PGSSLKEY")),
    taken("sslpassword", None),
    taken("sslrootcert", Some("PGSSLROOTCERT")),
    taken("sslcrl", Some("PGSSLCRL")),
    taken("sslcrldir", Some("PGSSLCRLDIR")),
    taken("sslsni", Some("PGSSLSNI")),
    taken("ssl_min_protocol_version", Some("PGSSLMINPROTOCOLVERSION")),
    taken("ssl_max_protocol_version", Some("PGSSLMAXPROTOCOLVERSION")),
    taken("target_session_attrs", Some("PGTARGETSESSIONATTRS")),
    ignored("client_encoding", Some("PGCLIENTENCODING")),
    ignored("sslcompression", Some("PGSSLCOMPRESSION")),
    ignored("krbsrvname", Some("PGKRBSRVNAME")),
    ignored("gsslib", Some("PGGSSLIB")),
    ignored("min_protocol_version", Some("PGMINPROTOCOLVERSION")),
    ignored("max_protocol_version", Some("PGMAXPROTOCOLVERSION")),
    only("gssencmode", Some("PGGSSENCMODE"), &["disable", "prefer"]),
    only("gssdelegation", Some("PGGSSDELEGATION"), &["0"]),
    only("load_balance_hosts", Some("PGLOADBALANCEHOSTS"), &["disable"]),
    only("requirepeer", Some("PGREQUIREPEER"), &[]),
    only("require_auth", Some("PGREQUIREAUTH"), &[]),
    only("sslcertmode", Some("PGSSLCERTMODE"), &["allow"]),
    only("replication", None, &["false", "off", "no", "0"]),
];

const fn taken(name: &'static str, variable: Option<&'static str>) -> Keyword {
    Keyword { name, variable, usage: Use::Taken }
}

const fn ignored(name: &'static str, variable: Option<&'static str>) -> Keyword {
    Keyword { name, variable, usage: Use::Ignored }
}

const fn only(name: &'static str, variable: Option<&'static str>, values: &'static [&'static str]) -> Keyword {
    Keyword { name, variable, usage: Use::Only(values) }
}

/// The parameter of that name.
pub(crate) fn find(name: &str) -> Option<&'static Keyword> {
    KEYWORDS.iter().find(|keyword| keyword.name == name)
}

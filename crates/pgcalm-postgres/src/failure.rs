//! Why one attempt failed, and what helps.

use std::error::Error;
use std::io;
use std::time::Duration;

use postgres::error::DbError;

use crate::address::Address;
use crate::error::ConnectError;
use crate::host::{Host, Place};
use crate::tls::Mode;

/// What went wrong with a host.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The server could not be reached, or refused the session.
    Connect(postgres::Error),
    /// The session could not be set up.
    Session(postgres::Error),
    /// It took longer than this.
    Silent(Duration),
    /// It is not what `target_session_attrs` says.
    Target(&'static str),
    /// A signal has asked this process to end.
    Interrupted,
    /// This process could not try.
    Thread(io::Error),
    /// The server's socket can't be reached.
    Reach(io::Error),
    /// It is another server, or of a version that is not known.
    Unfit(String),
}

impl Failure {
    fn reported(&self) -> Option<&DbError> {
        match self {
            Self::Connect(error) => error.as_db_error(),
            _ => None,
        }
    }

    /// The code, and the function of the server that reported it: its words may be in any language.
    fn is(&self, code: &str, routine: &str) -> bool {
        self.reported()
            .is_some_and(|error| error.code().code() == code && error.routine().is_none_or(|name| name == routine))
    }

    /// Whether pg_hba.conf has no line that fits (`ClientAuthentication` of auth.c): there may be one for the other choice
    /// about TLS.
    pub(crate) fn is_rejection(&self) -> bool {
        self.is("28000", "ClientAuthentication")
    }

    /// Whether `peer` or `ident` authentication sees somebody else (`auth_failed` of auth.c).
    pub(crate) fn is_other_user(&self) -> bool {
        self.is("28000", "auth_failed")
    }

    /// Whether it went wrong between the server's consent to TLS and its end.
    pub(crate) fn is_tls(&self) -> bool {
        matches!(self, Self::Connect(error) if handshake(error).is_some())
    }

    /// Whether nothing was said in time.
    pub(crate) fn is_timed_out(&self) -> bool {
        match self {
            Self::Silent(_) => true,
            Self::Connect(error) | Self::Session(error) => is_timed_out(error),
            _ => false,
        }
    }

    /// Whether the server takes no session of anybody: it starts, recovers or stops (`cannot_connect_now`).
    pub(crate) fn is_closed(&self) -> bool {
        self.reported().is_some_and(|error| error.code().code() == "57P03")
    }

    /// Whether the server answers, and only does not let this role in, or not into this database: so it is for ever, and says nothing
    /// of others.
    pub(crate) fn is_denied(&self) -> bool {
        let codes = ["28000", "28P01", "3D000", "42501"];
        self.wants_password() || self.reported().is_some_and(|error| codes.contains(&error.code().code()))
    }

    fn cause<T: Error + 'static>(&self) -> Option<&T> {
        let Self::Connect(error) = self else { return None };
        chain(error).find_map(|error| error.downcast_ref::<T>())
    }

    /// The server is not asked; the library has no other word for it.
    fn says(&self, words: &str) -> bool {
        match self {
            Self::Connect(error) => chain(error).any(|error| error.to_string() == words),
            _ => false,
        }
    }

    fn wants_password(&self) -> bool {
        self.says("password missing")
    }

    fn has_no_tls(&self) -> bool {
        self.says("server does not support TLS")
    }
}

/// In one line: why, and what to do.
pub(crate) fn explain(address: &Address, host: &Host, failure: &Failure) -> String {
    let mut text = reason(failure);
    if let Some(remedy) = remedy(address, host, failure) {
        text.push_str(": ");
        text.push_str(&remedy);
    }
    text.replace(['\n', '\r'], " ")
}

fn reason(failure: &Failure) -> String {
    match failure {
        failure if failure.wants_password() => "the server wants a password".to_string(),
        failure if failure.has_no_tls() => "the server has no TLS".to_string(),
        Failure::Connect(error) => match (error.as_db_error(), handshake(error)) {
            (Some(reported), _) => reported.message().to_string(),
            (None, Some(reason)) => format!("TLS: {reason}"),
            (None, None) => match failure.cause::<io::Error>() {
                Some(cause) => cause.to_string(),
                None => with_cause(error),
            },
        },
        Failure::Session(error) => format!("set up the session: {}", with_cause(error)),
        Failure::Silent(time) => format!("no answer within {} s", time.as_secs_f64()),
        Failure::Target(what) => format!("{what} (target_session_attrs)"),
        Failure::Interrupted => "interrupted".to_string(),
        Failure::Thread(error) => format!("start connecting: {error}"),
        Failure::Reach(error) => error.to_string(),
        Failure::Unfit(text) => text.clone(),
    }
}

fn remedy(address: &Address, host: &Host, failure: &Failure) -> Option<String> {
    let text = match failure {
        failure if failure.wants_password() => return Some(where_passwords_go(host)),
        failure if failure.has_no_tls() => "set ssl = on there, or allow sslmode=prefer here",
        failure if failure.is_tls() => return tls_remedy(address, failure),
        Failure::Silent(_) => "is it stopped, overloaded, or no PostgreSQL? connect_timeout=N waits longer",
        Failure::Connect(error) => match (error.as_db_error(), failure.cause::<io::Error>()) {
            (Some(reported), _) => return server_remedy(address, host, failure, reported),
            (None, Some(error)) => network_remedy(host, error)?,
            (None, None) => return None,
        },
        Failure::Reach(error) => network_remedy(host, error)?,
        Failure::Session(_) | Failure::Target(_) | Failure::Interrupted | Failure::Thread(_) | Failure::Unfit(_) => {
            return None;
        }
    };
    Some(text.to_string())
}

fn server_remedy(address: &Address, host: &Host, failure: &Failure, reported: &DbError) -> Option<String> {
    let text = match reported.code().code() {
        "28P01" => match &host.password.source {
            Some(source) => return Some(format!("the password is that of {source}")),
            None => return Some(where_passwords_go(host)),
        },
        "28000" if failure.is_other_user() => {
            "name a role that goes with the operating system user (user=), or run as the user that goes with the role"
        }
        "28000" if failure.is_rejection() => match (&host.place, address.tls.mode) {
            (Place::Tcp { .. }, Mode::Disable) => {
                "add a line to the server's pg_hba.conf, or allow TLS with sslmode=prefer"
            }
            (Place::Tcp { .. }, mode) if mode >= Mode::Require => {
                "add a line to the server's pg_hba.conf, or allow sslmode=prefer"
            }
            _ => "add a line to the server's pg_hba.conf",
        },
        "28000" => "name another role with user=",
        "3D000" => "name another database with dbname=",
        "42501" => "GRANT CONNECT ON DATABASE, or name another database with dbname=",
        "53300" => "raise max_connections, or end sessions; superusers have places of their own",
        "57P03" => "try again when it is up",
        _ => return None,
    };
    Some(text.to_string())
}

fn network_remedy(host: &Host, error: &io::Error) -> Option<&'static str> {
    match (error.kind(), &host.place) {
        (io::ErrorKind::NotFound, Place::Unix(_)) => {
            Some("no server has its socket there: name host and port, e.g. \"host=localhost port=5432\"")
        }
        (io::ErrorKind::ConnectionRefused, Place::Unix(_)) => Some("the server that had this socket is gone"),
        (io::ErrorKind::ConnectionRefused, Place::Tcp { .. }) => {
            Some("is the server up, and does it listen there (its listen_addresses and port)?")
        }
        (io::ErrorKind::PermissionDenied, Place::Unix(_)) => {
            Some("this user may not use the socket (unix_socket_permissions): run as another")
        }
        (io::ErrorKind::TimedOut, _) => Some("is it up, and does a firewall let you through?"),
        _ => None,
    }
}

fn tls_remedy(address: &Address, failure: &Failure) -> Option<String> {
    let Failure::Connect(error) = failure else { return None };
    let reason = handshake(error)?;
    let text = if reason.contains("ostname mismatch") || reason.contains("IP address mismatch") {
        "connect by a name that the certificate has, or with sslmode=verify-ca"
    } else if reason.contains("verify failed") {
        "sslrootcert or PGSSLROOTCERT has to name the certificate of the authority that has signed the server's"
    } else if address.tls.mode == Mode::Prefer {
        "sslmode=disable does without TLS"
    } else {
        return None;
    };
    Some(text.to_string())
}

fn where_passwords_go(host: &Host) -> String {
    let place = match host.password.withheld {
        true => "anybody may run it: name the directory of its socket in ~/.pgpass (PGPASSFILE), or give --connect",
        false => "put it into ~/.pgpass (PGPASSFILE), a service file or PGPASSWORD",
    };
    let mut text = place.to_string();
    if let Some(ignored) = &host.password.ignored {
        text = format!("{ignored}; or {text}");
    }
    text
}

/// What OpenSSL says about a handshake that failed.
fn handshake(error: &postgres::Error) -> Option<String> {
    // tokio-postgres's, then postgres-openssl's, which adds what is wrong with a certificate, then OpenSSL's own.
    let outer = error.source()?;
    let inner = outer.source()?.downcast_ref::<openssl::ssl::Error>()?;
    let detail = outer.to_string();
    let detail = detail.strip_prefix(&inner.to_string()).unwrap_or("");
    let reasons = inner.ssl_error().map(|stack| {
        let reasons: Vec<&str> = stack.errors().iter().filter_map(openssl::error::Error::reason).collect();
        reasons.join(", ")
    });
    let reason = reasons.filter(|reasons| !reasons.is_empty()).unwrap_or_else(|| inner.to_string());
    Some(format!("{reason}{detail}"))
}

fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| (*error).source())
}

/// Whether an error rests on one of a wait that a signal has ended.
pub fn is_interrupted(error: &(dyn Error + 'static)) -> bool {
    chain(error).any(|error| {
        error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::Interrupted)
            || matches!(error.downcast_ref(), Some(ConnectError::Interrupted))
    })
}

/// Whether an error rests on a wait for an answer that was given up.
pub fn is_timed_out(error: &(dyn Error + 'static)) -> bool {
    let mut causes = chain(error).filter_map(|error| error.downcast_ref::<io::Error>());
    causes.any(|error| error.kind() == io::ErrorKind::TimedOut)
}

/// Whether an error of the library means that the connection is gone: the server has ended it, or it broke.
pub fn is_lost(error: &postgres::Error) -> bool {
    // admin_shutdown, crash_shutdown
    let ended = ["57P01", "57P02"];
    error.is_closed()
        || error.code().is_some_and(|code| ended.contains(&code.code()))
        || chain(error).any(<dyn std::error::Error + 'static>::is::<io::Error>)
}

/// An error of the library and what it rests on, in one line: alone it says "error connecting to server" only.
pub fn with_cause(error: &postgres::Error) -> String {
    if let Some(reported) = error.as_db_error() {
        return reported.message().replace('\n', " ");
    }
    let mut text = String::new();
    for part in chain(error).map(ToString::to_string) {
        if !text.contains(&part) {
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(&part);
        }
    }
    text.replace('\n', " ")
}

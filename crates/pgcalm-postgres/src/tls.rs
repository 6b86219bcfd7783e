//! TLS as libpq does it (`initialize_SSL` of fe-secure-openssl.c), with the same library: certificates that psql takes or
//! refuses are taken or refused here, too.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use openssl::error::ErrorStack;
use openssl::pkey::{PKey, Private};
use openssl::ssl::{SslConnector, SslConnectorBuilder, SslFiletype, SslMethod, SslVerifyMode, SslVersion};
use openssl::x509::store::{X509Lookup, X509StoreBuilder};
use openssl::x509::verify::X509VerifyFlags;
use postgres::config::SslNegotiation;
use postgres_openssl::MakeTlsConnector;

use crate::environment::Environment;
use crate::error::ConnectError;
use crate::parameters::Parameters;

/// `sslrootcert` that means the certificate authorities which the system trusts.
const SYSTEM: &str = "system";

/// `sslmode`, from the least to the most that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mode {
    /// Without TLS.
    Disable,
    /// With TLS if the server doesn't take the session without.
    Allow,
    /// With TLS if the server has it.
    Prefer,
    /// Only with TLS; the server's certificate is checked if there is a file of certificate authorities.
    Require,
    /// And a certificate authority that is trusted has signed the server's certificate.
    VerifyCa,
    /// And that certificate is for the host's name.
    VerifyFull,
}

const MODES: [(&str, Mode); 6] = [
    ("disable", Mode::Disable),
    ("allow", Mode::Allow),
    ("prefer", Mode::Prefer),
    ("require", Mode::Require),
    ("verify-ca", Mode::VerifyCa),
    ("verify-full", Mode::VerifyFull),
];

const VERSIONS: [(&str, SslVersion); 4] = [
    ("TLSv1", SslVersion::TLS1),
    ("TLSv1.1", SslVersion::TLS1_1),
    ("TLSv1.2", SslVersion::TLS1_2),
    ("TLSv1.3", SslVersion::TLS1_3),
];

/// How connections over TCP are protected.
#[derive(Clone)]
pub(crate) struct Tls {
    pub mode: Mode,
    pub negotiation: SslNegotiation,
    /// `None` for [`Mode::Disable`].
    pub connector: Option<MakeTlsConnector>,
}

impl Tls {
    /// None: for Unix sockets, where libpq has none either, whatever `sslmode` says.
    pub(crate) fn none() -> Self {
        Self { mode: Mode::Disable, negotiation: SslNegotiation::Postgres, connector: None }
    }

    /// Reads certificates and keys. Those in ~/.postgresql count if they are there.
    pub(crate) fn new(parameters: &Parameters, environment: &Environment) -> Result<Self, ConnectError> {
        let is_system = parameters.text("sslrootcert") == Some(SYSTEM);
        let mode = parameters.choice("sslmode", &MODES)?;
        let mode = mode.unwrap_or(if is_system { Mode::VerifyFull } else { Mode::Prefer });
        if is_system && mode != Mode::VerifyFull {
            return Err(parameters.invalid(
                "sslmode",
                "sslrootcert=system goes with verify-full only, since anybody can have a certificate for another name",
            ));
        }
        let negotiation = parameters
            .choice("sslnegotiation", &[("postgres", SslNegotiation::Postgres), ("direct", SslNegotiation::Direct)])?
            .unwrap_or(SslNegotiation::Postgres);
        if negotiation == SslNegotiation::Direct && mode < Mode::Require {
            return Err(parameters
                .invalid("sslnegotiation", "direct goes with sslmode=require, verify-ca and verify-full only"));
        }
        let connector = match mode {
            Mode::Disable => None,
            _ => Some(connector(parameters, environment, mode)?),
        };
        Ok(Self { mode, negotiation, connector })
    }
}

fn connector(parameters: &Parameters, environment: &Environment, mode: Mode) -> Result<MakeTlsConnector, ConnectError> {
    let failed = |error: ErrorStack| ConnectError::Parameters(format!("set up TLS: {error}"));
    let mut builder = SslConnector::builder(SslMethod::tls_client()).map_err(failed)?;
    postgres_openssl::set_postgresql_alpn(&mut builder).map_err(failed)?;
    let oldest = parameters.choice("ssl_min_protocol_version", &VERSIONS)?;
    let oldest = oldest.unwrap_or(SslVersion::TLS1_2);
    builder.set_min_proto_version(Some(oldest)).map_err(failed)?;
    let newest = parameters.choice("ssl_max_protocol_version", &VERSIONS)?;
    builder.set_max_proto_version(newest).map_err(failed)?;
    let verifies = trust(&mut builder, parameters, environment, mode)?;
    builder.set_verify(if verifies { SslVerifyMode::PEER } else { SslVerifyMode::NONE });
    present(&mut builder, parameters, environment)?;
    let tells_name = parameters.choice("sslsni", &[("0", false), ("1", true)])?.unwrap_or(true);
    let mut connector = MakeTlsConnector::new(builder.build());
    connector.set_callback(move |configuration, _| {
        configuration.set_use_server_name_indication(tells_name);
        configuration.set_verify_hostname(mode == Mode::VerifyFull);
        Ok(())
    });
    Ok(connector)
}

/// Says whose signature is trusted; false if the server's certificate is not to be checked.
fn trust(
    builder: &mut SslConnectorBuilder,
    parameters: &Parameters,
    environment: &Environment,
    mode: Mode,
) -> Result<bool, ConnectError> {
    if parameters.text("sslrootcert") == Some(SYSTEM) {
        // They are what the builder begins with.
        return Ok(true);
    }
    let authorities = file(parameters, environment, "sslrootcert", "root.crt");
    let Some(authorities) = authorities.filter(|file| file.exists()) else {
        if mode < Mode::VerifyCa {
            return Ok(false);
        }
        return Err(ConnectError::Parameters(format!(
            "sslmode=verify-ca and verify-full need the certificate of the authority that has signed the server's{}: name \
             its file with sslrootcert or PGSSLROOTCERT, or give sslrootcert=system for the authorities that this system trusts",
            match file(parameters, environment, "sslrootcert", "root.crt") {
                Some(file) => format!(", and {} is not there", file.display()),
                None => String::new(),
            }
        )));
    };
    let none = X509StoreBuilder::new().map(X509StoreBuilder::build);
    builder.set_cert_store(none.map_err(|error| unreadable("sslrootcert", &authorities, &error))?);
    builder.set_ca_file(&authorities).map_err(|error| unreadable("sslrootcert", &authorities, &error))?;
    revoke(builder, parameters, environment)?;
    Ok(true)
}

/// Certificates that are revoked. libpq goes on without a list that it can't read; one that was named is needed here.
fn revoke(
    builder: &mut SslConnectorBuilder,
    parameters: &Parameters,
    environment: &Environment,
) -> Result<(), ConnectError> {
    let directory = parameters.text("sslcrldir").map(PathBuf::from);
    let list = match (parameters.text("sslcrl"), &directory) {
        (Some(list), _) => Some(PathBuf::from(list)),
        (None, Some(_)) => None,
        (None, None) => environment.in_home(".postgresql/root.crl").filter(|list| list.exists()),
    };
    let store = builder.cert_store_mut();
    if let Some(list) = &list {
        store
            .add_lookup(X509Lookup::file())
            .and_then(|lookup| lookup.load_crl_file(list, SslFiletype::PEM))
            .map_err(|error| unreadable("sslcrl", list, &error))?;
    }
    if let Some(directory) = &directory {
        store
            .add_lookup(X509Lookup::hash_dir())
            .and_then(|lookup| lookup.add_dir(&directory.to_string_lossy(), SslFiletype::PEM))
            .map_err(|error| unreadable("sslcrldir", directory, &error))?;
    }
    if list.is_some() || directory.is_some() {
        store
            .set_flags(X509VerifyFlags::CRL_CHECK | X509VerifyFlags::CRL_CHECK_ALL)
            .map_err(|error| ConnectError::Parameters(format!("set up TLS: {error}")))?;
    }
    Ok(())
}

/// The certificate of this side, if there is one.
fn present(
    builder: &mut SslConnectorBuilder,
    parameters: &Parameters,
    environment: &Environment,
) -> Result<(), ConnectError> {
    let certificate = file(parameters, environment, "sslcert", "postgresql.crt");
    let Some(certificate) = certificate.filter(|file| file.exists()) else {
        return match parameters.text("sslcert") {
            // libpq goes on, and the server says that there was none.
            Some(file) => Err(ConnectError::Parameters(format!(
                "sslcert: {file} is not there: name the file of the client's certificate"
            ))),
            None => Ok(()),
        };
    };
    builder.set_certificate_chain_file(&certificate).map_err(|error| unreadable("sslcert", &certificate, &error))?;
    let Some(key_file) = file(parameters, environment, "sslkey", "postgresql.key") else { return Ok(()) };
    let key = private_key(&key_file, parameters, environment)?;
    builder
        .set_private_key(&key)
        .and_then(|()| builder.check_private_key())
        .map_err(|error| unreadable("sslkey", &key_file, &error))
}

fn private_key(file: &Path, parameters: &Parameters, environment: &Environment) -> Result<PKey<Private>, ConnectError> {
    let failed = |reason: String| {
        ConnectError::Parameters(format!(
            "sslkey: the private key of the client's certificate, {}: {reason}",
            file.display()
        ))
    };
    let metadata = fs::metadata(file).map_err(|error| failed(error.to_string()))?;
    // One of root's may be readable by a group, e.g. one of programs that use the system's keys.
    let (too_many, remedy) = match metadata.uid() {
        uid if uid == environment.uid && uid != 0 => (0o077, "chmod 600"),
        0 => (0o037, "chmod 640"),
        _ if environment.uid == 0 => (0o077, "chmod 600"),
        _ => return Err(failed("it belongs to another user".to_string())),
    };
    if !metadata.is_file() || metadata.mode() & too_many != 0 {
        return Err(failed(format!("others may read it: {remedy}")));
    }
    let content = fs::read(file).map_err(|error| failed(error.to_string()))?;
    let password = parameters.text("sslpassword").unwrap_or_default();
    // With no password given, an encrypted key is an error: nobody is asked.
    PKey::private_key_from_pem_passphrase(&content, password.as_bytes())
        .map_err(|error| failed(format!("{}; or its sslpassword is wrong", first(&error))))
}

/// The file that a parameter names, else that of this name in ~/.postgresql.
fn file(parameters: &Parameters, environment: &Environment, parameter: &str, name: &str) -> Option<PathBuf> {
    match parameters.text(parameter) {
        Some(file) => Some(PathBuf::from(file)),
        None => environment.in_home(&format!(".postgresql/{name}")),
    }
}

fn unreadable(parameter: &str, file: &Path, error: &ErrorStack) -> ConnectError {
    ConnectError::Parameters(format!("{parameter}: read {}: {}", file.display(), first(error)))
}

/// The first of the errors, which says most.
fn first(error: &ErrorStack) -> String {
    error.errors().first().and_then(openssl::error::Error::reason).unwrap_or("it can't be used").to_string()
}

//! Connections to PostgreSQL servers, as libpq's programs make them, and the server's views in one shape, whatever the version.
//!
//! One place for what a connection string, a service file, the environment and a password file say, for TLS, for `peer`
//! authentication as root, for what every session is set to, and for messages that name the way out. `docs/operate/integrations.md`
//! has it for users.
//!
//! [`Version::writes`], [`Version::wal`] and [`ARCHIVER`] are subqueries of one row with the same columns for all versions, so that a
//! caller can join them with what else it asks for; [`Writes`], [`Wal`] and [`Archiver`] are what such a row says. [`Settings`] are
//! rows of `pg_settings`, and know their units.
//!
//! ```no_run
//! use pgcalm_postgres::{Address, Caller, DefaultUser, Session};
//! let caller = Caller {
//!     application_name: "pgcalm example",
//!     user: DefaultUser::OperatingSystem,
//!     connect_timeout: std::time::Duration::from_secs(10),
//!     gives_up: true,
//!     session: Some(Session::LOOK),
//! };
//! let mut client = Address::new("service=db1", None, &caller)?.connect()?;
//! # Ok::<(), pgcalm_postgres::ConnectError>(())
//! ```

mod address;
mod archiver;
mod attempt;
mod client;
mod conninfo;
mod environment;
mod error;
pub mod estimate;
mod failure;
mod found;
mod host;
mod keyword;
mod module;
mod parameters;
mod password_file;
mod peer;
mod ping;
mod process_title;
mod proof;
mod service_file;
mod session;
mod settings;
mod text;
mod tls;
mod user;
mod version;
mod wal;
mod wanted;
mod writes;

pub use address::{Address, Caller, DefaultUser};
pub use archiver::{ARCHIVER, Archiver};
pub use client::Client;
pub use error::ConnectError;
pub use failure::{is_interrupted, is_lost, is_timed_out, with_cause};
pub use found::Found;
pub use module::{MODULE_SCHEMA, extension_schema, module_schema};
pub use ping::Ping;
pub use process_title::hide_passwords;
pub use proof::listener;
pub use session::Session;
pub use settings::{Setting, Settings, unit_bytes, unit_seconds};
pub use text::Text;
pub use version::{OLDEST, Version, refusal};
pub use wal::Wal;
pub use wanted::{Wanted, is_in_environment};
pub use writes::Writes;

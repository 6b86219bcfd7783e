//! Connections to PostgreSQL servers, as libpq's programs make them.
//!
//! One place for what a connection string, a service file, the environment and a password file say, for TLS, for `peer`
//! authentication as root, for what every session is set to, and for messages that name the way out. `docs/operate/integrations.md`
//! has it for users.
//!
//! ```no_run
//! use pgcalm_connect::{Address, Caller, DefaultUser, Session};
//! let caller = Caller {
//!     application_name: "pgcalm example",
//!     user: DefaultUser::OperatingSystem,
//!     connect_timeout: std::time::Duration::from_secs(10),
//!     gives_up: true,
//!     session: Some(Session::LOOK),
//! };
//! let mut client = Address::new("service=db1", None, &caller)?.connect()?;
//! # Ok::<(), pgcalm_connect::ConnectError>(())
//! ```

mod address;
mod attempt;
mod client;
mod conninfo;
mod environment;
mod error;
mod failure;
mod found;
mod host;
mod keyword;
mod parameters;
mod password_file;
mod peer;
mod process_title;
mod proof;
mod service_file;
mod session;
mod tls;
mod wanted;

pub use address::{Address, Caller, DefaultUser};
pub use client::Client;
pub use error::ConnectError;
pub use failure::{is_interrupted, is_lost, with_cause};
pub use found::Found;
pub use process_title::hide_passwords;
pub use session::Session;
pub use wanted::{Wanted, is_in_environment};

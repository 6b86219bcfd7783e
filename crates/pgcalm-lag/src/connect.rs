//! Connecting to a primary.

use std::time::Duration;

use pgcalm_connect::Address;
use pgcalm_connect::Caller;
use pgcalm_connect::DefaultUser;
use pgcalm_connect::Session;
use postgres::Client;

use crate::error::LagError;

/// Connects by a connection string of libpq's, or a URI. `application_name` is what the server sees.
///
/// # Errors
///
/// [`LagError::Connect`].
pub fn connect(conninfo: &str, application_name: &str) -> Result<Client, LagError> {
    let caller = Caller {
        application_name,
        user: DefaultUser::OperatingSystem,
        connect_timeout: Duration::from_secs(10),
        gives_up: true,
        session: Some(Session::LOOK),
    };
    Ok(Address::new(conninfo, None, &caller)?.connect()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_not_there_is_named_and_a_password_is_not() {
        let refused = |conninfo| match connect(conninfo, "test") {
            Err(error @ LagError::Connect(_)) => error.to_string(),
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("there is no server"),
        };
        let text = refused("host=127.0.0.1 port=1 user=x password=secret");
        assert!(text.contains("127.0.0.1 port 1"), "{text}");
        assert!(!text.contains("secret"), "{text}");
        assert!(!text.contains('\n'), "{text}");
        assert!(refused("host=x nonsense").contains("give e.g."));
    }
}

//! Connecting to a primary.

use std::time::Duration;

use pgcalm_host::HostRoot;
use pgcalm_postgres::{Caller, Client, DefaultUser, Session, Wanted};

/// Connects to the server that is meant. `application_name` is what it sees.
pub fn connect(root: &HostRoot, wanted: Wanted, application_name: &str) -> anyhow::Result<Client> {
    let caller = Caller {
        application_name,
        user: DefaultUser::OperatingSystem,
        connect_timeout: Duration::from_secs(10),
        gives_up: true,
        session: Some(Session::LOOK),
    };
    wanted.connect(root, &caller)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_not_there_is_named_and_a_password_is_not() {
        let refused = |conninfo| {
            let wanted = Wanted { connect: Some(conninfo), instance: None };
            match connect(&HostRoot::default(), wanted, "test") {
                Err(error) => format!("{error:#}"),
                Ok(_) => panic!("there is no server"),
            }
        };
        let text = refused("host=127.0.0.1 port=1 user=x password=secret");
        assert!(text.starts_with("--connect: no connection to 127.0.0.1 port 1"), "{text}");
        assert!(!text.contains("secret"), "{text}");
        assert!(!text.contains('\n'), "{text}");
        assert!(refused("host=x nonsense").contains("give e.g."));
    }
}

//! What an address is made of, in environments of the tests' own.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::*;

const CALLER: Caller = Caller {
    application_name: "pgcalm test",
    user: DefaultUser::OperatingSystem,
    connect_timeout: Duration::from_secs(7),
    gives_up: true,
    session: None,
};

fn environment(variables: &[(&str, &str)]) -> Environment {
    Environment {
        variables: variables.iter().map(|(name, value)| (name.to_string(), value.into())).collect(),
        home: None,
        uid: 1000,
        user: Some("someone".to_string()),
    }
}

fn address(conninfo: &str, variables: &[(&str, &str)]) -> Address {
    Address::in_environment(conninfo, None, &CALLER, &environment(variables)).unwrap()
}

#[track_caller]
fn refuses(conninfo: &str, part: &str) {
    let error = Address::in_environment(conninfo, None, &CALLER, &environment(&[])).unwrap_err();
    assert!(error.to_string().contains(part), "{conninfo}: {error}");
}

#[test]
fn what_is_left_out_has_a_default() {
    let address = address("host=db1", &[]);
    assert_eq!(address.place(), "db1 port 5432");
    assert_eq!(address.user, "someone");
    assert_eq!(address.database, "postgres");
    assert_eq!(address.base.get_application_name(), Some("pgcalm test"));
    assert_eq!(address.connect_timeout, Some(Duration::from_secs(7)));
    assert_eq!(address.tls.mode, crate::tls::Mode::Prefer);
    let superuser = Caller { user: DefaultUser::Superuser, ..CALLER };
    let of = |caller, uid| {
        let environment = Environment { uid, ..environment(&[]) };
        let address = Address::in_environment("host=db1", None, caller, &environment);
        address.unwrap().user
    };
    assert_eq!(of(&superuser, 1000), "postgres");
    // Root is hardly ever a role.
    assert_eq!(of(&CALLER, 0), "postgres");
}

#[test]
fn the_string_comes_before_the_environment() {
    let variables = [
        ("PGHOST", "db2"),
        ("PGPORT", "1"),
        ("PGUSER", "monitor"),
        ("PGDATABASE", "base"),
        ("PGPASSWORD", "secret"),
        ("PGAPPNAME", "mine"),
        ("PGCONNECT_TIMEOUT", "0"),
    ];
    let found = address("", &variables);
    assert_eq!(found.place(), "db2 port 1");
    assert_eq!((&*found.user, &*found.database), ("monitor", "base"));
    assert_eq!(found.hosts[0].password.value.as_deref(), Some("secret"));
    assert_eq!(found.base.get_application_name(), Some("mine"));
    assert_eq!(found.connect_timeout, None);
    assert!(!format!("{found:?}").contains("secret"), "{found:?}");
    let found = address("host=db1 user=me", &variables);
    assert_eq!(found.place(), "db1 port 1");
    assert_eq!((&*found.user, &*found.database), ("me", "base"));
}

/// Taken for unset it would lead to another database.
#[test]
fn a_variable_that_is_no_utf8_is_an_error_where_it_counts() {
    let mut environment = environment(&[]);
    let latin1 = OsString::from_vec(b"caf\xe9".to_vec());
    environment.variables.insert("PGDATABASE".into(), latin1);
    let of = |conninfo| Address::in_environment(conninfo, None, &CALLER, &environment);
    let error = of("").unwrap_err().to_string();
    assert!(error.contains("PGDATABASE: is no UTF-8"), "{error}");
    assert!(!error.contains("caf"), "{error}");
    assert_eq!(of("dbname=base").unwrap().database, "base");
}

#[test]
fn a_found_server_comes_before_the_environment_and_after_the_string() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("services");
    fs::write(&file, "[there]\nhost=db3\n").unwrap();
    let variables = [
        ("PGHOST", "db2"),
        ("PGHOSTADDR", "127.0.0.2"),
        ("PGPORT", "1"),
        ("PGUSER", "monitor"),
        ("PGSERVICE", "there"),
        ("PGSERVICEFILE", file.to_str().unwrap()),
    ];
    let server = Found::socket(Path::new("/srv/run"), 5433);
    let of = |conninfo| {
        let environment = environment(&variables);
        let address = Address::in_environment(conninfo, Some(&server), &CALLER, &environment);
        address.unwrap()
    };
    let address = of("");
    assert_eq!(address.place(), "/srv/run port 5433");
    assert_eq!(address.user, "monitor");
    assert!(address.is_socket() && address.is_local());
    assert_eq!(of("port=7").place(), "/srv/run port 7");
    // Its port goes with any host: /proc/PID/root of its container, or a proxy's.
    assert_eq!(of("host=/srv/other").place(), "/srv/other port 5433");
    assert_eq!(of("host=db1 hostaddr=127.0.0.1").place(), "db1 port 5433");
    assert_eq!(of("service=there hostaddr=127.0.0.1").place(), "db3 port 5433");
}

#[test]
fn hosts_ports_and_addresses_go_together() {
    let of = |conninfo| address(conninfo, &[]);
    assert_eq!(of("host=a,b port=1,2").place(), "a port 1, b port 2");
    assert_eq!(of("host=a,b port=3").place(), "a port 3, b port 3");
    assert_eq!(of("host=a,b port=3,").place(), "a port 3, b port 5432");
    assert_eq!(of("hostaddr=::1").place(), "::1 port 5432");
    assert!(of("hostaddr=::1,127.0.0.1").is_local());
    assert!(of("host=localhost").is_local() && !of("host=localhost").is_socket());
    assert!(!of("host=a,/tmp").is_local());
    refuses("host=a,b port=1,2,3", "as many as there are hosts: 2");
    refuses("host=a,b hostaddr=::1", "as many as there are hosts: 2");
    // A zone goes with an IPv6 address only.
    assert_eq!(of("hostaddr=fe80::1%lo").place(), "fe80::1%lo port 5432");
    assert_eq!(of("host=a hostaddr=fe80::1%1").place(), "a port 5432");
    assert_eq!(of("postgresql://[fe80::1%25lo]:1/d").place(), "fe80::1%lo port 1");
    assert!(!of("hostaddr=fe80::1%lo").is_local() && of("hostaddr=::1%lo").is_local());
    refuses("host=a hostaddr=127.0.0.1%lo", "hostaddr");
    refuses("host=a hostaddr=fe80::1%", "hostaddr");
    refuses("host=a hostaddr=b", "hostaddr");
    refuses("host=a port=0", "1 to 65535");
    refuses("host=a port=65536", "1 to 65535");
    refuses("host=@a", "abstract");
    refuses("host=a connect_timeout=x", "connect_timeout");
    refuses("host=a target_session_attrs=x", "prefer-standby");
    refuses("host=a replication=on", "replication");
    refuses("host=a require_auth=scram-sha-256", "require_auth");
    // These ask for nothing.
    of("host=a gssencmode=prefer replication=off client_encoding=LATIN1");
}

#[test]
fn passwords_of_a_file_are_for_hosts_by_name() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join(".pgpass");
    fs::write(&file, "db1:5432:*:*:one\nlocalhost:*:base:*:here\n/srv/run:*:*:*:there\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let passwords = |conninfo: &str| -> Vec<Option<String>> {
        let environment = Environment { home: Some(home.path().to_path_buf()), ..environment(&[]) };
        let address = Address::in_environment(conninfo, None, &CALLER, &environment).unwrap();
        let hosts = address.hosts.into_iter();
        hosts.map(|host| host.password.value).collect()
    };
    let some = |password: &str| Some(password.to_string());
    assert_eq!(
        passwords("host=db1,db2,localhost,/srv/run,/run/postgresql dbname=base"),
        [some("one"), None, some("here"), some("there"), some("here")]
    );
    // With an address, too, the name counts.
    assert_eq!(passwords("host=db1 hostaddr=127.0.0.1"), [some("one")]);
    assert_eq!(passwords("host=db1 port=1"), [None]);
    assert_eq!(passwords("host=db1 password=given"), [some("given")]);
}

/// Any user of this host can run a server, and one that asks for a password in clear text.
#[test]
fn a_server_of_anybody_gets_no_password_but_what_is_meant_for_it() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join(".pgpass");
    let lines = "*:*:*:*:all\nlocalhost:*:*:*:usual\n/srv/run:5433:*:*:named\n";
    fs::write(&file, lines).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let password = |found: &Found, variables: &[(&str, &str)]| {
        let environment = Environment { home: Some(home.path().to_path_buf()), ..environment(variables) };
        let address = Address::in_environment("", Some(found), &CALLER, &environment).unwrap();
        address.hosts[0].password.value.clone()
    };
    let secret = [("PGPASSWORD", "secret")];
    let servers = [("/srv/run", 5433, Some("named")), ("/srv/run", 5434, None), ("/tmp", 5433, None)];
    for (directory, port, named) in servers {
        let found = Found::socket(Path::new(directory), port);
        // Of one that was chosen all of it counts.
        assert_eq!(password(&found, &[]).as_deref(), Some("all"), "{directory}");
        assert_eq!(password(&found, &secret).as_deref(), Some("secret"), "{directory}");
        let found = found.of_anybody();
        assert_eq!(password(&found, &[]).as_deref(), named, "{directory} {port}");
        assert_eq!(password(&found, &secret).as_deref(), named, "{directory} {port}");
    }
}

#[test]
fn a_server_of_the_programs_own_has_nothing_of_the_environment() {
    let address = Address::of_superuser(Path::new("/srv/run"), "pgcalm lab").unwrap();
    assert_eq!(address.place(), "/srv/run port 5432");
    assert_eq!((&*address.user, &*address.database), ("postgres", "postgres"));
    assert!(address.hosts[0].password.value.is_none() && address.session.is_none());
}

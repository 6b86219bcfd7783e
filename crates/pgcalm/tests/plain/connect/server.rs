//! A server with TLS, and certificates made for it.

use std::fs;
use std::net::TcpListener;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use pgcalm_testkit::programs::Programs;
use pgcalm_testkit::server::Launch;
use pgcalm_testkit::{need, programs, server};

/// Who may connect how, over TCP but for the first two.
const RULES: &str = "\
local     all tester               trust
local     all all                  peer
hostnossl all plain   127.0.0.1/32 trust
hostssl   all secured 127.0.0.1/32 trust
hostssl   all holder  127.0.0.1/32 cert
host      all monitor 127.0.0.1/32 scram-sha-256
";

/// `user:password` of a role that has one.
pub(super) const PASSWORD: &str = r"p:w\d se'cret";

/// A server that is reached by TCP, and as `tester` by a socket.
pub(super) struct Server {
    server: server::Server,
    pub directory: tempfile::TempDir,
    pub port: u16,
}

impl Deref for Server {
    type Target = server::Server;

    fn deref(&self) -> &server::Server {
        &self.server
    }
}

/// The server programs; says so if there are none.
pub(super) fn bindir() -> Option<PathBuf> {
    need::met("connect", &[need::SERVER]).then(programs::bindir).flatten()
}

impl Server {
    pub(super) fn start(bindir: &Path) -> Self {
        let directory = programs::directory("pgcalm-connect");
        let path = directory.path();
        let programs = Programs::new(bindir, path);
        make_certificates(&programs);
        let data = path.join("data");
        programs.initdb(&data, &["--username=tester"]);
        fs::write(data.join("pg_hba.conf"), RULES).unwrap();
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let mut launch = Launch::new(&programs, &data);
        launch.port = port;
        launch.role = "tester".to_string();
        launch.settings = format!(
            "listen_addresses = '127.0.0.1'\nfsync = off\nshared_buffers = 16MB\nautovacuum = off\nssl = on\n\
             ssl_cert_file = '{0}/server.crt'\nssl_key_file = '{0}/server.key'\nssl_ca_file = '{0}/ca.crt'\n\
             log_connections = on\nlog_statement = all\nlc_messages = C\n",
            path.display()
        );
        Self { server: launch.start(), directory, port }
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// A file beside the data.
    pub(super) fn file(&self, name: &str) -> String {
        self.path().join(name).display().to_string()
    }
}

/// An authority, the server's certificate for `localhost`, that of the role `holder`, and another authority.
fn make_certificates(programs: &Programs) {
    let openssl = |arguments: &str| {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        programs.run("/usr/bin/openssl", &arguments);
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc";
    for name in ["ca", "other"] {
        openssl(&format!("req -x509 {key} -keyout {name}.key -out {name}.crt -days 2 -subj /CN={name}"));
    }
    for (name, subject) in [("server", "/CN=unused -addext subjectAltName=DNS:localhost"), ("holder", "/CN=holder")] {
        openssl(&format!("req {key} -keyout {name}.key -out {name}.csr -subj {subject}"));
        openssl(&format!(
            "x509 -req -in {name}.csr -CA ca.crt -CAkey ca.key -CAcreateserial -copy_extensions copy -out {name}.crt -days 2"
        ));
    }
}

//! Reads host and server into facts.

mod host;
mod kernel_features;
mod sample;
mod server;

use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use pgcalm_host::HostRoot;
use pgcalm_host::instance;
use pgcalm_host::process;
use pgcalm_host::process::Process;
use pgcalm_report::doctor::facts::Cap;
use pgcalm_report::doctor::facts::Facts;
use pgcalm_report::isolate;

use crate::DoctorError;
use crate::connection;
use crate::connection::Connection;

/// What to look at, and what can't be seen but is known to the caller.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// `--connect`: a connection string of libpq's.
    pub connect: Option<String>,
    /// `--port`: the instance of this host with that port.
    pub port: Option<u16>,
    /// `--datadir`: the instance of this host with that data directory.
    pub datadir: Option<PathBuf>,
    /// `--write-iops`: write operations per second that the disk of the data takes, as of a cloud volume.
    pub write_iops: Option<u64>,
    /// `--write-bandwidth`: bytes per second, likewise.
    pub write_bandwidth: Option<u64>,
    /// `--sample`: how long rates are measured; zero: not at all.
    pub sample: Duration,
}

/// What was read, and the connection if there is one.
pub struct Collected {
    /// All that rules judge by.
    pub facts: Facts,
    /// For changes.
    pub connection: Option<Connection>,
}

/// Reads all that can be read; what can't is named in [`Facts::missing`].
///
/// Errors are [`DoctorError::Usage`] if an option names a server that isn't there or can't be reached.
pub fn collect(root: &HostRoot, options: &Options) -> anyhow::Result<Collected> {
    let mut facts = Facts::default();
    let isolate = match pgcalm_isolate::check::check(root) {
        Ok(report) => Some(report),
        Err(error) => {
            facts
                .missing
                .push(format!("instances of this host: {error:#}"));
            None
        }
    };
    let Which {
        instance,
        mut connection,
        elsewhere,
    } = which(root, options, isolate.as_ref(), &mut facts.missing)?;
    if let Some(connection) = &mut connection {
        match server::read(&mut connection.client, &mut facts.missing) {
            Ok(server) => facts.server = Some(server),
            Err(error) => facts.missing.push(format!("the server's views: {error:#}")),
        }
    }
    if elsewhere {
        facts.missing.push(
            "the host: the server is not one of this host's that may be looked at; run pgcalm doctor on its host, as root"
                .to_string(),
        );
    } else {
        facts.host = Some(host::read(
            root,
            instance,
            isolate.as_ref(),
            &mut facts.missing,
        ));
    }
    add_caps(&mut facts, options);
    if !options.sample.is_zero() {
        facts.sample = sample::take(
            root,
            facts.host.as_ref(),
            connection.as_mut().map(|connection| &mut connection.client),
            options.sample,
        );
    }
    Ok(Collected { facts, connection })
}

/// Which server is meant.
struct Which {
    instance: Option<isolate::Instance>,
    connection: Option<Connection>,
    /// Whether it does not run on this host.
    elsewhere: bool,
}

fn which(
    root: &HostRoot,
    options: &Options,
    isolate: Option<&isolate::Report>,
    missing: &mut Vec<String>,
) -> anyhow::Result<Which> {
    let instances = isolate.map_or(&[][..], |report| &report.instances);
    if let Some(connect) = &options.connect {
        let address = connection::parse(connect)?;
        let connection = connection::open(&address)
            .map_err(|error| DoctorError::Usage(format!("--connect: {error:#}")))?;
        let instance = instances
            .iter()
            .find(|instance| is_same(root, instance, &connection))
            .cloned();
        return Ok(Which {
            elsewhere: instance.is_none() && !address.is_socket(),
            instance,
            connection: Some(connection),
        });
    }
    let hidden = isolate.map_or(0, |report| report.hidden_processes);
    let Some(instance) = choose(options, instances, hidden, missing)? else {
        return Ok(Which {
            instance: None,
            connection: None,
            elsewhere: false,
        });
    };
    let connection =
        connection::to_instance(root, instance.pid).and_then(|address| connection::open(&address));
    let connection = match connection {
        Ok(connection) => Some(connection),
        Err(error) => {
            missing.push(format!(
                "the server's settings and views: {error:#}; or give --connect"
            ));
            None
        }
    };
    Ok(Which {
        instance: Some(instance.clone()),
        connection,
        elsewhere: false,
    })
}

/// The instance that the options name, or the only one.
fn choose<'a>(
    options: &Options,
    instances: &'a [isolate::Instance],
    hidden: u32,
    missing: &mut Vec<String>,
) -> anyhow::Result<Option<&'a isolate::Instance>> {
    let list = || {
        let names: Vec<String> = instances
            .iter()
            .map(|instance| {
                let port = instance
                    .port
                    .map_or("?".to_string(), |port| port.to_string());
                format!("{} (port {port})", instance.data_directory)
            })
            .collect();
        match (names.is_empty(), hidden) {
            (true, 0) => "no server was found on this host".to_string(),
            (true, _) => "servers run here that only root may look at".to_string(),
            _ => format!("these run: {}", names.join(", ")),
        }
    };
    let (option, matching): (String, Vec<_>) = match (&options.port, &options.datadir) {
        (Some(port), _) => (
            format!("--port {port}"),
            instances
                .iter()
                .filter(|instance| instance.port == Some(*port))
                .collect(),
        ),
        (_, Some(datadir)) => (
            format!("--datadir {}", datadir.display()),
            instances
                .iter()
                .filter(|instance| is_directory(datadir, &instance.data_directory))
                .collect(),
        ),
        _ => match instances {
            [instance] => return Ok(Some(instance)),
            [] => {
                missing.push(format!("a server: {}; or give --connect", list()));
                return Ok(None);
            }
            _ => {
                missing.push(format!(
                    "a server: {}; choose with --port, --datadir or --connect",
                    list()
                ));
                return Ok(None);
            }
        },
    };
    match matching[..] {
        [instance] => Ok(Some(instance)),
        [] => Err(DoctorError::Usage(format!("{option}: no such server; {}", list())).into()),
        _ => Err(DoctorError::Usage(format!(
            "{option}: more than one server; {}; choose with --datadir",
            list()
        ))
        .into()),
    }
}

fn is_directory(given: &Path, instance: &str) -> bool {
    let given = given.canonicalize().unwrap_or_else(|_| given.to_path_buf());
    given.components().eq(Path::new(instance).components())
}

/// Whether a connection leads to this instance. A server elsewhere may have the same port, data directory and system
/// identifier, as a standby has; the session's backend is a child of this instance's postmaster only if it is the one.
fn is_same(root: &HostRoot, instance: &isolate::Instance, connection: &Connection) -> bool {
    let is_backend = |process: &Process| {
        process.parent == instance.pid
            && instance::own_pid(root, process.pid) == Some(connection.backend_pid)
    };
    instance.port == Some(connection.port)
        && connection
            .data_directory
            .as_ref()
            .is_none_or(|directory| is_directory(Path::new(directory), &instance.data_directory))
        && process::table(root).is_ok_and(|table| table.iter().any(is_backend))
}

/// Adds what the options and pg_calm know of the data's disk; an option wins, then the tighter of the others.
fn add_caps(facts: &mut Facts, options: &Options) {
    let calm = facts.server.as_ref().and_then(|s| s.pg_calm.as_ref());
    let (iops, bandwidth) =
        calm.map_or((None, None), |calm| (calm.write_iops, calm.write_bandwidth));
    let disk = facts.host.as_mut().and_then(|host| {
        let mut disks = host.disks.iter_mut();
        disks.find(|disk| disk.roles.iter().any(|role| role == "data"))
    });
    if let Some(disk) = disk {
        let (known, option) = (&mut disk.write_iops, options.write_iops);
        *known = tightest(known.take(), iops, "--write-iops", option);
        let (known, option) = (&mut disk.write_bandwidth, options.write_bandwidth);
        *known = tightest(known.take(), bandwidth, "--write-bandwidth", option);
    }
}

fn tightest(
    known: Option<Cap>,
    module: Option<u64>,
    name: &str,
    option: Option<u64>,
) -> Option<Cap> {
    let cap = |value: Option<u64>, source: &str| {
        value.map(|value| Cap {
            value,
            source: source.to_string(),
        })
    };
    cap(option, name).or_else(|| {
        let all = known.into_iter().chain(cap(module, "pg_calm_status"));
        // The first of equals: a file says more than the module, which has read it there.
        all.min_by_key(|cap| cap.value)
    })
}

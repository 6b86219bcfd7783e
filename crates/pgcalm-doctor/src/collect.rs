//! Reads host and server into facts.

pub(crate) mod amounts;
mod grace;
pub(crate) mod host;
mod kernel_features;
mod sample;
mod server;

use std::time::Duration;

use crate::isolate::report as isolate;
use anyhow::Context;
use pgcalm_host::choice::Known;
use pgcalm_host::{Failure, HostRoot, choice, instance, process};
use pgcalm_postgres::{Wanted, is_in_environment, is_lost};

use crate::connection;
use crate::connection::Connection;
use crate::facts::{Cap, Facts};
use crate::rules::read;

/// What to look at, and what can't be seen but is known to the caller.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// `--connect`: a connection string of libpq's.
    pub connect: Option<String>,
    /// `--instance`: a server of this host.
    pub instance: Option<String>,
    /// `--write-iops`, or what writes have of `--iops`: operations per second that the disk of the data takes, as of a
    /// cloud volume; `Some(None)`: it has no cap.
    pub write_iops: Option<Option<u64>>,
    /// `--write-bandwidth`, or what writes have of `--bandwidth`: bytes per second, likewise.
    pub write_bandwidth: Option<Option<u64>>,
    /// `--iops`: operations per second that reads and writes share.
    pub iops: Option<u64>,
    /// `--bandwidth`: bytes per second, likewise.
    pub bandwidth: Option<u64>,
    /// `--duration`: how long rates are measured; zero: not at all.
    pub sample: Duration,
}

/// What was read, and the connection if there is one.
pub struct Collected {
    /// All that rules judge by.
    pub facts: Facts,
    /// For changes.
    pub connection: Option<Connection>,
    /// Why the server was not asked, or not to the end; the host is judged all the same.
    pub unasked: Option<anyhow::Error>,
}

impl Collected {
    /// For those who need the server; a server that could not be asked is an error.
    pub(crate) fn connected(self) -> anyhow::Result<(Facts, Connection)> {
        match (self.connection, self.unasked) {
            (_, Some(error)) => Err(error),
            (Some(connection), None) => Ok((self.facts, connection)),
            (None, None) => Err(Failure::Unreachable(self.facts.missing.join("; ")).into()),
        }
    }
}

/// Reads all that can be read; what can't is named in [`Facts::missing`].
///
/// Errors are about a name that means no server, and not about one that is not there.
pub fn collect(root: &HostRoot, options: &Options) -> anyhow::Result<Collected> {
    let mut facts = Facts::default();
    let isolate = match crate::isolate::check::check(root) {
        Ok(report) => Some(report),
        Err(error) => {
            facts.missing.push(format!("instances of this host: {error:#}"));
            None
        }
    };
    let Which { instance, mut connection, elsewhere, mut unasked } = which(root, options, isolate.as_ref())?;
    if let Some(error) = &unasked {
        facts.missing.push(format!("the server's settings and views: {error:#}"));
    }
    if let Some(open) = &mut connection {
        match server::read(open, &mut facts.missing) {
            Ok(server) => facts.server = Some(server),
            Err(error) => {
                facts.missing.push(format!("the server's views: {error:#}"));
                unasked = Some(error).filter(is_about_lost_session);
            }
        }
    }
    if elsewhere {
        facts.missing.push(
            "the host: the server is not one of this host's that may be looked at; run pgcalm doctor on its host, as root"
                .to_string(),
        );
    } else {
        facts.host = Some(host::read(root, instance, isolate.as_ref(), &mut facts.missing));
    }
    add_caps(&mut facts, options);
    if !options.sample.is_zero() {
        let client = connection.as_mut().filter(|_| unasked.is_none()).map(|connection| &mut connection.client);
        match sample::take(root, facts.host.as_ref(), client, options.sample) {
            Ok(sample) => facts.sample = sample,
            Err(error) => {
                let error = anyhow::Error::from(error).context("it ended meanwhile");
                facts.missing.push(format!("rates: {error:#}"));
                unasked = Some(error);
            }
        }
    }
    Ok(Collected { facts, connection: connection.filter(|_| unasked.is_none()), unasked })
}

fn is_about_lost_session(error: &anyhow::Error) -> bool {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref());
    causes.any(is_lost)
}

/// Which server is meant.
#[derive(Default)]
struct Which {
    instance: Option<isolate::Instance>,
    connection: Option<Connection>,
    /// Whether it does not run on this host.
    elsewhere: bool,
    unasked: Option<anyhow::Error>,
}

impl Which {
    fn unasked(error: impl Into<anyhow::Error>) -> Self {
        Self { unasked: Some(error.into()), ..Self::default() }
    }
}

/// As [`Wanted`] has it, except that the host is worth a look without a server, too.
fn which(root: &HostRoot, options: &Options, isolate: Option<&isolate::Report>) -> anyhow::Result<Which> {
    let instances = isolate.map_or(&[][..], |report| &report.instances);
    let wanted = Wanted { connect: options.connect.as_deref(), instance: options.instance.as_deref() };
    if wanted.connect.is_some() || (wanted.instance.is_none() && is_in_environment()) {
        return by_connection(root, wanted, instances);
    }
    let known: Vec<Known> = instances
        .iter()
        .map(|instance| Known {
            pid: instance.pid,
            port: instance.port,
            data_directory: (&instance.data_directory).into(),
        })
        .collect();
    let hidden = instance::hidden(root, &process::table(root)?);
    let instance = match choice::choose(root, wanted.instance, &known, &hidden) {
        Ok(index) => &instances[index],
        Err(error @ Failure::Usage(_)) if wanted.instance.is_some() => {
            return Err(error.into());
        }
        Err(error) if wanted.instance.is_some() => return Ok(Which::unasked(error)),
        Err(error @ Failure::Usage(_)) => return Ok(Which::unasked(error)),
        // Where libpq's tools look; a server of another user's may be there.
        Err(_) => return by_connection(root, wanted, instances),
    };
    let connection = connection::to_instance(root, instance.pid).and_then(|address| connection::open(&address));
    let (connection, unasked) = match connection {
        Ok(connection) => (Some(connection), None),
        Err(error) => (None, Some(error)),
    };
    Ok(Which {
        connection: connection.map(|connection| connection.of_instance(root, instance.pid)),
        instance: Some(instance.clone()),
        elsewhere: false,
        unasked,
    })
}

fn by_connection(root: &HostRoot, wanted: Wanted, instances: &[isolate::Instance]) -> anyhow::Result<Which> {
    let address = connection::address(root, wanted)?;
    let source = match wanted.connect {
        Some(_) => "--connect",
        None => "without --connect",
    };
    let connection = match connection::open(&address).context(source) {
        Ok(connection) => connection,
        Err(error) => {
            return Ok(Which { elsewhere: !address.is_local(), ..Which::unasked(error) });
        }
    };
    let table = process::table(root).unwrap_or_default();
    let of_port = instances.iter().filter(|instance| instance.port == Some(connection.port));
    let instance = instance::serving(root, &table, of_port, |instance| instance.pid, connection.backend_pid).cloned();
    Ok(Which {
        elsewhere: instance.is_none() && !address.is_socket(),
        connection: Some(match &instance {
            Some(instance) => connection.of_instance(root, instance.pid),
            None => connection,
        }),
        instance,
        unasked: None,
    })
}

/// Adds what the options and pg_calm know of the data's disk; an option wins, then the tighter of the others.
fn add_caps(facts: &mut Facts, options: &Options) {
    let server = facts.server.as_ref();
    let calm = server.and_then(|server| server.pg_calm.as_ref());
    let (iops, bandwidth) = calm.map_or((None, None), |calm| (calm.write_iops, calm.write_bandwidth));
    let all_iops = server.and_then(|server| read::number(server, "pg_calm.iops").ok());
    let all_bandwidth = server.and_then(|server| read::bytes(server, "pg_calm.bandwidth").ok()?);
    let disk = facts.host.as_mut().and_then(|host| {
        let mut disks = host.disks.iter_mut();
        disks.find(|disk| disk.roles.iter().any(|role| role == "data"))
    });
    if let Some(disk) = disk {
        let (known, option) = (&mut disk.write_iops, options.write_iops);
        *known = tightest(known.take(), iops, option);
        let (known, option) = (&mut disk.write_bandwidth, options.write_bandwidth);
        *known = tightest(known.take(), bandwidth, option);
        let all_iops = all_iops.map(|iops| iops as u64);
        disk.all_iops = shared(options.iops, "pg_calm.iops", all_iops);
        disk.all_bandwidth = shared(options.bandwidth, "pg_calm.bandwidth", all_bandwidth);
    }
}

/// A cap that reads and writes share: by an option, else by a setting of the module, in which 0 is none.
fn shared(option: Option<u64>, name: &str, setting: Option<u64>) -> Option<Cap> {
    let setting = setting.filter(|value| *value > 0);
    option
        .map(|value| (value, "options"))
        .or(setting.map(|value| (value, name)))
        .map(|(value, source)| Cap { value, source: source.to_string() })
}

fn tightest(known: Option<Cap>, module: Option<u64>, option: Option<Option<u64>>) -> Option<Cap> {
    let cap = |value: Option<u64>, source: &str| value.map(|value| Cap { value, source: source.to_string() });
    if let Some(option) = option {
        return cap(option, "options");
    }
    let all = known.into_iter().chain(cap(module, "pg_calm_status"));
    // The first of equals: a file says more than the module, which has read it there.
    all.min_by_key(|cap| cap.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_cap_is_the_options_or_the_modules() {
        let of = |option, setting| {
            let cap = shared(option, "pg_calm.iops", setting)?;
            Some((cap.value, cap.source))
        };
        assert_eq!(of(None, None), None);
        assert_eq!(of(None, Some(0)), None);
        assert_eq!(of(None, Some(3000)), Some((3000, "pg_calm.iops".into())));
        assert_eq!(of(Some(5000), Some(3000)), Some((5000, "options".into())));
    }
}

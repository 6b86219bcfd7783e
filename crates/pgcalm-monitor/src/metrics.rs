//! The metrics of `pgcalm export`: one table, in which each has its name, meaning and labels beside where it is read from.
//!
//! Labels are bounded: an instance, a disk, a network interface, a role of it, a phase, or a word of a closed list. Names that a user gives to
//! sessions, standbys or slots, and queries, are in none; where there are many, the worst one counts.

/// The table of a file. Each metric has a kind, a name, its labels, what it means and where it is read from: `Instance` or `Host`, with
/// an expression that has one value or none, or with one that adds values to `points`.
macro_rules! metrics {
    ($($kind:ident $name:literal [$($label:literal),*] $help:literal $of:ident |$($one:ident),+| $read:expr;)*) => {
        pub(crate) const TABLE: &[Metric] = &[$(Metric {
            name: $name,
            kind: Kind::$kind,
            help: $help,
            labels: &[$($label),*],
            read: metrics!(@$of |$($one),+| $read),
        },)*];
    };
    (@$of:ident |$one:ident| $read:expr) => { Read::$of(|$one, points| points.maybe(&[], $read)) };
    (@$of:ident |$one:ident, $points:ident| $read:expr) => { Read::$of(|$one, $points| $read) };
}

mod checkpoint;
mod exposition;
mod host;
mod incidents;
mod module;
mod replication;
mod sessions;
mod stop;
mod volumes;
mod wal;

#[cfg(test)]
mod document;

use crate::model::{Host, Instance};

pub use exposition::{classic, openmetrics};

/// The label that names an instance: `instance` is Prometheus's own name for what it scrapes.
const SERVER: &str = "server";

/// How a value develops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, but for restarts; its samples have the suffix `_total`.
    Counter,
    /// Any.
    Gauge,
}

/// A metric.
pub struct Metric {
    /// Name, unit included, without `_total`.
    name: &'static str,
    kind: Kind,
    /// What it means; becomes HELP.
    help: &'static str,
    /// Names of its labels, besides the instance's.
    labels: &'static [&'static str],
    read: Read,
}

/// Where the values come from.
enum Read {
    /// The host.
    Host(fn(&Host, &mut Points)),
    /// Each instance; its name becomes the first label.
    Instance(fn(&Instance, &mut Points)),
}

/// The values of a metric.
#[derive(Default)]
struct Points {
    server: Option<String>,
    names: Vec<&'static str>,
    points: Vec<Point>,
}

/// One value.
struct Point {
    labels: Vec<(String, String)>,
    value: f64,
}

impl Metric {
    /// The unit: what the name ends with, if that is one of OpenMetrics'.
    fn unit(&self) -> Option<&'static str> {
        ["bytes", "seconds", "ratio"].into_iter().find(|unit| self.name.ends_with(&format!("_{unit}")))
    }

    /// All values in a sample.
    fn points(&self, host: &Host) -> Vec<Point> {
        let mut points = Points { names: self.labels.to_vec(), ..Points::default() };
        match self.read {
            Read::Host(read) => read(host, &mut points),
            Read::Instance(read) => {
                for instance in &host.instances {
                    points.server = Some(instance.identity.name.clone());
                    read(instance, &mut points);
                }
            }
        }
        points.points
    }
}

impl Points {
    /// Adds a value, with the values of its labels.
    fn add(&mut self, labels: &[&str], value: impl Number) {
        debug_assert_eq!(labels.len(), self.names.len());
        let server = self.server.iter().map(|name| (SERVER.to_string(), name.clone()));
        let labels = self.names.iter().zip(labels).map(|(name, value)| (name.to_string(), value.to_string()));
        self.points.push(Point { labels: server.chain(labels).collect(), value: value.number() });
    }

    /// Adds a value if there is one.
    fn maybe(&mut self, labels: &[&str], value: Option<impl Number>) {
        if let Some(value) = value {
            self.add(labels, value);
        }
    }
}

/// What can be a value.
trait Number {
    fn number(self) -> f64;
}

impl Number for f64 {
    fn number(self) -> f64 {
        self
    }
}

impl Number for u64 {
    fn number(self) -> f64 {
        self as f64
    }
}

impl Number for bool {
    fn number(self) -> f64 {
        f64::from(u8::from(self))
    }
}

/// All metrics, in the order in which they are written.
fn table() -> impl Iterator<Item = &'static Metric> {
    [
        host::TABLE,
        volumes::TABLE,
        sessions::TABLE,
        wal::TABLE,
        checkpoint::TABLE,
        module::TABLE,
        stop::TABLE,
        replication::TABLE,
        incidents::TABLE,
    ]
    .into_iter()
    .flatten()
}

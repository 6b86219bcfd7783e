//! A volume as somebody asks for it: `gp3`, `gp3:iops=6000`, `custom:iops=800,latency=1ms`.

use std::fmt;
use std::str::FromStr;

use pgcalm_host::quantity;
use pgcalm_host::quantity::{COUNT, PER_SECOND, Quantity, Size};

use crate::latency::Latency;
use crate::limits::{Allowance, Burst, Limits, Rate};
use crate::profiles;
use crate::profiles::{DEPTH, PROFILES, Profile};

/// What may follow the profile's name, in the order in which it is printed.
pub const KEYS: [&str; 12] = [
    "size",
    "iops",
    "bandwidth",
    "read_iops",
    "write_iops",
    "read_bandwidth",
    "write_bandwidth",
    "io_size",
    "latency",
    "depth",
    "burst_iops",
    "credits",
];

/// A profile and what of it is changed.
#[derive(Debug, Clone, Copy)]
pub struct Volume {
    profile: &'static Profile,
    changes: Changes,
}

impl PartialEq for Volume {
    fn eq(&self, other: &Self) -> bool {
        self.profile.name == other.profile.name && self.changes == other.changes
    }
}

impl Eq for Volume {}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Changes {
    size: Option<Size>,
    iops: Option<u64>,
    bandwidth: Option<Size>,
    read_iops: Option<u64>,
    write_iops: Option<u64>,
    read_bandwidth: Option<Size>,
    write_bandwidth: Option<Size>,
    io_size: Option<Size>,
    latency: Option<Latency>,
    depth: Option<u32>,
    burst_iops: Option<u64>,
    credits: Option<u64>,
}

impl Volume {
    /// The profile that it is of.
    pub fn profile(&self) -> &'static Profile {
        self.profile
    }

    /// What the volume allows. Operations of any direction, once given, replace all of the profile's; bytes likewise.
    pub fn limits(&self) -> Limits {
        let changes = &self.changes;
        let size = changes.size.map(Size::bytes).or(self.profile.default_size);
        let mut limits = (self.profile.limits)(size.unwrap_or_default());
        if self.profile.name == "io2"
            && let Some(iops) = changes.iops
        {
            limits = profiles::io2(iops);
        }
        if let Some(operations) = allowance(changes.iops, changes.read_iops, changes.write_iops) {
            limits.operations = operations;
        }
        if let Some(bytes) = allowance(
            changes.bandwidth.map(Size::bytes),
            changes.read_bandwidth.map(Size::bytes),
            changes.write_bandwidth.map(Size::bytes),
        ) {
            limits.bytes = bytes;
        }
        if let Some(io_size) = changes.io_size {
            limits.io_size = Some(io_size.bytes());
        }
        if let Some(Latency(latency)) = changes.latency {
            limits.latency = latency;
        }
        if let Some(depth) = changes.depth {
            limits.depth = depth;
        }
        if let Some(rate) = &mut limits.operations.shared {
            if let Some(burst) = changes.burst_iops {
                rate.burst = Some(Burst {
                    rate: burst,
                    capacity: changes.credits.unwrap_or_default(),
                    initial: changes.credits.unwrap_or_default(),
                });
            } else if let Some((credits, burst)) = changes.credits.zip(rate.burst.as_mut()) {
                burst.initial = credits;
            }
        }
        limits
    }

    /// One line for a report, e.g. `gp3: reads and writes share 3000 operations of 256 KiB and 125 MiB per second, 0.5 ms
    /// each, 128 deep`.
    pub fn description(&self) -> String {
        let limits = self.limits();
        let counted = match limits.io_size {
            Some(io_size) => format!("operations of {}", bytes(io_size)),
            None => "operations".to_string(),
        };
        let (operations, throughput) = (limits.operations, limits.bytes);
        let alike = operations.read == operations.write && throughput.read == throughput.write;
        let mut scopes = vec![("reads and writes share", operations.shared, throughput.shared)];
        if alike {
            scopes.push(("reads and writes each have", operations.read, throughput.read));
        } else {
            scopes.push(("reads have", operations.read, throughput.read));
            scopes.push(("writes have", operations.write, throughput.write));
        }
        let mut parts: Vec<String> = scopes
            .into_iter()
            .filter_map(|(who, operations, throughput)| {
                let what: Vec<String> = [
                    operations.map(|rate| amount(rate, |n| n.to_string(), &format!(" {counted}"))),
                    throughput.map(|rate| amount(rate, bytes, "")),
                ]
                .into_iter()
                .flatten()
                .collect();
                (!what.is_empty()).then(|| format!("{who} {} per second", what.join(" and ")))
            })
            .collect();
        if parts.is_empty() {
            parts.push("no limit".to_string());
        }
        let latency = limits.latency.as_nanos() as f64 / 1e6;
        format!("{}: {}, {latency} ms each, {} deep", self.profile.name, parts.join(", "), limits.depth)
    }
}

/// The limits that were given, if any.
fn allowance(shared: Option<u64>, read: Option<u64>, write: Option<u64>) -> Option<Allowance> {
    shared.or(read).or(write)?;
    Some(Allowance { shared: shared.map(Rate::of), read: read.map(Rate::of), write: write.map(Rate::of) })
}

fn amount(rate: Rate, text: impl Fn(u64) -> String, unit: &str) -> String {
    let sustained = text(rate.sustained) + unit;
    match rate.burst {
        Some(burst) => format!("{sustained} (bursts of {})", text(burst.rate)),
        None => sustained,
    }
}

fn bytes(number: u64) -> String {
    let (factor, unit) = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")]
        .into_iter()
        .find(|(factor, _)| number >= *factor)
        .unwrap_or((1, "B"));
    let rounded = (number as f64 / factor as f64 * 10.0).round() / 10.0;
    format!("{rounded} {unit}")
}

impl FromStr for Volume {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, keys) = match text.split_once(':') {
            Some((name, keys)) => (name, Some(keys)),
            None => (text, None),
        };
        let profile = profiles::find(name).ok_or_else(|| {
            let names: Vec<&str> = PROFILES.iter().map(|profile| profile.name).collect();
            format!("no profile {name:?}: there are {}", names.join(", "))
        })?;
        let mut changes = Changes::default();
        for pair in keys.into_iter().flat_map(|keys| keys.split(',')) {
            let (key, value) =
                pair.split_once('=').ok_or_else(|| format!("{pair:?}: give key=value, separated by commas"))?;
            changes.set(key.trim(), value.trim()).map_err(|error| match error {
                Refusal::Key => format!("no key {key:?}: there are {}", KEYS.join(", ")),
                Refusal::Value(hint) => format!("{key}={value}: {hint}"),
            })?;
        }
        let volume = Self { profile, changes };
        volume.check()?;
        Ok(volume)
    }
}

impl Volume {
    fn check(&self) -> Result<(), String> {
        let changes = &self.changes;
        if changes.size.is_some() && self.profile.default_size.is_none() {
            return Err(format!("size: the limits of {} don't depend on it; leave it out", self.profile.name));
        }
        let before =
            (self.profile.limits)(changes.size.map(Size::bytes).or(self.profile.default_size).unwrap_or_default());
        if let Some(burst) = changes.burst_iops {
            if changes.credits.is_none() {
                return Err("burst_iops: give credits=, too".to_string());
            }
            if changes.iops.is_none_or(|iops| iops >= burst) {
                return Err("burst_iops: give iops=, too, and less".to_string());
            }
        } else if changes.credits.is_some() {
            let bursts = before.operations.shared.and_then(|rate| rate.burst);
            match bursts {
                Some(burst) if changes.iops.is_none() => {
                    if changes.credits.is_some_and(|credits| credits > burst.capacity) {
                        return Err(format!("credits: at most {}", burst.capacity));
                    }
                }
                _ => {
                    return Err("credits: this volume has no bursts; give iops= and burst_iops=, too".to_string());
                }
            }
        }
        Ok(())
    }
}

impl fmt::Display for Volume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.profile.name)?;
        let changes = &self.changes;
        let number = |value: Option<u64>| value.map(|value| value.to_string());
        let size = |value: Option<Size>| value.map(|value| value.to_string());
        let values = [
            size(changes.size),
            number(changes.iops),
            size(changes.bandwidth),
            number(changes.read_iops),
            number(changes.write_iops),
            size(changes.read_bandwidth),
            size(changes.write_bandwidth),
            size(changes.io_size),
            changes.latency.map(|value| value.to_string()),
            changes.depth.map(|value| value.to_string()),
            number(changes.burst_iops),
            number(changes.credits),
        ];
        let mut separator = ':';
        for (key, value) in KEYS.iter().zip(values) {
            if let Some(value) = value {
                write!(f, "{separator}{key}={value}")?;
                separator = ',';
            }
        }
        Ok(())
    }
}

enum Refusal {
    Key,
    Value(String),
}

impl Changes {
    fn set(&mut self, key: &str, value: &str) -> Result<(), Refusal> {
        match key {
            "size" => self.size = Some(parse(value)?),
            "iops" => self.iops = Some(number(RATE, value)?),
            "bandwidth" => self.bandwidth = Some(bandwidth(value)?),
            "read_iops" => self.read_iops = Some(number(RATE, value)?),
            "write_iops" => self.write_iops = Some(number(RATE, value)?),
            "read_bandwidth" => self.read_bandwidth = Some(bandwidth(value)?),
            "write_bandwidth" => self.write_bandwidth = Some(bandwidth(value)?),
            "io_size" => self.io_size = Some(parse(value)?),
            "latency" => self.latency = Some(parse(value)?),
            "depth" => self.depth = Some(depth(value)?),
            "burst_iops" => self.burst_iops = Some(number(RATE, value)?),
            "credits" => self.credits = Some(number(CREDITS, value)?),
            _ => return Err(Refusal::Key),
        }
        Ok(())
    }
}

fn parse<T: FromStr<Err = String>>(value: &str) -> Result<T, Refusal> {
    value.parse().map_err(Refusal::Value)
}

fn bandwidth(value: &str) -> Result<Size, Refusal> {
    Size::per_second(value).map_err(Refusal::Value)
}

/// Operations that are saved up.
const CREDITS: Quantity = COUNT.within(0, u64::MAX, "from 0");

/// Above, the arithmetic of bursts could overflow, and no host does it.
const RATE: Quantity = PER_SECOND.within(1, 10_000_000, "from 1 to 10000000");

fn number<T: TryFrom<u64>>(quantity: Quantity, value: &str) -> Result<T, Refusal> {
    quantity::number(quantity, value).map_err(Refusal::Value)
}

fn depth(value: &str) -> Result<u32, Refusal> {
    let depth = COUNT.within(1, DEPTH.into(), "");
    number(depth, value)
        .map_err(|_| Refusal::Value(format!("give 1 to {DEPTH}: the queue of a loop device holds no more")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(text: &str) -> Volume {
        text.parse().unwrap()
    }

    #[test]
    fn what_is_printed_is_the_same_volume() {
        for text in [
            "gp3",
            "gp3:iops=6000,bandwidth=250MB",
            "pd-balanced:size=200GB",
            "gp2:size=10GB,credits=0",
            "custom:iops=800,bandwidth=125MB,io_size=256kB,latency=0.5ms,depth=128",
            "custom:read_iops=500,write_iops=300,read_bandwidth=50MB,write_bandwidth=20MB",
            "custom:iops=100,burst_iops=1000,credits=5000",
        ] {
            assert_eq!(volume(text).to_string(), text);
            assert_eq!(volume(&volume(text).to_string()), volume(text));
        }
    }

    #[test]
    fn one_line_tells_what_a_volume_allows() {
        for (text, told) in [
            (
                "gp3",
                "gp3: reads and writes share 3000 operations of 256 KiB and 125 MiB per second, 0.5 ms each, 128 deep",
            ),
            (
                "gp2",
                "gp2: reads and writes share 300 operations of 256 KiB (bursts of 3000) and 128 MiB per second, 1 ms each, 128 deep",
            ),
            (
                "pd-balanced",
                "pd-balanced: reads and writes share 4200 operations per second, reads and writes each have 196 MiB per second, 0.8 ms each, 128 deep",
            ),
            (
                "custom:read_iops=500,write_bandwidth=20MB,latency=2ms,depth=8",
                "custom: reads have 500 operations per second, writes have 20 MiB per second, 2 ms each, 8 deep",
            ),
            ("custom", "custom: no limit, 0.5 ms each, 128 deep"),
        ] {
            assert_eq!(volume(text).description(), told);
        }
    }

    #[test]
    fn changes_replace_what_the_profile_has() {
        let limits = volume("gp3:read_iops=1000,write_iops=500").limits();
        assert_eq!(limits.operations.shared, None);
        assert_eq!(limits.operations.write, Some(Rate::of(500)));
        assert_eq!(limits.bytes.shared, Some(Rate::of(125 << 20)));
        let io2 = volume("io2:iops=1000").limits();
        assert_eq!(io2.bytes.shared, Some(Rate::of(250 << 20)));
        let spent = volume("gp2:credits=0").limits();
        let burst = spent.operations.shared.unwrap().burst.unwrap();
        assert_eq!((burst.initial, burst.capacity), (0, 5_400_000));
    }

    #[test]
    fn what_is_not_understood_is_named_with_what_there_is() {
        for (text, part) in [
            ("gp9", "no profile \"gp9\": there are gp2, gp3, io2"),
            ("", "there are gp2"),
            ("gp3:speed=1", "no key \"speed\": there are size, iops"),
            ("gp3:iops", "give key=value"),
            ("gp3:iops=0", "iops=0: give a whole number per second from 1 to 10000000"),
            ("gp3:bandwidth=x", "bandwidth=x: give bytes per second"),
            ("gp3:latency=1", "latency=1: give a unit: us, ms, s"),
            ("gp3:depth=129", "give 1 to 128"),
            ("gp3:size=1GB", "don't depend on it"),
            ("gp3:credits=5", "no bursts"),
            ("gp2:credits=9000000", "at most 5400000"),
            ("custom:iops=5,burst_iops=50", "give credits="),
            ("custom:iops=50,burst_iops=5,credits=1", "and less"),
        ] {
            let error = text.parse::<Volume>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}

//! Volumes of providers, and what their documentation says of them.

use std::time::Duration;

use crate::limits::{Allowance, Burst, Limits, Rate};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// A loop device's own queue holds no more (`hw_queue_depth` of drivers/block/loop.c), and no provider documents a bound.
pub const DEPTH: u32 = 128;

/// A kind of volume.
#[derive(Debug)]
pub struct Profile {
    /// As in a specification.
    pub name: &'static str,
    /// In one line, with what the limits depend on.
    pub description: &'static str,
    /// The documentation that the limits are from, by provider and title.
    pub source: &'static str,
    /// What is not documented there and was assumed.
    pub assumed: &'static str,
    /// The size that is meant unless told otherwise, in bytes; none where the limits don't depend on it.
    pub default_size: Option<u64>,
    /// The limits of a volume of so many bytes.
    pub(crate) limits: fn(size: u64) -> Limits,
}

/// All profiles.
pub const PROFILES: [Profile; 11] = [
    Profile {
        name: "gp2",
        description: "AWS: 3 operations/s per GiB, bursts of 3000; 128 or, above 170 GiB, 250 MiB/s",
        source: "Amazon EBS User Guide, \"General Purpose SSD volumes\"; Amazon EBS I/O characteristics and monitoring",
        assumed: "latency 1 ms; credits, which the 250 MiB/s of 171 to 333 GiB need, never run out",
        default_size: Some(100 * GIB),
        limits: gp2,
    },
    Profile {
        name: "gp3",
        description: "AWS: 3000 operations/s and 125 MiB/s of any size; more with iops= and bandwidth=",
        source: "Amazon EBS User Guide, \"General Purpose SSD volumes\"; Amazon EBS I/O characteristics and monitoring",
        assumed: "latency 0.5 ms",
        default_size: None,
        limits: |_| ebs(3000, 125 * MIB, Duration::from_micros(500)),
    },
    Profile {
        name: "io2",
        description: "AWS, Block Express: what iops= says, 3000 unless given; 256 KiB for each, 4000 MiB/s at most",
        source: "Amazon EBS User Guide, \"Provisioned IOPS SSD volumes\"; Amazon CloudWatch, VolumeConsumedReadWriteOps",
        assumed: "latency 0.3 ms (documented: under 0.5 ms on average for 16 KiB)",
        default_size: None,
        limits: |_| io2(3000),
    },
    Profile {
        name: "pd-balanced",
        description: "Google: 3000 operations/s + 6 per GiB; 140 MiB/s + 0.28 per GiB each for reads and writes",
        source: "Compute Engine, \"About Persistent Disk performance\" and \"Optimize Persistent Disk performance\"",
        assumed: "each request is one operation; latency 0.8 ms (an example there)",
        default_size: Some(200 * GIB),
        limits: |size| persistent_disk(size, [3000, 6, 80_000], [14_000, 28, 120_000]),
    },
    Profile {
        name: "pd-ssd",
        description: "Google: 6000 operations/s + 30 per GiB; 240 MiB/s + 0.48 per GiB each for reads and writes",
        source: "Compute Engine, \"About Persistent Disk performance\" and \"Optimize Persistent Disk performance\"",
        assumed: "each request is one operation; latency 0.8 ms (an example there)",
        default_size: Some(200 * GIB),
        limits: |size| persistent_disk(size, [6000, 30, 100_000], [24_000, 48, 120_000]),
    },
    Profile {
        name: "hyperdisk-balanced",
        description: "Google: 3000 operations/s and 140 MiB/s of any size; more with iops= and bandwidth=",
        source: "Compute Engine, \"About Hyperdisk Balanced\"",
        assumed: "reads and writes share both; each request is one operation; latency 0.5 ms",
        default_size: None,
        limits: |_| Limits {
            operations: Allowance::shared(Rate::of(3000)),
            bytes: Allowance::shared(Rate::of(140 * MIB)),
            io_size: None,
            latency: Duration::from_micros(500),
            depth: DEPTH,
        },
    },
    Profile {
        name: "azure-premium-ssd",
        description: "Azure, v1: by size, P1 to P80; up to 512 GiB bursts of 3500 operations/s and 170 MB/s",
        source: "Azure, \"Azure managed disk types\", \"Managed disk bursting\"; \"High-performance Premium Storage\" for 256 KiB",
        assumed: "MB are 10^6 bytes; latency 2 ms",
        default_size: Some(128 * GIB),
        limits: azure_premium_ssd,
    },
    Profile {
        name: "azure-premium-ssd-v2",
        description: "Azure: 3000 operations/s and 125 MB/s of any size; more with iops= and bandwidth=",
        source: "Azure, \"Azure managed disk types\"; Azure Compute API, diskIOPSReadWrite, for 256 KiB",
        assumed: "MB are 10^6 bytes; latency 0.8 ms (documented: under 1 ms)",
        default_size: None,
        limits: |_| Limits {
            operations: Allowance::shared(Rate::of(3000)),
            bytes: Allowance::shared(Rate::of(125_000_000)),
            io_size: Some(256 * KIB),
            latency: Duration::from_micros(800),
            depth: DEPTH,
        },
    },
    Profile {
        name: "small",
        description: "a small volume of no provider: 500 operations/s and 60 MiB/s",
        source: "none: a class, such as small sizes of most providers are",
        assumed: "256 KiB each, reads and writes share both; latency 0.8 ms",
        default_size: None,
        limits: |_| ebs(500, 60 * MIB, Duration::from_micros(800)),
    },
    Profile {
        name: "fast",
        description: "a fast volume of no provider: 16000 operations/s and 500 MiB/s",
        source: "none: a class, such as provisioned volumes of most providers are",
        assumed: "256 KiB each, reads and writes share both; latency 0.3 ms",
        default_size: None,
        limits: |_| ebs(16_000, 500 * MIB, Duration::from_micros(300)),
    },
    Profile {
        name: "custom",
        description: "what the keys say: iops, bandwidth, read_iops, ... and no limit where there is none",
        source: "none",
        assumed: "latency 0.5 ms",
        default_size: None,
        limits: |_| Limits {
            operations: Allowance::default(),
            bytes: Allowance::default(),
            io_size: None,
            latency: Duration::from_micros(500),
            depth: DEPTH,
        },
    },
];

/// The profile of that name.
pub fn find(name: &str) -> Option<&'static Profile> {
    PROFILES.iter().find(|profile| profile.name == name)
}

fn ebs(iops: u64, bandwidth: u64, latency: Duration) -> Limits {
    Limits {
        operations: Allowance::shared(Rate::of(iops)),
        bytes: Allowance::shared(Rate::of(bandwidth)),
        io_size: Some(256 * KIB),
        latency,
        depth: DEPTH,
    }
}

/// Provisioned operations bring their bandwidth with them.
pub(crate) fn io2(iops: u64) -> Limits {
    let bandwidth = (iops * 256 * KIB).min(4000 * MIB);
    ebs(iops, bandwidth, Duration::from_micros(300))
}

fn gp2(size: u64) -> Limits {
    /// Saved at most, and what a new volume has.
    const CREDITS: u64 = 5_400_000;
    const BURST: u64 = 3000;
    let gib = size.div_ceil(GIB);
    let sustained = (3 * gib).clamp(100, 16_000);
    let bandwidth = if gib <= 170 { 128 } else { 250 };
    let mut limits = ebs(sustained, bandwidth * MIB, Duration::from_millis(1));
    if sustained < BURST {
        limits.operations = Allowance::shared(Rate {
            sustained,
            burst: Some(Burst { rate: BURST, capacity: CREDITS, initial: CREDITS }),
        });
    }
    limits
}

/// Operations are [base, per GiB, most], bandwidth the same in hundredths of MiB. Operations are shared, bandwidth is
/// there for each direction ("Simultaneous reads and writes").
fn persistent_disk(size: u64, operations: [u64; 3], bandwidth: [u64; 3]) -> Limits {
    let gib = size.div_ceil(GIB);
    let of = |[base, per_gib, most]: [u64; 3]| (base + per_gib * gib).min(most);
    Limits {
        operations: Allowance::shared(Rate::of(of(operations))),
        bytes: Allowance::each(Rate::of(of(bandwidth) * MIB / 100)),
        io_size: None,
        latency: Duration::from_micros(800),
        depth: DEPTH,
    }
}

fn azure_premium_ssd(size: u64) -> Limits {
    /// Size in GiB, operations/s, MB/s; a disk has what the next larger size has.
    const TIERS: [(u64, u64, u64); 14] = [
        (4, 120, 25),
        (8, 120, 25),
        (16, 120, 25),
        (32, 120, 25),
        (64, 240, 50),
        (128, 500, 100),
        (256, 1100, 125),
        (512, 2300, 150),
        (1024, 5000, 200),
        (2048, 7500, 250),
        (4096, 7500, 250),
        (8192, 16_000, 500),
        (16_384, 18_000, 750),
        (u64::MAX, 20_000, 900),
    ];
    /// The largest that bursts from credits.
    const LARGEST_BURSTING: u64 = 512;
    /// What full credits last for at the burst rate, in seconds.
    const BURST_TIME: u64 = 30 * 60;
    let gib = size.div_ceil(GIB);
    let (tier, iops, megabytes) = TIERS.into_iter().find(|(tier, ..)| gib <= *tier).unwrap_or((u64::MAX, 20_000, 900));
    let rate = |sustained: u64, burst: u64| {
        let capacity = (burst - sustained.min(burst)) * BURST_TIME;
        Rate {
            sustained,
            burst: (tier <= LARGEST_BURSTING).then_some(Burst { rate: burst, capacity, initial: capacity }),
        }
    };
    Limits {
        operations: Allowance::shared(rate(iops, 3500)),
        bytes: Allowance::shared(rate(megabytes * 1_000_000, 170_000_000)),
        io_size: Some(256 * KIB),
        latency: Duration::from_millis(2),
        depth: DEPTH,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sustained(name: &str, gib: u64) -> (u64, u64) {
        let limits = (find(name).unwrap().limits)(gib * GIB);
        let of = |allowance: Allowance| allowance.shared.or(allowance.write).unwrap().sustained;
        (of(limits.operations), of(limits.bytes))
    }

    #[test]
    fn limits_grow_with_the_size_where_the_provider_has_it_so() {
        assert_eq!(sustained("gp2", 10), (100, 128 * MIB));
        assert_eq!(sustained("gp2", 500), (1500, 250 * MIB));
        assert_eq!(sustained("gp2", 20_000), (16_000, 250 * MIB));
        assert_eq!(sustained("gp3", 10), sustained("gp3", 1000));
        assert_eq!(sustained("pd-balanced", 200), (4200, 196 * MIB));
        assert_eq!(sustained("pd-ssd", 200), (12_000, 336 * MIB));
        assert_eq!(sustained("pd-ssd", 60_000), (100_000, 1200 * MIB));
        assert_eq!(sustained("small", 0), (500, 60 * MIB));
        assert_eq!(sustained("fast", 0), (16_000, 500 * MIB));
        assert_eq!(sustained("azure-premium-ssd", 100), (500, 100_000_000));
        assert_eq!(sustained("azure-premium-ssd", 60_000), (20_000, 900_000_000));
    }

    #[test]
    fn only_small_volumes_burst() {
        for (name, gib, bursts) in [
            ("gp2", 100, true),
            ("gp2", 1000, false),
            ("azure-premium-ssd", 512, true),
            ("azure-premium-ssd", 513, false),
        ] {
            let limits = (find(name).unwrap().limits)(gib * GIB);
            let burst = limits.operations.shared.unwrap().burst;
            assert_eq!(burst.is_some(), bursts, "{name} {gib}");
        }
    }
}

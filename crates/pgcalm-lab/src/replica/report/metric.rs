//! The figures by which cases are compared, each declared beside its heading and meaning; text and HTML iterate over them.

use super::{Case, Report};

const MIB: f64 = 1048576.0;

/// One figure of a case.
#[derive(Debug)]
pub(super) struct Metric {
    /// Column heading in two short lines.
    pub heading: [&'static str; 2],
    /// What it means, in one sentence.
    pub meaning: &'static str,
    /// Reads it; `None` if the case has no such figure.
    pub value: fn(&Report, &Case) -> Option<f64>,
}

/// All of them, in the order of the table.
pub(super) static ALL: [Metric; 14] = [
    Metric {
        heading: ["WAL", "MiB/s"],
        meaning: "WAL made by the primary per second of load.",
        value: |_, case| finite(case.wal_bytes_per_s() / MIB),
    },
    Metric {
        heading: ["received", "MiB/s"],
        meaning: "Of the WAL made under load, what the standby had at its end, per second of load.",
        value: |_, case| finite(case.received_bytes_per_s() / MIB),
    },
    Metric {
        heading: ["link", "used %"],
        meaning: "What the primary sent under load as a part of the link's rate; 95.6 % is the most, the rest is headers.",
        value: |report, case| {
            let sent = case.mean_under_load(|sample| sample.link_bytes_per_s)?;
            case.link_limited.then_some(100.0 * sent / report.link.bytes_per_s).and_then(finite)
        },
    },
    Metric {
        heading: ["sent lag", "max MiB"],
        meaning: "The most WAL on the primary's disk that had not been given to the standby's connection.",
        value: |_, case| mib(case.most_bytes(|sample| sample.sent)),
    },
    Metric {
        heading: ["write lag", "max MiB"],
        meaning: "The most WAL on the primary's disk that the standby had not written.",
        value: |_, case| mib(case.most_bytes(|sample| sample.write)),
    },
    Metric {
        heading: ["flush lag", "max MiB"],
        meaning: "The most WAL on the primary's disk that was not on the standby's.",
        value: |_, case| mib(case.most_bytes(|sample| sample.flush)),
    },
    Metric {
        heading: ["replay lag", "max MiB"],
        meaning: "The most WAL on the primary's disk that the standby had not replayed.",
        value: |_, case| mib(case.most_bytes(|sample| sample.replay)),
    },
    Metric {
        heading: ["replay lag", "max s"],
        meaning: "The greatest age of the oldest WAL that the standby had not replayed.",
        value: |_, case| case.most_s(|sample| sample.replay),
    },
    Metric {
        heading: ["network", "MiB/s"],
        meaning: "Sent by the walsender under load and confirmed by the standby's kernel, mean.",
        value: |_, case| case.mean_under_load(|sample| sample.walsender_network_bytes_per_s).map(|rate| rate / MIB),
    },
    Metric {
        heading: ["sender", "rd MiB/s"],
        meaning: "Read from disk by the walsender under load, mean.",
        value: |_, case| case.mean_under_load(|sample| sample.walsender_disk_bytes_per_s).map(|rate| rate / MIB),
    },
    Metric {
        heading: ["walwriter", "wr MiB/s"],
        meaning: "Written to disk by the walwriter under load, mean. Backends write WAL, too.",
        value: |_, case| case.mean_under_load(|sample| sample.walwriter_disk_bytes_per_s).map(|rate| rate / MIB),
    },
    Metric {
        heading: ["no write", "max s"],
        meaning: "The longest time without a heartbeat that the primary confirmed.",
        value: |_, case| Some(case.heartbeat.as_ref()?.primary.longest_s),
    },
    Metric {
        heading: ["beat age", "max s"],
        meaning: "The greatest age of the heartbeat that the standby showed.",
        value: |_, case| Some(case.heartbeat.as_ref()?.age.longest_s),
    },
    Metric {
        heading: ["caught up", "after s"],
        meaning: "From the end of the load until the standby had replayed all WAL; none if it did not while it was watched.",
        value: |_, case| case.catch_up_s,
    },
];

fn mib(bytes: Option<u64>) -> Option<f64> {
    bytes.map(|bytes| bytes as f64 / MIB)
}

fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

//! Whether pg_calm is worth loading, in words.

use pgcalm_render::number::percent;

use super::use_of::{Caps, Used};
use crate::checkpoint;
use crate::report::{NOT_KNOWN, OPTIONS, Observation, Outlook};

/// Use of a cap below which nothing waits for the device.
const IDLE: f64 = 0.5;

/// By how much a figure has to be better to count.
const GAIN: f64 = 1.1;

/// Pages per second below which there is nothing to merge.
const FEW: f64 = 1.0;

/// Whether it helps, None if that can't be told; and why.
pub(super) fn verdict(
    observation: &Observation,
    caps: &Caps,
    (stock, now): (&Outlook, Used),
    calm: Option<&(Outlook, Used)>,
) -> (Option<bool>, String) {
    let no = |reason: String| (Some(false), reason);
    // With more pages it might help.
    let by_pages = |reason: String| match observation.writes_are_late {
        true => (None, format!("{reason}; open transactions, or recovery, have yet to tell what they wrote")),
        false => no(reason),
    };
    let takes = caps.writes.operations;
    let source = &observation.device.caps_source;
    if takes.is_infinite() && source.starts_with(NOT_KNOWN) {
        return (None, format!("what caps the device is {source}; or give --iops and --bandwidth"));
    }
    if takes.is_infinite() && caps.writes.bytes.is_infinite() {
        return no(
            "nothing caps the device, as far as can be seen; if it is a cloud volume, give --iops and --bandwidth"
                .into(),
        );
    }
    if takes.is_infinite() {
        return no("the device's operations are not capped, and pg_calm saves nothing else".into());
    }
    if observation.pages_per_s() < FEW {
        return by_pages("hardly any page of a data file was written while the server was looked at".into());
    }
    if now.most() < IDLE {
        return no(format!(
            "the device is far from its caps in the mean: stock needs {:.0} of its {takes:.0} operations per second",
            stock.device_operations_per_s
        ));
    }
    if observation.device.wal_is_uncounted {
        let reason =
            "what stock writes is told with the WAL that the standby receives, which PostgreSQL counts from 18 on";
        return (None, reason.to_string());
    }
    let Some((pg_calm, used)) = calm else {
        let limits = if stock.bound_by == "server" { "is not what limits in the mean" } else { "is what limits" };
        let (operations, bytes) = (percent(now.operations), percent(now.bytes));
        return (
            None,
            format!("the device {limits}: {operations} of its operations and {bytes} of its bandwidth are used"),
        );
    };
    let (less, more) = (pg_calm.device_operations_per_s, stock.device_operations_per_s);
    if used.most() * GAIN <= now.most() {
        let reason = if pg_calm.sustainable_tps >= stock.sustainable_tps * GAIN {
            format!(
                "the device keeps up with up to {:.0} transactions per second instead of {:.0}: {less:.0} operations per \
                 second instead of {more:.0} at the rate of now, of {takes:.0} that it takes",
                pg_calm.sustainable_tps, stock.sustainable_tps
            )
        } else {
            format!(
                "the same rate takes {less:.0} operations per second instead of {more:.0}, of {takes:.0} that the device takes"
            )
        };
        return (Some(true), reason);
    }
    if !observation.settings.full_page_writes || !observation.settings.bridge {
        return no("with full_page_writes or pg_calm.bridge off no gaps are bridged".into());
    }
    by_pages(format!(
        "it saves too little: {less:.0} operations and {:.1} MiB per second instead of {more:.0} and {:.1}, of {takes:.0} \
         operations that the device takes",
        pg_calm.device_mib_per_s, stock.device_mib_per_s
    ))
}

/// What makes the figures less certain.
pub(super) fn cautions(observation: &Observation) -> Vec<String> {
    let mut cautions = Vec::new();
    let interval = checkpoint::interval(&observation.settings, observation.wal_bytes_per_s);
    if observation.seconds < interval {
        cautions.push(format!(
            "the server was looked at for {:.0} s, less than the {interval:.0} s between its checkpoints; use --duration {:.0}",
            observation.seconds,
            interval.ceil()
        ));
    }
    if !observation.device.counted {
        cautions.push(
            "what the device of the data directory does can't be seen from here: stock is taken to need an operation for each \
             page, and what else is read and written there is not known"
                .to_string(),
        );
    }
    if observation.shadow.is_some() && observation.device.caps_source.starts_with(OPTIONS) {
        cautions.push(
            "pg_calm has counted with the limits that it knows, which decide what it merges; set pg_calm.iops and \
             pg_calm.bandwidth if they are not those of the options"
                .to_string(),
        );
    }
    cautions
}

//! Predictions held against measurements, as data: the document of `pgcalm lab run predict --json`.
//!
//! Units are in the field names, as in [`report`](crate::report).

mod reading;
mod view;

use std::collections::BTreeMap;

use pgcalm_predict::report::{Counted, Outlook, Prediction};
use serde::{Deserialize, Serialize};

use crate::report::Host;

/// All points of a grid: the document written by `pgcalm lab run predict --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Report {
    /// Always `predict`.
    pub scenario: String,
    /// Where the run happened.
    pub host: Host,
    /// Options of the run that all points share, by their command-line name without the dashes.
    pub settings: BTreeMap<String, serde_json::Value>,
    /// In the order in which they were run.
    pub points: Vec<Point>,
}

/// One point of the grid: observed in shadow mode, predicted, then measured with pg_calm on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Point {
    /// E.g. `dense`.
    pub name: String,
    /// In which options the point differs from others: rows, distribution, caps, buffers, sysctls.
    pub settings: BTreeMap<String, serde_json::Value>,
    /// What was said before the measurement.
    pub prediction: Prediction,
    /// What came then.
    pub measured: Measured,
}

/// What a server with pg_calm on did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Measured {
    /// Length of the window: of the time asked for, after that for pg_calm to get going, from the end of a checkpoint to that of
    /// the last one in it; all of it if not two ended.
    pub seconds: u32,
    /// Write operations per second that the data device completed, as its cap counts them.
    pub device_operations_per_s: f64,
    /// MiB per second written to the data device.
    pub device_mib_per_s: f64,
    /// Transactions per second, mean over the window.
    pub tps: f64,
    /// Transactions ended in each second of the window.
    pub tps_series: Vec<f64>,
    /// Write operations that the data device completed in each second of the window; empty in documents of 0.1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operations_series: Vec<f64>,
    /// MiB written to the data device, likewise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mib_series: Vec<f64>,
    /// Checkpoints that began in the time asked for.
    #[serde(default)]
    pub checkpoints: u32,
    /// What the server wrote in that time; absent in documents of 0.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<Written>,
    /// What pg_calm counted in that time; likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module: Option<Counted>,
}

/// What a server wrote, by its cumulative statistics.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Written {
    /// Pages per second that the checkpointer wrote to data files.
    pub checkpointer_pages_per_s: f64,
    /// Pages per second that the background writer wrote.
    pub background_writer_pages_per_s: f64,
    /// Pages per second that other processes wrote, files' extensions included.
    pub backend_pages_per_s: f64,
    /// Bytes of WAL per second.
    pub wal_bytes_per_s: f64,
}

/// Relative error of a prediction: 0.1 is ten percent too much; infinite if nothing was measured.
pub fn error(predicted: f64, measured: f64) -> f64 {
    predicted / measured - 1.0
}

/// Median of the absolute values; not a number if there are none.
pub fn median_error(errors: impl IntoIterator<Item = f64>) -> f64 {
    let mut errors: Vec<f64> = errors.into_iter().map(f64::abs).collect();
    errors.sort_by(f64::total_cmp);
    match errors.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => errors[n / 2],
        n => (errors[n / 2 - 1] + errors[n / 2]) / 2.0,
    }
}

impl Point {
    /// Predicted and measured: operations and KiB of a transaction, which don't depend on how many come, and transactions per
    /// second, of which the prediction is an upper bound. Not numbers if nothing was predicted for pg_calm.
    pub fn figures(&self) -> [(f64, f64); 3] {
        let Prediction { observation, pg_calm, .. } = &self.prediction;
        let measured = &self.measured;
        let predicted = |figure: fn(&Outlook) -> f64| pg_calm.as_ref().map_or(f64::NAN, figure);
        [
            (
                predicted(|outlook| outlook.device_operations_per_s) / observation.tps,
                measured.device_operations_per_s / measured.tps,
            ),
            (
                predicted(|outlook| outlook.device_mib_per_s) * 1024.0 / observation.tps,
                measured.device_mib_per_s * 1024.0 / measured.tps,
            ),
            (predicted(|outlook| outlook.sustainable_tps), measured.tps),
        ]
    }

    /// Errors of these.
    pub fn errors(&self) -> [f64; 3] {
        self.figures().map(|(predicted, measured)| error(predicted, measured))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_errors_knows_no_sign() {
        assert_eq!(error(110.0, 100.0), 110.0 / 100.0 - 1.0);
        assert_eq!(median_error([-0.3, 0.1, 0.2]), 0.2);
        assert_eq!(median_error([-0.3, 0.1]), 0.2);
        assert!(median_error([]).is_nan());
    }
}

//! From a device's counters of each second to its rates over the window.

use crate::contest::report::{DeviceRates, Series};

impl Series {
    /// What the data device completed in the first `seconds` of the window.
    pub fn data_device(&self, seconds: usize) -> DeviceRates {
        Counted {
            read_ops: &self.data_read_ops,
            read_mib: &self.data_read_mib,
            write_ops: &self.data_write_ops,
            write_mib: &self.data_write_mib,
            flush_ops: &self.data_flush_ops,
        }
        .rates(seconds)
    }

    /// What the WAL device completed in that time; `None` where there is none.
    pub fn wal_device(&self, seconds: usize) -> Option<DeviceRates> {
        (!self.wal_write_ops.is_empty()).then(|| {
            Counted {
                read_ops: &self.wal_read_ops,
                read_mib: &self.wal_read_mib,
                write_ops: &self.wal_write_ops,
                write_mib: &self.wal_write_mib,
                flush_ops: &self.wal_flush_ops,
            }
            .rates(seconds)
        })
    }
}

/// What the statistics of a device counted, by second. Empty is what was not recorded.
struct Counted<'a> {
    read_ops: &'a [f64],
    read_mib: &'a [f64],
    write_ops: &'a [f64],
    write_mib: &'a [f64],
    flush_ops: &'a [f64],
}

impl Counted<'_> {
    fn rates(&self, seconds: usize) -> DeviceRates {
        let mean = |values: &[f64]| {
            let values = &values[..seconds.min(values.len())];
            values.iter().sum::<f64>() / values.len().max(1) as f64
        };
        let flush_ops_per_s = (!self.flush_ops.is_empty()).then(|| mean(self.flush_ops));
        DeviceRates {
            read_ops_per_s: mean(self.read_ops),
            read_mib_per_s: mean(self.read_mib),
            // Of the whole window, not of each second: a write and its flush need not end in the same one.
            write_ops_per_s: (mean(self.write_ops) - flush_ops_per_s.unwrap_or(0.0)).max(0.0),
            write_mib_per_s: mean(self.write_mib),
            flush_ops_per_s,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_flushes_are_no_writes() {
        let series = Series {
            data_read_ops: vec![1.0, 3.0],
            data_read_mib: vec![0.5, 0.5],
            // The flush of the first second's last write falls into the second.
            data_write_ops: vec![10.0, 14.0],
            data_write_mib: vec![4.0, 2.0],
            data_flush_ops: vec![2.0, 8.0],
            ..Series::default()
        };
        assert_eq!(
            series.data_device(2),
            DeviceRates {
                read_ops_per_s: 2.0,
                read_mib_per_s: 0.5,
                write_ops_per_s: 7.0,
                write_mib_per_s: 3.0,
                flush_ops_per_s: Some(5.0),
            }
        );
        assert_eq!(series.data_device(1).write_ops_per_s, 8.0);
        assert_eq!(series.wal_device(2), None);
    }

    #[test]
    fn where_flushes_are_not_known_they_are_not_made_up() {
        let series = Series { wal_write_ops: vec![10.0, 20.0], wal_write_mib: vec![1.0, 1.0], ..Series::default() };
        let wal = series.wal_device(2).unwrap();
        assert_eq!(wal.write_ops_per_s, 15.0);
        assert_eq!(wal.flush_ops_per_s, None);
    }

    #[test]
    fn more_flushes_than_writes_leave_none() {
        // Journal commits: a write each, flushed before and after itself.
        let series = Series { data_write_ops: vec![1.0], data_flush_ops: vec![2.0], ..Series::default() };
        assert_eq!(series.data_device(1).write_ops_per_s, 0.0);
    }
}

//! How long a fast stop, and recovery after a crash, would take now.

use pgcalm_host::instance::Role;
use pgcalm_postgres::estimate::{Basis, Pending};
use serde::{Deserialize, Serialize};

use crate::model::{Instance, Memory, ServerRole};

/// What would have to be written, and how long it would take.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Stop {
    /// Dirty shared buffers; `None` if they can't be counted, which needs pg_calm, or pg_buffercache of PostgreSQL 16.
    pub dirty_buffers: Option<u64>,
    /// All shared buffers.
    pub shared_buffers: u64,
    /// Size of a buffer (setting block_size).
    pub page_bytes: u64,
    /// A fast stop; `None` where no cap of the volume is known.
    pub stop_seconds: Option<f64>,
    /// How that was come by.
    pub basis: Option<StopBasis>,
    /// Recovery after a crash at least, and of a standby that is restarted; `None` without the redo point.
    pub recovery_least_seconds: Option<f64>,
    /// At most; the same where pg_calm has seen how long recovery takes.
    pub recovery_most_seconds: Option<f64>,
}

/// How sure an estimate is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopBasis {
    /// By pg_calm, merged.
    Measured,
    /// Pages are counted, each an operation at the cap.
    FromCaps,
    /// The same, as if all shared buffers were dirty.
    UpperBound,
}

impl StopBasis {
    /// As reports name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Measured => Basis::Measured.name(),
            Self::FromCaps => Basis::FromCaps.name(),
            Self::UpperBound => Basis::UpperBound.name(),
        }
    }
}

impl Stop {
    /// Fills in the times of an instance, of what is known of it and, if it is on this host, of the host's dirty memory.
    pub fn judge(instance: &mut Instance, memory: Option<&Memory>) {
        let Some(mut stop) = instance.stop.take() else { return };
        let volume = instance.volumes.iter().find(|volume| volume.roles.contains(&Role::Data));
        let caps = volume.map(|volume| &volume.caps);
        let module = instance.module.as_ref();
        // Of a server elsewhere the caps are the module's alone, which then tells the time, too.
        let pending = Pending {
            told_seconds: module.and_then(|module| module.stop_seconds),
            dirty_buffers: stop.dirty_buffers,
            shared_buffers: stop.shared_buffers,
            block_bytes: stop.page_bytes,
            unflushed_bytes: memory.map_or(0, |memory| memory.dirty_bytes + memory.writeback_bytes),
            write_iops: caps.and_then(|caps| caps.write_operations.as_ref()).map(|cap| cap.per_second),
            write_bandwidth: caps.and_then(|caps| caps.write_bytes.as_ref()).map(|cap| cap.per_second),
        };
        if let Some((seconds, basis)) = pending.stop() {
            stop.stop_seconds = Some(seconds);
            stop.basis = Some(match basis {
                Basis::Measured => StopBasis::Measured,
                Basis::FromCaps => StopBasis::FromCaps,
                Basis::UpperBound => StopBasis::UpperBound,
            });
        }
        let wal = instance.checkpoint.as_ref().and_then(|checkpoint| checkpoint.wal_since_redo_bytes);
        let range = match module.and_then(|module| module.recovery_seconds) {
            Some(seconds) => Some([seconds; 2]),
            None => {
                let standby = instance.role == Some(ServerRole::Standby);
                wal.map(|bytes| pending.recovery(bytes, None, standby))
            }
        };
        stop.recovery_least_seconds = range.map(|range| range[0]);
        stop.recovery_most_seconds = range.map(|range| range[1]);
        instance.stop = Some(stop);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Cap, Caps, Module, Volume};

    #[test]
    fn the_module_s_word_counts_then_the_caps() {
        let cap = Some(Cap { per_second: 100, ..Cap::default() });
        let mut instance = Instance {
            stop: Some(Stop { dirty_buffers: Some(400), shared_buffers: 16384, page_bytes: 8192, ..Stop::default() }),
            volumes: vec![Volume {
                roles: vec![Role::Data],
                caps: Caps { write_operations: cap, ..Caps::default() },
                ..Volume::default()
            }],
            ..Instance::default()
        };
        let memory = Memory { dirty_bytes: 8192 * 100, ..Memory::default() };
        Stop::judge(&mut instance, Some(&memory));
        let stop = instance.stop.clone().unwrap();
        assert_eq!((stop.stop_seconds, stop.basis), (Some(5.0), Some(StopBasis::FromCaps)));
        assert_eq!(stop.recovery_most_seconds, None);
        let checkpoint = r#"{"phase": "idle", "source": "wait_event", "wal_since_redo_bytes": 8192000}"#;
        instance.checkpoint = Some(serde_json::from_str(checkpoint).unwrap());
        Stop::judge(&mut instance, Some(&memory));
        let stop = instance.stop.clone().unwrap();
        let replay = [256e6, 16e6].map(|rate| 8_192_000.0 / rate);
        assert_eq!(stop.recovery_least_seconds, Some(replay[0] + 5.0));
        assert_eq!(stop.recovery_most_seconds, Some(replay[1] + 11.0));
        instance.role = Some(ServerRole::Standby);
        Stop::judge(&mut instance, Some(&memory));
        assert_eq!(instance.stop.clone().unwrap().recovery_most_seconds, Some(replay[1]));
        instance.module = Some(Module { stop_seconds: Some(2.0), recovery_seconds: Some(7.0), ..Module::default() });
        Stop::judge(&mut instance, Some(&memory));
        let stop = instance.stop.unwrap();
        assert_eq!((stop.stop_seconds, stop.basis), (Some(2.0), Some(StopBasis::Measured)));
        assert_eq!((stop.recovery_least_seconds, stop.recovery_most_seconds), (Some(7.0), Some(7.0)));
    }
}

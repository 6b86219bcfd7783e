//! Checkpoints.

use crate::metrics::{Kind, Metric, Read};
use crate::model::CheckpointPhase;

metrics! {
    Counter "pgcalm_checkpoints" ["reason"]
        "Checkpoints started since statistics were reset; reason is time, or request for those by WAL and by command. \
         On a standby attempts at restartpoints, also those that had nothing to do"
        Instance |instance, points| {
            if let Some(counters) = &instance.counters {
                points.add(&["time"], counters.checkpoints_timed);
                points.add(&["request"], counters.checkpoints_requested);
            }
        };
    Counter "pgcalm_checkpoint_phase_seconds" ["phase"]
        "Time that complete checkpoints have spent since statistics were reset; phase is write or sync"
        Instance |instance, points| {
            if let Some(counters) = &instance.counters {
                points.add(&["write"], counters.checkpoint_write_seconds);
                points.add(&["sync"], counters.checkpoint_sync_seconds);
            }
        };
    Counter "pgcalm_buffers_written" ["writer"]
        "Buffers written since statistics were reset; writer is checkpoint, background_writer or backend (anybody \
         else)"
        Instance |instance, points| {
            if let Some(counters) = &instance.counters {
                points.add(&["checkpoint"], counters.buffers_written_by_checkpoints);
                points.add(&["background_writer"], counters.buffers_written_by_background_writer);
                points.add(&["backend"], counters.buffers_written_by_backends);
            }
        };
    Gauge "pgcalm_checkpoint_phase" ["phase"]
        "1 for the phase that the checkpointer is in, 0 for the others; phase is idle, prepare, write, drain, sync, \
         end or unknown"
        Instance |instance, points| {
            if let Some(checkpoint) = &instance.checkpoint {
                for phase in CheckpointPhase::ALL {
                    points.add(&[phase.name()], checkpoint.phase == phase);
                }
            }
        };
    Gauge "pgcalm_checkpoint_running_seconds" []
        "How long the checkpoint under way has taken; 0 if none is"
        Instance |instance, points| {
            if let Some(checkpoint) = &instance.checkpoint {
                points.add(&[], checkpoint.running_seconds.unwrap_or(0.0));
            }
        };
    Gauge "pgcalm_checkpoint_age_seconds" []
        "Since the start of the last complete checkpoint"
        Instance |instance| instance.checkpoint.as_ref().and_then(|checkpoint| checkpoint.since_last_seconds);
    Gauge "pgcalm_checkpoint_timeout_seconds" []
        "Setting checkpoint_timeout"
        Instance |instance| instance.checkpoint.as_ref().and_then(|checkpoint| checkpoint.timeout_seconds);
    Gauge "pgcalm_wal_since_redo_bytes" []
        "WAL since the redo point of the last complete checkpoint"
        Instance |instance| instance.checkpoint.as_ref().and_then(|checkpoint| checkpoint.wal_since_redo_bytes);
    Gauge "pgcalm_max_wal_size_bytes" []
        "Setting max_wal_size"
        Instance |instance| instance.checkpoint.as_ref().and_then(|checkpoint| checkpoint.max_wal_size_bytes);
    Gauge "pgcalm_last_checkpoint_seconds" ["phase"]
        "What the last complete checkpoint took; phase is total, write, sync, drain and fsync for parts of sync, or \
         slowest_file for the longest fsync; with pg_calm only"
        Instance |instance, points| {
            let last = instance.checkpoint.as_ref().and_then(|checkpoint| checkpoint.last.as_ref());
            if let Some(last) = last {
                points.maybe(&["total"], last.total_seconds);
                points.maybe(&["write"], last.write_seconds);
                points.maybe(&["sync"], last.sync_seconds);
                points.maybe(&["drain"], last.drain_seconds);
                points.maybe(&["fsync"], last.fsync_seconds);
                points.maybe(&["slowest_file"], last.slowest_file_seconds);
            }
        };
}

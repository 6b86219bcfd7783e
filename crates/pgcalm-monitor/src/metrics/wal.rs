//! WAL and its archiving.

use crate::metrics::{Kind, Metric, Read};
use crate::model::ArchiveState;

metrics! {
    Counter "pgcalm_wal_position_bytes" []
        "Position up to which WAL is inserted, on a standby replayed; where it falls, as after a crash or a failover, that is \
         added"
        Instance |instance| instance.counters.map(|counters| counters.wal_position_bytes);
    Counter "pgcalm_wal_full_page_images" []
        "Full-page images in WAL since statistics were reset"
        Instance |instance| instance.counters.map(|counters| counters.wal_full_page_images);
    Counter "pgcalm_archived_files" []
        "WAL files archived since statistics were reset"
        Instance |instance| instance.archive.as_ref().map(|archive| archive.archived_files);
    Counter "pgcalm_archive_failures" []
        "Attempts to archive a WAL file that failed since statistics were reset"
        Instance |instance| instance.archive.as_ref().map(|archive| archive.failures);
    Gauge "pgcalm_archive_failing" []
        "Whether the last attempt to archive a WAL file failed; 0 where nothing is archived"
        Instance |instance| {
            instance.archive.as_ref().map(|archive| archive.failing && archive.state != ArchiveState::Off)
        };
    Gauge "pgcalm_archive_queue_files" []
        "WAL files that wait to be archived; absent where nothing is archived"
        Instance |instance| instance.archive.as_ref().and_then(|archive| archive.queue_files);
    Gauge "pgcalm_archive_queue_bytes" []
        "Length of the WAL files that wait to be archived"
        Instance |instance| instance.archive.as_ref().and_then(|archive| archive.queue_bytes);
    Gauge "pgcalm_archive_oldest_seconds" []
        "How long the oldest of the WAL files that wait has waited; 0 if none waits"
        Instance |instance, points| {
            if let Some(archive) = &instance.archive
                && archive.queue_files.is_some()
            {
                points.add(&[], archive.oldest_seconds.unwrap_or(0.0));
            }
        };
    Gauge "pgcalm_wal_volume_free_bytes" []
        "Free space of pg_wal's file system; absent if it can't be looked at"
        Instance |instance| instance.archive.as_ref().and_then(|archive| archive.free_bytes);
    Gauge "pgcalm_archive_time_to_full_seconds" []
        "Time until pg_wal's file system is full if rates of the last minutes stay; absent if not within hours, or \
         without pg_calm_guard"
        Instance |instance| instance.archive.as_ref().and_then(|archive| archive.time_to_full_seconds);
}

//! WAL and its archiving.

use crate::metrics::{Kind, Metric, Read};

pub const TABLE: &[Metric] = &[
    Metric {
        name: "pgcalm_wal_position_bytes",
        kind: Kind::Counter,
        help: "Position up to which WAL is inserted, on a standby replayed",
        labels: &[],
        read: Read::Instance(|instance, points| {
            points.maybe(&[], instance.counters.map(|counters| counters.wal_position_bytes));
        }),
    },
    Metric {
        name: "pgcalm_wal_full_page_images",
        kind: Kind::Counter,
        help: "Full-page images in WAL since statistics were reset",
        labels: &[],
        read: Read::Instance(|instance, points| {
            points.maybe(&[], instance.counters.map(|counters| counters.wal_full_page_images));
        }),
    },
    Metric {
        name: "pgcalm_archived_files",
        kind: Kind::Counter,
        help: "WAL files archived since statistics were reset",
        labels: &[],
        read: Read::Instance(|instance, points| {
            points.maybe(&[], instance.archive.as_ref().map(|archive| archive.archived_files));
        }),
    },
    Metric {
        name: "pgcalm_archive_failures",
        kind: Kind::Counter,
        help: "Attempts to archive a WAL file that failed since statistics were reset",
        labels: &[],
        read: Read::Instance(|instance, points| {
            points.maybe(&[], instance.archive.as_ref().map(|archive| archive.failures));
        }),
    },
    Metric {
        name: "pgcalm_archive_failing",
        kind: Kind::Gauge,
        help: "Whether the last attempt to archive a WAL file failed",
        labels: &[],
        read: Read::Instance(|instance, points| {
            points.maybe(&[], instance.archive.as_ref().map(|archive| archive.failing));
        }),
    },
    Metric {
        name: "pgcalm_archive_queue_files",
        kind: Kind::Gauge,
        help: "WAL files that wait to be archived; absent where nothing is archived",
        labels: &[],
        read: Read::Instance(|instance, points| {
            points.maybe(&[], instance.archive.as_ref().and_then(|archive| archive.queue_files));
        }),
    },
    Metric {
        name: "pgcalm_archive_queue_bytes",
        kind: Kind::Gauge,
        help: "Length of the WAL files that wait to be archived",
        labels: &[],
        read: Read::Instance(|instance, points| {
            points.maybe(&[], instance.archive.as_ref().and_then(|archive| archive.queue_bytes));
        }),
    },
    Metric {
        name: "pgcalm_archive_oldest_seconds",
        kind: Kind::Gauge,
        help: "How long the oldest of the WAL files that wait has waited; 0 if none waits",
        labels: &[],
        read: Read::Instance(|instance, points| {
            if let Some(archive) = &instance.archive
                && archive.queue_files.is_some()
            {
                points.add(&[], archive.oldest_seconds.unwrap_or(0.0));
            }
        }),
    },
    Metric {
        name: "pgcalm_wal_volume_free_bytes",
        kind: Kind::Gauge,
        help: "Free space of pg_wal's file system; absent if it can't be looked at",
        labels: &[],
        read: Read::Instance(|instance, points| {
            points.maybe(&[], instance.archive.as_ref().and_then(|archive| archive.free_bytes));
        }),
    },
    Metric {
        name: "pgcalm_archive_time_to_full_seconds",
        kind: Kind::Gauge,
        help: "Time until pg_wal's file system is full if rates of the last minutes stay; absent if not within hours, or \
               without pg_calm_guard",
        labels: &[],
        read: Read::Instance(|instance, points| {
            points.maybe(&[], instance.archive.as_ref().and_then(|archive| archive.time_to_full_seconds));
        }),
    },
];

//! What the flight recorder has seen, for who exports beside it.

use crate::metrics::{Kind, Metric, Read};

pub(super) const TABLE: &[Metric] = &[
    Metric {
        name: "pgcalm_incidents",
        kind: Kind::Counter,
        help: "Stalls that pgcalm record has seen, by what held users; only with --record",
        labels: &["server", "verdict"],
        read: Read::Host(|host, points| {
            for count in &host.incidents {
                points.add(&[&count.server, &count.verdict], count.total);
            }
        }),
    },
    Metric {
        name: "pgcalm_incident_last_id",
        kind: Kind::Gauge,
        help: "Number of the last of these, which pgcalm incident explains",
        labels: &["server", "verdict"],
        read: Read::Host(|host, points| {
            for count in host.incidents.iter().filter(|count| count.total > 0) {
                points.add(&[&count.server, &count.verdict], count.last_id);
            }
        }),
    },
];

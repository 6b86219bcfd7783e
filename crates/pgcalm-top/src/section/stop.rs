//! How long a fast stop and recovery would take now.

use crate::format;
use crate::row::Row;
use crate::section::{Context, listed};

/// One line, of what is known.
pub fn rows(context: &Context) -> Option<Row> {
    let stop = context.instance.stop.as_ref()?;
    let seconds = stop.stop_seconds.map(|seconds| {
        let basis = stop.basis.map_or("", |basis| basis.name());
        format!("fast stop {} ({basis})", format::whole_seconds(seconds))
    });
    let recovery = match (stop.recovery_least_seconds, stop.recovery_most_seconds) {
        (Some(least), Some(most)) if least == most => Some(format!("recovery {}", format::whole_seconds(most))),
        (Some(least), Some(most)) => {
            Some(format!("recovery {} to {}", format::whole_seconds(least), format::whole_seconds(most)))
        }
        _ => None,
    };
    let text = listed([seconds, recovery]);
    (!text.is_empty()).then(|| Row::text("Stop", 3, text, context.palette().secondary()))
}

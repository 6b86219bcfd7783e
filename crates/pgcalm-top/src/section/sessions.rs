//! Sessions, and what they wait for.

use std::collections::BTreeMap;

use pgcalm_monitor::model::{Activity, WaitCause};
use ratatui::text::Span;

use crate::row::{Row, field, right};
use crate::section::{Context, listed};
use crate::{bar, format};

const BAR_WIDTH: usize = 16;
/// The longest name of a cause that is common.
const CAUSE_WIDTH: usize = 17;

/// Connections by state, and a bar for each cause of waits.
pub fn rows(context: &Context) -> Vec<Row> {
    let Some(activity) = &context.instance.activity else { return Vec::new() };
    let mut rows = vec![Row::text("Sessions", 2, connections(activity), context.palette().secondary())];
    rows.extend(waits(context, activity));
    rows
}

fn connections(activity: &Activity) -> String {
    let by_state = activity.connections;
    let state = |count: u64, name: &str| (count > 0).then(|| format!("{count} {name}"));
    let states = listed([
        Some(format!("{} active", by_state.active)),
        state(by_state.idle, "idle"),
        state(by_state.idle_in_transaction, "idle in transaction"),
        state(by_state.other, "other"),
    ]);
    listed([
        Some(format!("{states} of {}", activity.max_connections)),
        activity
            .oldest_transaction_seconds
            .filter(|seconds| *seconds >= 1.0)
            .map(|seconds| format!("transaction {} old", format::whole_seconds(seconds))),
    ])
}

/// By the mean of sessions over the time that curves show, most first.
fn waits(context: &Context, activity: &Activity) -> Vec<Row> {
    let now = activity.sessions_by_cause();
    let mean = mean_sessions(context, activity).unwrap_or_default();
    let mut causes: Vec<(WaitCause, f64, u64)> = WaitCause::ALL
        .into_iter()
        .map(|cause| (cause, mean.get(&cause).copied().unwrap_or(0.0), now.get(&cause).copied().unwrap_or(0)))
        .filter(|(_, mean, now)| *mean >= 0.005 || *now > 0)
        .collect();
    causes.sort_by(|a, b| b.1.total_cmp(&a.1).then(b.2.cmp(&a.2)));
    if causes.is_empty() {
        return vec![Row::text("Waits", 1, "no session was seen at work", context.palette().secondary())];
    }
    // Less than one session is no full bar.
    let most = causes.iter().map(|(_, mean, now)| mean.max(*now as f64)).fold(1.0, f64::max);
    causes
        .iter()
        .enumerate()
        .map(|(at, (cause, mean, now))| {
            // The first three are what a small terminal has room for.
            let rank = [1, 1, 2].get(at).copied().unwrap_or(5);
            let style = if *cause == WaitCause::Cpu { context.palette().secondary() } else { context.palette().bar() };
            let width = cause.name().len().max(CAUSE_WIDTH);
            Row::new(
                "Waits",
                rank,
                vec![
                    Span::raw(field(cause.name(), width)),
                    Span::raw(right(&now.to_string(), 4)),
                    Span::styled(" now ", context.palette().secondary()),
                    Span::raw(right(&format!("{mean:.1}"), 5)),
                    Span::styled(" mean ", context.palette().secondary()),
                    Span::styled(bar::bar(mean / most, BAR_WIDTH), style),
                    Span::styled(format!(" {}", events(activity, *cause)), context.palette().secondary()),
                ],
            )
        })
        .collect()
}

/// Sessions by cause, averaged over the time that curves show, or what of it there is: the growth of the sums by the time
/// between the samples.
fn mean_sessions(context: &Context, activity: &Activity) -> Option<BTreeMap<WaitCause, f64>> {
    let end = context.scene.end();
    let name = &context.instance.identity.name;
    let (from, first) = context.scene.track.first_waits(name, context.scene.start())?;
    if from >= end {
        return None;
    }
    let means = WaitCause::ALL.into_iter().zip(first).map(|(cause, before)| {
        let seconds = activity.wait_session_seconds.get(&cause).unwrap_or(&0.0);
        (cause, (seconds - before).max(0.0) / (end - from))
    });
    Some(means.collect())
}

fn events(activity: &Activity, cause: WaitCause) -> String {
    activity
        .waits
        .iter()
        .filter(|wait| wait.cause == cause && !wait.event.is_empty())
        .map(|wait| format!("{} {}", wait.event, wait.sessions))
        .collect::<Vec<_>>()
        .join(", ")
}

//! What all verbs show alike in a terminal.

use crate::text::paragraph;
use crate::trace::End;
use crate::trace::EndReason;
use crate::trace::Missing;
use crate::trace::Start;

/// The first lines: which server, what can't be told.
pub fn start(start: &Start) -> String {
    let mut out = String::new();
    let server = &start.server;
    let port = server
        .port
        .map_or(String::new(), |port| format!(", port {port}"));
    let options = match start.options.as_slice() {
        [] => String::new(),
        options => format!("; {}", options.join(", ")),
    };
    paragraph(
        &mut out,
        &format!(
            "trace {}: {}, pid {}{port}, {}; Linux {}{options}",
            start.verb, server.version, server.pid, server.data_directory, server.kernel
        ),
    );
    missing(&mut out, &start.missing);
    out
}

/// The last lines: why it ended, what was lost. What was missing from the start is not repeated.
pub fn end(end: &End) -> String {
    let mut out = String::new();
    paragraph(&mut out, &end_sentence(end));
    out
}

/// Why it ended and what was lost, in words.
pub(crate) fn end_sentence(end: &End) -> String {
    let reason = match end.reason {
        EndReason::Count => "as many as asked for",
        EndReason::Duration => "the time asked for is over",
        EndReason::Interrupted => "ended by a signal",
        EndReason::ServerEnded => "the server ended",
    };
    match (end.drops.events, end.drops.entries) {
        (0, 0) => format!("End: {reason}; nothing was dropped."),
        (events, entries) => format!(
            "End: {reason}; DROPPED: {events} events and {entries} entries found no room, figures are too small by that."
        ),
    }
}

/// The answers that can't be given.
pub fn missing(out: &mut String, missing: &[Missing]) {
    for missing in missing {
        paragraph(
            out,
            &format!("Missing: {}: {}", missing.answer, missing.reason),
        );
    }
}

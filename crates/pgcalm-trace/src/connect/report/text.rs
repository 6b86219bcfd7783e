//! `pgcalm trace connect` for a terminal.

use pgcalm_render::number::short;
use pgcalm_render::text::paragraph;

use crate::connect::report::Connection;
use crate::connect::report::Hanging;
use crate::connect::report::Line;
use crate::connect::report::Summary;
use crate::report::file_kind::FileKind;
use crate::report::text;
use crate::why::report::text::share_name;

/// One line of the model; every line of text ends in a newline.
pub fn render(line: &Line) -> String {
    match line {
        Line::Start(start) => text::start(start),
        Line::Connection(connection) => connection_block(connection),
        Line::Hanging(hanging) => hanging_line(hanging),
        Line::Summary(summary) => {
            let mut out = String::new();
            paragraph(&mut out, &summary_sentence(summary));
            out
        }
        Line::End(end) => text::end(end),
    }
}

/// The heading of a connection.
pub fn heading(connection: &Connection) -> String {
    format!(
        "connection {}: {} after {} ms",
        connection.pid,
        if connection.ready { "ready" } else { "ENDED before it was ready," },
        short(connection.total_ms)
    )
}

fn connection_block(connection: &Connection) -> String {
    let mut out = heading(connection);
    out.push('\n');
    for phase in &connection.phases {
        let lost: Vec<String> = phase
            .shares
            .iter()
            .take(3)
            .map(|share| format!("{} {} ms", share_name(share), short(share.seconds * 1e3)))
            .collect();
        out.push_str(&format!(
            "  {:<14} {:>8} ms: cpu {} ms, client {} ms, lost {} ms",
            phase.phase.label(),
            short(phase.ms),
            short(phase.on_cpu_ms),
            short(phase.client_ms),
            short(phase.lost_ms)
        ));
        if !lost.is_empty() {
            out.push_str(&format!(" ({})", lost.join("; ")));
        }
        out.push('\n');
        let calls: Vec<String> = phase
            .calls
            .iter()
            .filter(|calls| !matches!(calls.file, FileKind::None))
            .map(|calls| {
                format!("{} {} {} ({} ms)", calls.calls, calls.operation.label(), calls.file.label(), short(calls.ms))
            })
            .collect();
        if !calls.is_empty() {
            paragraph(&mut out, &format!("                 {}", calls.join(", ")));
        }
    }
    for stack in &connection.stacks {
        paragraph(
            &mut out,
            &format!(
                "    {} ms in {} on {} ({}): {}",
                short(stack.seconds * 1e3),
                stack.syscall.as_deref().unwrap_or("a page fault"),
                stack.file.label(),
                stack.cause.label(),
                stack.frames.join(" < ")
            ),
        );
    }
    out
}

/// A hanging connection in words.
pub fn hanging_sentence(hanging: &Hanging) -> String {
    let stack = if hanging.frames.is_empty() { String::new() } else { format!(": {}", hanging.frames.join(" < ")) };
    format!(
        "HANGS: connection {} for {} ms, in {}, {} on {}{stack}",
        hanging.pid,
        short(hanging.so_far_ms),
        hanging.phase.label(),
        hanging.syscall.as_deref().unwrap_or("no system call"),
        hanging.file.label()
    )
}

fn hanging_line(hanging: &Hanging) -> String {
    let mut out = String::new();
    paragraph(&mut out, &hanging_sentence(hanging));
    out
}

/// The summary in words.
pub fn summary_sentence(summary: &Summary) -> String {
    format!(
        "{} connections became ready, after {} ms on average and {} ms at most; {} ended before.",
        summary.ready,
        short(summary.mean_ms),
        short(summary.max_ms),
        summary.ended
    )
}

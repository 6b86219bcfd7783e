//! `pgcalm trace connect` for readers: the phases of each connection, and where it was held up.

use pgcalm_render::document::{Column, Section, Table};
use pgcalm_render::number::short;

use crate::connect::report::{Connection, Hanging, Line};
use crate::report::file_kind::FileKind;
use crate::report::view::Shown;
use crate::report::{Start, view};
use crate::why::report::view::share_name;

impl Shown for Line {
    fn as_start(&self) -> Option<&Start> {
        if let Line::Start(start) = self { Some(start) } else { None }
    }

    fn section(&self) -> Section {
        let mut section = Section::default();
        match self {
            Line::Start(_) => {}
            Line::Connection(connection) => return of(connection),
            Line::Hanging(hanging) => _ = section.text(hanging_sentence(hanging)),
            Line::Summary(summary) => {
                section.text(format!(
                    "{} connections became ready, after {} ms on average and {} ms at most; {} ended before.",
                    summary.ready,
                    short(summary.mean_ms),
                    short(summary.max_ms),
                    summary.ended
                ));
            }
            Line::End(end) => return view::end(end),
        }
        section
    }
}

fn of(connection: &Connection) -> Section {
    let state = if connection.ready { "ready" } else { "ENDED before it was ready," };
    let heading = format!("connection {}: {state} after {} ms", connection.pid, short(connection.total_ms));
    let mut section = Section { heading, ..Section::default() };
    let figures = ["ms", "cpu ms", "client ms", "lost ms"].map(Column::figures);
    let words = ["lost to", "system calls"].map(Column::text);
    let mut table = Table::new(std::iter::once(Column::text("phase")).chain(figures).chain(words));
    for phase in &connection.phases {
        let shares =
            phase.shares.iter().map(|share| format!("{} {} ms", share_name(share), short(share.seconds * 1e3)));
        let with_file = phase.calls.iter().filter(|calls| calls.file != FileKind::None);
        let calls = with_file.map(|calls| {
            format!("{} {} {}, {} ms", calls.calls, calls.operation.label(), calls.file.label(), short(calls.ms))
        });
        table.row([
            phase.phase.label().to_string(),
            short(phase.ms),
            short(phase.on_cpu_ms),
            short(phase.client_ms),
            short(phase.lost_ms),
            shares.collect::<Vec<_>>().join("\n"),
            calls.collect::<Vec<_>>().join("\n"),
        ]);
    }
    section.table(table);
    for stack in &connection.stacks {
        section.text(format!(
            "{} ms in {} on {} ({}): {}",
            short(stack.seconds * 1e3),
            stack.syscall.as_deref().unwrap_or("a page fault"),
            stack.file.label(),
            stack.cause.label(),
            stack.frames.join(" < ")
        ));
    }
    section
}

fn hanging_sentence(hanging: &Hanging) -> String {
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

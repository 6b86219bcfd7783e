//! `pgcalm trace why` for a terminal: a block for each second with a verdict, and the sums at the end.

use pgcalm_render::number::percent;
use pgcalm_render::number::short;
use pgcalm_render::text::paragraph;

use crate::report::file_kind::FileKind;
use crate::report::text;
use crate::why::report::Line;
use crate::why::report::Second;
use crate::why::report::Share;
use crate::why::report::Summary;
use crate::why::report::Totals;
use crate::why::report::Trigger;
use crate::why::report::Verdict;
use crate::why::report::WalSource;
use crate::why::report::by_cause;

/// Shares below this are summed up.
const SMALLEST: f64 = 0.005;
/// Frames of a stack that are shown.
const FRAMES: usize = 10;

/// One line of the model; every line of text ends in a newline.
pub fn render(line: &Line) -> String {
    match line {
        Line::Start(start) => text::start(start),
        Line::Second(second) => second_line(second),
        Line::Verdict(verdict) => verdict_block(verdict),
        Line::Summary(summary) => summary_block(summary),
        Line::End(end) => text::end(end),
    }
}

fn second_line(second: &Second) -> String {
    let mut causes: Vec<String> = by_cause(&second.shares)
        .into_iter()
        .filter(|(_, seconds)| *seconds >= SMALLEST * second.lost_s.max(0.001))
        .take(3)
        .map(|(cause, seconds)| format!("{} {}", cause.label(), percent(seconds / second.lost_s)))
        .collect();
    if causes.is_empty() {
        causes.push("nothing lost".to_string());
    }
    let checkpoint = match &second.checkpoint {
        Some(checkpoint) if checkpoint.phase != "after" => {
            format!("  [checkpoint {}, {} s]", checkpoint.phase, short(checkpoint.since_start_s))
        }
        _ => String::new(),
    };
    format!(
        "{:>5} s {:>7} commits  cpu {:>5} s  lost {:>5} s: {}{checkpoint}\n",
        second.number,
        second.commits,
        short(second.on_cpu_s),
        short(second.lost_s),
        causes.join(", "),
    )
}

/// The sentence that a verdict is.
pub fn sentence(verdict: &Verdict) -> String {
    let reasons: Vec<&str> = verdict
        .triggers
        .iter()
        .map(|trigger| match trigger {
            Trigger::CommitsBelowHalf => "commits below half of their median",
            Trigger::LongSyscall => "a backend stays long in one system call",
        })
        .collect();
    let cause = match verdict.cause {
        Some(cause) => format!("{}, {} of the lost time", cause.label(), percent(verdict.share)),
        None => "no time was lost in the server".to_string(),
    };
    format!("WHY second {}: {cause} ({})", verdict.second, reasons.join("; "))
}

fn verdict_block(verdict: &Verdict) -> String {
    let mut out = String::new();
    paragraph(&mut out, &sentence(verdict));
    for call in &verdict.long_syscalls {
        out.push_str(&format!(
            "    pid {} {} {} on {}: {} s\n",
            call.pid,
            if call.under_way { "is in" } else { "was in" },
            call.syscall,
            call.file.label(),
            short(call.seconds)
        ));
    }
    for stack in &verdict.stacks {
        let frames: Vec<&str> = stack.frames.iter().take(FRAMES).map(String::as_str).collect();
        paragraph(
            &mut out,
            &format!(
                "    {} s {} in {} on {} ({}): {}",
                short(stack.seconds),
                stack.role,
                stack.syscall.as_deref().unwrap_or("a page fault"),
                stack.file.label(),
                stack.cause.label(),
                frames.join(" < ")
            ),
        );
    }
    for thread in &verdict.kernel_threads {
        let frames: Vec<&str> = thread.frames.iter().take(FRAMES).map(String::as_str).collect();
        paragraph(&mut out, &format!("    {} sleeps: {}", thread.name, frames.join(" < ")));
    }
    out
}

fn summary_block(summary: &Summary) -> String {
    let mut out = String::new();
    totals(&mut out, "All", &summary.all);
    if summary.with_verdict.seconds > 0 {
        totals(&mut out, "With a verdict", &summary.with_verdict);
    }
    out
}

fn totals(out: &mut String, heading: &str, totals: &Totals) {
    paragraph(
        out,
        &format!(
            "{heading}: {} s, {} commits; backends ran {} s, waited for clients {} s, lost {} s to",
            totals.seconds,
            totals.commits,
            short(totals.on_cpu_s),
            short(totals.client_s),
            short(totals.lost_s)
        ),
    );
    let mut rest = 0.0;
    for share in &totals.shares {
        if share.share < SMALLEST {
            rest += share.seconds;
            continue;
        }
        out.push_str(&format!(
            "    {:>5}  {:>7} s  {}\n",
            percent(share.share),
            short(share.seconds),
            share_name(share)
        ));
    }
    if rest > 0.0 {
        out.push_str(&format!("    {:>5}  {:>7} s  smaller ones\n", percent(rest / totals.lost_s), short(rest)));
    }
}

/// Cause, file, object and lock of a share in words.
pub fn share_name(share: &Share) -> String {
    let mut name = share.cause.label().to_string();
    if share.file != FileKind::None {
        name.push_str(&format!(", {} file", share.file.label()));
    }
    if let Some(object) = &share.object {
        name.push_str(&format!(", {object}"));
    }
    if let Some(lock) = &share.through {
        name.push_str(&format!(", behind {lock}"));
    }
    name
}

/// WAL of a second in words.
pub fn wal(second: &Second) -> String {
    let mib = second.wal.bytes as f64 / f64::from(1 << 20);
    match second.wal.source {
        WalSource::Inserts => format!(
            "{} MiB WAL inserted, {} page images in at most {} of it",
            short(mib),
            second.wal.page_images,
            percent(if second.wal.bytes > 0 {
                second.wal.page_image_bytes as f64 / second.wal.bytes as f64
            } else {
                0.0
            })
        ),
        WalSource::Unknown => "WAL not known".to_string(),
        WalSource::Views => format!("{} MiB WAL inserted, {} page images", short(mib), second.wal.page_images),
    }
}

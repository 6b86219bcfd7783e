//! `pgcalm trace why` for readers: each second, a block for each with a verdict, and the sums at the end.

use maud::{Markup, PreEscaped, html};
use pgcalm_render::document::{Block, Column, Section, Table};
use pgcalm_render::number::{percent, plural, short};

use crate::report::file_kind::FileKind;
use crate::report::view::{Shown, missing};
use crate::report::{Start, view};
use crate::why::report::{
    Cause, KernelThread, Line, LongSyscall, Samples, Second, Share, Stack, Summary, Totals, Trigger, Verdict,
    WalSource, by_cause,
};

/// Shares below this are summed up.
const SMALLEST: f64 = 0.005;
/// Frames of a stack that are shown.
const FRAMES: usize = 10;
/// Colours of report.css that columns are drawn in; the causes beyond share the last one.
const COLOURS: usize = 8;
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 200.0;

impl Shown for Line {
    fn as_start(&self) -> Option<&Start> {
        if let Line::Start(start) = self { Some(start) } else { None }
    }

    fn section(&self) -> Section {
        match self {
            Line::Start(_) => Section::default(),
            Line::Second(second) => {
                let mut section = Section::default();
                section.text(second_line(second));
                section
            }
            Line::Verdict(verdict) => of_verdict(verdict),
            Line::Summary(summary) => sums(summary),
            Line::End(end) => view::end(end),
        }
    }

    fn on_page(&self, lines: &[Self]) -> Option<Section> {
        match self {
            // A page has columns, and what is to be told of those with a verdict.
            Line::Second(_) => None,
            Line::Verdict(verdict) => {
                let mut section = of_verdict(verdict);
                let second = seconds(lines).find(|second| second.number == verdict.second);
                if let Some(second) = second {
                    let told =
                        [Block::Text(second_sentence(second)), Block::Table(shares(&second.shares, second.lost_s))];
                    section.blocks.splice(0..0, told);
                }
                Some(section)
            }
            _ => Some(self.section()),
        }
    }

    fn preface(lines: &[Self]) -> Option<Section> {
        let mut section = Section { heading: "Backend time lost, by second".to_string(), ..Section::default() };
        section.add(Block::Page(columns(&seconds(lines).collect::<Vec<_>>())));
        Some(section)
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
        "{:>5} s {:>7} commits  cpu {:>5} s  lost {:>5} s: {}{checkpoint}",
        second.number,
        second.commits,
        short(second.on_cpu_s),
        short(second.lost_s),
        causes.join(", "),
    )
}

/// The sentence that a verdict is.
fn sentence(verdict: &Verdict) -> String {
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

fn seconds(lines: &[Line]) -> impl Iterator<Item = &Second> {
    lines.iter().filter_map(|line| if let Line::Second(second) = line { Some(second) } else { None })
}

/// What a second was like.
fn second_sentence(second: &Second) -> String {
    let median = second.median_commits_per_s.map_or(String::new(), |median| format!(", median {}", short(median)));
    let mut text = format!(
        "{} commits{median}; lost {} s of {} backends; {}",
        second.commits,
        short(second.lost_s),
        second.backends,
        wal(second)
    );
    for disk in &second.disks {
        text.push_str(&format!(
            "; {} {} busy, {} requests, {} held back by the block cgroup",
            disk.name,
            percent(disk.busy),
            disk.requests,
            disk.throttled_bios
        ));
    }
    text
}

/// The file of a call that has one.
fn on(file: FileKind) -> String {
    if file == FileKind::None { String::new() } else { format!(" on {}", file.label()) }
}

fn of_verdict(verdict: &Verdict) -> Section {
    let mut section = Section { heading: sentence(verdict), ..Section::default() };
    proof(&mut section, &verdict.long_syscalls, &verdict.stacks, &verdict.kernel_threads);
    section
}

impl Samples {
    /// Says who waited for whom.
    pub fn show(&self, section: &mut Section) {
        let Totals { seconds, lost_s, shares: lost, .. } = &self.totals;
        if *seconds > 0 {
            let sampled = plural(*seconds as f64, "second");
            section.text(format!("In {sampled} that were sampled, backends lost {} s to", short(*lost_s)));
            section.table(shares(lost, *lost_s));
        } else if self.missing.is_empty() {
            section.note("It was over before samples of a second were there.");
        }
        proof(section, &self.long_syscalls, &self.stacks, &self.kernel_threads);
        missing(section, &self.missing);
    }
}

/// Calls, stacks, and threads of the kernel.
fn proof(section: &mut Section, calls: &[LongSyscall], stacks: &[Stack], threads: &[KernelThread]) {
    for call in calls {
        section.text(format!(
            "pid {} {} {}{}: {} s",
            call.pid,
            if call.under_way { "is in" } else { "was in" },
            call.syscall,
            on(call.file),
            short(call.seconds)
        ));
    }
    let frames = |frames: &[String]| frames.iter().take(FRAMES).cloned().collect::<Vec<_>>().join(" < ");
    for stack in stacks {
        section.text(format!(
            "{} s {} in {}{} ({}): {}",
            short(stack.seconds),
            stack.role,
            stack.syscall.as_deref().unwrap_or("a page fault"),
            on(stack.file),
            stack.cause.label(),
            frames(&stack.frames)
        ));
    }
    for thread in threads {
        section.text(format!("{} sleeps: {}", thread.name, frames(&thread.frames)));
    }
}

fn sums(summary: &Summary) -> Section {
    let mut section = Section { heading: "Sums".to_string(), ..Section::default() };
    totals(&mut section, "All seconds", &summary.all);
    if summary.with_verdict.seconds > 0 {
        totals(&mut section, "Seconds with a verdict", &summary.with_verdict);
    }
    section
}

fn totals(section: &mut Section, heading: &str, totals: &Totals) {
    section.text(format!(
        "{heading}: {} s, {} commits; backends ran {} s, waited for clients {} s, lost {} s to",
        totals.seconds,
        totals.commits,
        short(totals.on_cpu_s),
        short(totals.client_s),
        short(totals.lost_s)
    ));
    section.table(shares(&totals.shares, totals.lost_s));
}

/// To what time was lost; what is small is summed up.
fn shares(shares: &[Share], lost_s: f64) -> Table {
    let (large, small): (Vec<_>, Vec<_>) = shares.iter().partition(|share| share.share >= SMALLEST);
    let mut table = Table::new([Column::figures("share"), Column::figures("s"), Column::text("lost to")]);
    for share in large {
        table.row([percent(share.share), short(share.seconds), share_name(share)]);
    }
    let rest: f64 = small.iter().map(|share| share.seconds).sum();
    if rest > 0.0 {
        table.row([percent(rest / lost_s), short(rest), "smaller ones".to_string()]);
    }
    table
}

/// Cause, file, object and lock of a share in words.
pub(crate) fn share_name(share: &Share) -> String {
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
fn wal(second: &Second) -> String {
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

/// A column for each second: the lost time by cause.
fn columns(seconds: &[&Second]) -> Markup {
    let all: Vec<_> = seconds.iter().flat_map(|second| second.shares.iter().cloned()).collect();
    let causes: Vec<Cause> = by_cause(&all).into_iter().map(|(cause, _)| cause).collect();
    let most = seconds.iter().map(|second| second.lost_s).fold(0.0, f64::max);
    if most <= 0.0 {
        return html! { p.empty { "No time was lost." } };
    }
    let step = WIDTH / seconds.len() as f64;
    let mut shapes = String::new();
    for (index, second) in seconds.iter().enumerate() {
        let mut top = HEIGHT;
        for (cause, lost) in by_cause(&second.shares) {
            let height = lost / most * HEIGHT;
            top -= height;
            let colour = colour(&causes, cause);
            let x = index as f64 * step;
            let width = step * 0.9;
            let title =
                format!("second {}, {} commits: {} {} s", second.number, second.commits, cause.label(), short(lost));
            shapes.push_str(&format!(
                "<rect class=\"k{colour}\" fill=\"currentColor\" x=\"{x:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" \
                 height=\"{height:.1}\"><title>{title}</title></rect>"
            ));
        }
    }
    html! {
        p.note { "Highest column: " (short(most)) " backend seconds in a second." }
        svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) width="100%" role="img" aria-label="lost time by second" {
            (PreEscaped(shapes))
        }
        p {
            @for (index, cause) in causes.iter().enumerate() {
                span class=(format!("k{}", index.min(COLOURS - 1))) { "■ " }
                (cause.label()) " "
            }
        }
    }
}

fn colour(causes: &[Cause], cause: Cause) -> usize {
    causes.iter().position(|known| *known == cause).unwrap_or(COLOURS).min(COLOURS - 1)
}

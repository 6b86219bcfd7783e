//! The tables of the report.

use std::collections::BTreeMap;

use maud::Markup;
use maud::html;
use pgcalm_render::number::MISSING;
use pgcalm_render::number::short;

use crate::contest::report::Checkpoint;
use crate::contest::report::Contestant;
use crate::contest::report::Report;
use crate::contest::report::metric;
use crate::contest::report::metric::Metric;
use crate::report::settings::shown;
use crate::report::style;

/// Figures as rows and contestants as columns: four columns fit on a phone, fourteen do not.
pub(crate) fn comparison(report: &Report) -> Markup {
    let repeated = report.contestants.iter().any(|contestant| contestant.runs.len() > 1);
    let styles = style::assign(report.contestants.iter().map(|contestant| contestant.name.as_str()));
    let metrics = metric::shown(&report.contestants);
    html! {
        div.scroll {
            table.comparison style={ "min-width:" (84 + 66 * report.contestants.len()) "px" } {
                thead {
                    tr {
                        th {}
                        @for (contestant, style) in report.contestants.iter().zip(styles) {
                            th scope="col" { span.name.(style.class()) { (breakable(&contestant.name)) } }
                        }
                    }
                }
                @for (index, metric) in metrics.iter().enumerate() {
                    @if index == 0 || metrics[index - 1].group != metric.group {
                        tr.group { th scope="colgroup" colspan=(report.contestants.len() + 1) { span { (metric.group.title()) } } }
                    }
                    tr {
                        th scope="row" { (metric.name) }
                        @for contestant in &report.contestants { td { (figure(metric, contestant)) } }
                    }
                }
            }
        }
        @if repeated { p.note { "Each figure is the median of the runs; below it the lowest and highest run where they differ." } }
    }
}

fn figure(metric: &Metric, contestant: &Contestant) -> Markup {
    let Some(figure) = metric.of(contestant) else {
        return html! { (MISSING) };
    };
    html! {
        (short(figure.median))
        @if let Some((low, high)) = figure.range.map(|(low, high)| (short(low), short(high))) {
            // "0–0" says nothing that "0" does not.
            @if low != high { small { (low) "–" wbr; (high) } }
        }
    }
}

/// Lets `stock-uncapped` break in a narrow column, at its joint.
fn breakable(name: &str) -> Markup {
    html! {
        @for part in name.split_inclusive('-') { (part) wbr; }
    }
}

/// Every checkpoint of every run; folded where there are too many to read at a glance.
pub(super) fn checkpoints(report: &Report) -> Markup {
    let count_of = |contestant: &Contestant| contestant.runs.iter().map(|run| run.checkpoints.len()).sum();
    let total: usize = report.contestants.iter().map(count_of).sum();
    html! {
        @for contestant in &report.contestants {
            @let count: usize = count_of(contestant);
            @if count == 0 {
                p { strong { (contestant.name) } ": none completed in the window." }
            } @else {
                details open[total <= 20] {
                    summary { strong { (contestant.name) } ": " (count) }
                    div.scroll {
                        table {
                            thead {
                                tr {
                                    @for heading in ["run", "start, s", "end, s"] { th scope="col" { (heading) } }
                                    th.text scope="col" { "reason" }
                                    @for heading in ["buffers", "write, s", "sync, s", "total, s", "files", "longest fsync, s"] {
                                        th scope="col" { (heading) }
                                    }
                                }
                            }
                            @for (index, run) in contestant.runs.iter().enumerate() {
                                @for checkpoint in &run.checkpoints { (checkpoint_row(index + 1, checkpoint)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn checkpoint_row(run: usize, checkpoint: &Checkpoint) -> Markup {
    html! {
        tr {
            td { (run) }
            td { (short(checkpoint.start_s)) }
            td { (short(checkpoint.end_s)) }
            td.text { (checkpoint.reason) }
            td { (checkpoint.buffers) }
            td { (short(checkpoint.write_s)) }
            td { (short(checkpoint.sync_s)) }
            td { (short(checkpoint.total_s)) }
            td { (checkpoint.sync_files) }
            td { (short(checkpoint.longest_sync_s)) }
        }
    }
}

/// What each contestant is, and what its module said at the end.
pub(crate) fn contestants(report: &Report) -> Markup {
    html! {
        @for contestant in &report.contestants {
            h3 { (contestant.name) }
            p { (contestant.description) }
            @if !contestant.server_settings.is_empty() { (pairs(&contestant.server_settings)) }
            @for (index, run) in contestant.runs.iter().enumerate() {
                @if !run.module_status.is_empty() {
                    details {
                        summary { "pg_calm_status at the end of run " (index + 1) }
                        (pairs(&run.module_status.iter().map(|(name, value)| (name.clone(), shown(value))).collect()))
                    }
                }
            }
        }
    }
}

/// Who slept uninterruptibly, and where in the kernel.
pub(crate) fn blocked(report: &Report) -> Markup {
    let anyone = report.contestants.iter().any(|contestant| contestant.runs.iter().any(|run| !run.blocked.is_empty()));
    html! {
        @if !anyone { p { "No process was seen in uninterruptible sleep." } }
        @for contestant in &report.contestants {
            @for (index, run) in contestant.runs.iter().enumerate() {
                @if !run.blocked.is_empty() {
                    details open[index == 0] {
                        summary {
                            strong { (contestant.name) }
                            @if contestant.runs.len() > 1 { ", run " (index + 1) }
                        }
                        div.scroll {
                            table {
                                thead {
                                    tr {
                                        th scope="col" { "samples" }
                                        th.text scope="col" { "process" }
                                        th.text scope="col" { "kernel stack, innermost first" }
                                    }
                                }
                                @for blocked in &run.blocked {
                                    tr {
                                        td { (blocked.samples) }
                                        td.text { (blocked.process) }
                                        td.stack {
                                            @if blocked.stack.is_empty() { "not readable" }
                                            @for function in &blocked.stack { code { (function) } " " }
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Every option of the run.
pub(super) fn settings(report: &Report) -> Markup {
    pairs(&report.settings.iter().map(|(name, value)| (name.clone(), shown(value))).collect())
}

/// The machine.
pub(crate) fn host(report: &Report) -> Markup {
    let host = &report.host;
    html! {
        table.pairs {
            @for (name, value) in [
                ("kernel", &host.kernel),
                ("CPUs", &host.cpus.to_string()),
                ("memory", &format!("{} MiB", host.memory_mib)),
                ("server", &host.postgres),
                ("pgcalm", &host.pgcalm),
                ("started", &host.started_at),
                ("caps by", &host.cap_mechanism),
            ] {
                tr { th scope="row" { (name) } td { (value) } }
            }
            @for (name, value) in &host.sysctls {
                tr { th scope="row" { (name) } td { (value) } }
            }
        }
    }
}

fn pairs(values: &BTreeMap<String, String>) -> Markup {
    html! {
        table.pairs {
            @for (name, value) in values {
                tr { th scope="row" { (name) } td { (value) } }
            }
        }
    }
}

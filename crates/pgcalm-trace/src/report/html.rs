//! What all verbs' pages have alike.

use maud::Markup;
use maud::html;
use pgcalm_render::page;

use crate::report::End;
use crate::report::Missing;
use crate::report::Start;
use crate::report::histogram::Histogram;
use crate::report::text::duration;
use crate::report::text::end_sentence;
use crate::report::text::histogram_sentence;

/// A whole page of a verb, with what its lines are shown as.
pub fn page(verb: &str, sections: impl Iterator<Item = Markup>) -> String {
    let main = html! {
        @for section in sections { (section) }
    };
    page::page(&format!("pgcalm trace {verb}"), "", &main, None)
}

/// The heading of a page.
pub fn start(start: &Start) -> Markup {
    let server = &start.server;
    html! {
        header {
            p.kicker { "pgcalm trace · " (start.verb) }
            h1 { (server.version) ", pid " (server.pid) }
            p.conditions {
                (server.data_directory)
                @if let Some(port) = server.port { " · port " (port) }
                " · Linux " (server.kernel)
                @for option in &start.options { " · " (option) }
            }
            (missing(&start.missing))
        }
    }
}

/// The end of a page.
pub fn end(end: &End) -> Markup {
    html! {
        section {
            p { (end_sentence(end)) }
        }
    }
}

/// The answers that can't be given.
pub fn missing(missing: &[Missing]) -> Markup {
    html! {
        @for missing in missing {
            p { b { "Missing: " (missing.answer) } ": " (missing.reason) }
        }
    }
}

/// A bar for a share between 0 and 1.
pub(crate) fn bar(share: f64) -> Markup {
    let width = share.clamp(0.0, 1.0) * 200.0;
    html! {
        svg viewBox="0 0 200 10" width="200" height="10" role="presentation" {
            rect x="0" y="0" width=(format!("{width:.1}")) height="10" fill="currentColor" opacity="0.6" {}
        }
    }
}

/// A distribution.
pub fn histogram(name: &str, histogram: &Histogram) -> Markup {
    let first = histogram.buckets.iter().position(|count| *count > 0);
    let most = histogram.buckets.iter().copied().max().unwrap_or(0).max(1) as f64;
    html! {
        p { (histogram_sentence(name, histogram)) }
        @if let Some(first) = first {
            table {
                thead { tr { th { "from" } th { "number" } th {} } }
                tbody {
                    @for (bucket, count) in histogram.buckets.iter().enumerate().skip(first) {
                        tr {
                            td { (duration(Histogram::bounds_ns(bucket).0 as f64)) }
                            td { (count) }
                            td { (bar(*count as f64 / most)) }
                        }
                    }
                }
            }
        }
    }
}

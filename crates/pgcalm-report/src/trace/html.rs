//! What all verbs' pages have alike.

use maud::DOCTYPE;
use maud::Markup;
use maud::PreEscaped;
use maud::html;

use crate::html::POLICY;
use crate::trace::End;
use crate::trace::Missing;
use crate::trace::Start;
use crate::trace::text::end_sentence;

/// A whole page of a verb, with what its lines are shown as.
pub fn page(verb: &str, sections: impl Iterator<Item = Markup>) -> String {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                title { "pgcalm trace " (verb) }
                style { (PreEscaped(include_str!("../html/report.css"))) }
            }
            body {
                main {
                    @for section in sections { (section) }
                }
            }
        }
    }
    .into_string()
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

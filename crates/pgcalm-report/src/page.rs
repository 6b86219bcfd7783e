//! The page that every report is, as one self-contained HTML file: no network.

use maud::DOCTYPE;
use maud::Markup;
use maud::PreEscaped;
use maud::html;

use crate::model::Host;

/// Nothing may be loaded or run, whatever a report's strings say.
const STILL: &str = "default-src 'none'; style-src 'unsafe-inline'";
/// Nothing may be loaded; the page's own scripts run.
const SCRIPTED: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";

/// The document; `style` comes after the reports' own style sheet.
pub(crate) fn page(title: &str, style: &str, main: &Markup, scripts: Option<&Markup>) -> String {
    let policy = if scripts.is_some() { SCRIPTED } else { STILL };
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta http-equiv="Content-Security-Policy" content=(policy);
                title { (title) }
                style { (PreEscaped(include_str!("html/report.css"))) (PreEscaped(style)) }
            }
            body {
                main { (main) }
                @if let Some(scripts) = scripts { (scripts) }
            }
        }
    }
    .into_string()
}

/// The heading of a scenario's page: what it says in words, then under which conditions.
pub(crate) struct Heading<'a> {
    pub scenario: &'a str,
    pub host: &'a Host,
    pub headline: &'a str,
    pub readings: &'a [String],
    /// Lines of phrases.
    pub conditions: &'a [Vec<String>],
}

/// The page of a scenario.
pub(crate) fn scenario(heading: &Heading, sections: &Markup, scripts: Option<&Markup>) -> String {
    let Heading { scenario, host, .. } = heading;
    let main = html! {
        header {
            p.kicker { "pgcalm lab · " (scenario) " · " (host.started_at) }
            h1 { (heading.headline) }
            @for line in heading.readings { p.reading { (line) } }
            @for line in heading.conditions { p.conditions { (line.join(" · ")) } }
        }
        (sections)
    };
    let title = format!("pgcalm: {scenario}, {}", host.started_at);
    page(&title, "", &main, scripts)
}

//! The page that every scenario's report is.

use maud::Markup;
use maud::html;
use pgcalm_render::page;

use crate::report::Host;

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
    page::page(&title, "", &main, scripts)
}

//! The page that every report is, as one self-contained HTML file: no network, no script needed to read it.
//!
//! Templates are maud's rather than askama's: most of a page is computed (charts, tables of varying width), and with
//! maud that stays Rust that the compiler checks, SVG comes from the same macro, and everything not marked
//! `PreEscaped` is escaped. Only our own style sheet, script and the escaped JSON of [`series_data`] are so marked.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::Value;

/// Nothing may be loaded or run, whatever a report's strings say.
const STILL: &str = "default-src 'none'; style-src 'unsafe-inline'";
/// Nothing may be loaded; the page's own scripts run.
const SCRIPTED: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";

/// The document; `style` comes after the reports' own style sheet.
pub fn page(title: &str, style: &str, main: &Markup, scripts: Option<&Markup>) -> String {
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
                style { (PreEscaped(include_str!("page/report.css"))) (PreEscaped(style)) }
            }
            body {
                main { (main) }
                @if let Some(scripts) = scripts { (scripts) }
            }
        }
    }
    .into_string()
}

/// The values that [`tooltip`] shows in the charts of the element that this is put into: for each entry of the charts an object with
/// its `name`, its `class` ([`Style::class`](crate::chart::style::Style::class)) and, in `fields`, an array by second for each
/// [`Chart::field`](crate::chart::Chart::field).
pub fn series_data(series: &Value) -> Markup {
    html! {
        script.series type="application/json" { (PreEscaped(in_script(series))) }
    }
}

/// What shows the values under the pointer, once in a page.
pub fn tooltip() -> Markup {
    html! {
        script { (PreEscaped(include_str!("page/tooltip.js"))) }
    }
}

/// JSON that cannot end the script element it stands in.
fn in_script(value: &Value) -> String {
    value.to_string().replace('<', "\\u003c")
}

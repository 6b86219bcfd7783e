//! Pictures as SVG files, for a README.
//!
//! A README is shown on white and on dark, and its SVGs cannot know which; so the file brings its own white card and a
//! fixed palette. Text is larger than on a page because the picture is scaled down with it.

use maud::{Markup, PreEscaped, html};

use crate::number::{ellipsis, printable};

/// Width of every picture, in SVG units.
pub const WIDTH: f64 = 960.0;
/// Colour of what explains.
pub const MUTED: &str = "#57606a";

/// What fits across the picture in the title's font, and in the small one, with the widest of the fonts.
const TITLE_CHARS: usize = 70;
const CAPTION_CHARS: usize = 100;
const CAPTION_LINES: usize = 2;

/// A document with `content`, which begins below 100 units; `label` is for those who cannot see it.
pub fn svg(title: &str, caption: &str, label: &str, height: f64, content: &Markup) -> String {
    let title = printable(title);
    let caption = printable(caption);
    let caption = first_lines(&caption);
    html! {
        (PreEscaped("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"))
        svg xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (WIDTH) " " (height) } role="img"
            aria-label=(label) font-family="system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif" fill="#1f2328" {
            rect x="0.5" y="0.5" width=(WIDTH - 1.0) height=(height - 1.0) rx="10" fill="#ffffff" stroke="#d0d7de" {}
            text x="24" y="40" font-size="20" font-weight="600" { (ellipsis(&title, TITLE_CHARS)) }
            @for (index, line) in caption.iter().enumerate() {
                text x="24" y=(64 + 21 * index) font-size="15" fill=(MUTED) { (line) }
            }
            (content)
        }
    }
    .into_string()
}

/// As much of a caption as there is room for; it shows where something is left out.
fn first_lines(caption: &str) -> Vec<String> {
    let lines = textwrap::wrap(caption, CAPTION_CHARS);
    let is_cut = lines.len() > CAPTION_LINES;
    let mut shown: Vec<String> = lines.into_iter().take(CAPTION_LINES).map(String::from).collect();
    if let Some(last) = shown.last_mut().filter(|_| is_cut) {
        last.push_str(" …");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caption_that_is_cut_says_so() {
        assert_eq!(first_lines("ext4, 4 clients"), ["ext4, 4 clients"]);
        let long = first_lines(&"clients, ".repeat(40));
        assert_eq!(long.len(), CAPTION_LINES);
        assert!(!long[0].ends_with('…'), "{long:?}");
        assert!(long[1].ends_with("clients, …"), "{long:?}");
    }
}

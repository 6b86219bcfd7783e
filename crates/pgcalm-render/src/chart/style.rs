//! How the entries of a chart are told apart: by colour and, for those who cannot tell colours apart and for print, by dash.
//!
//! Colours are after Okabe and Ito's colour-blind-safe set, darkened or lightened until each stands out by at least
//! 3:1 against its background (tested below). Under simulated protanopia, deuteranopia and tritanopia (Machado et al.,
//! 2009) the first four lie at least 14 CIELAB units apart; of the rest some come closer, and the dash must tell.

/// An entry's look. Its colours for the HTML report are in report.css, by [`Style::class`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    index: usize,
}

/// `stroke-dasharray` and colour on white, by index.
const LOOKS: [(&str, &str); 8] = [
    ("", "#0064a8"),
    ("7 3", "#c04e00"),
    ("2 4", "#008660"),
    ("9 3 2 3", "#303030"),
    ("5 2 1 2 1 2", "#a8457f"),
    ("12 4", "#9c8500"),
    ("1 3", "#2f3fa8"),
    ("4 4", "#808080"),
];

impl Style {
    /// Class that sets the CSS colour.
    pub fn class(self) -> String {
        format!("k{}", self.index)
    }

    /// `stroke-dasharray`; `None` for a solid line.
    pub fn dash(self) -> Option<&'static str> {
        Some(LOOKS[self.index].0).filter(|dash| !dash.is_empty())
    }

    /// For a white background, where there is no CSS.
    pub fn light_colour(self) -> &'static str {
        LOOKS[self.index].1
    }

    /// What the report is about has the first look; it is drawn last, on top, and thicker.
    pub fn is_subject(self) -> bool {
        self.index == 0
    }
}

/// A look for each name, different ones as long as there are enough. Names of `known` look the same in every report: each
/// has the look of its place there, the first being what reports are about.
pub fn assign<'a>(known: &[&str], names: impl Iterator<Item = &'a str>) -> Vec<Style> {
    let names: Vec<&str> = names.collect();
    let place = |name: &str| known.iter().position(|known| *known == name);
    let mut free =
        (known.len()..LOOKS.len()).chain((1..known.len()).filter(|index| !names.contains(&known[*index]))).cycle();
    names.iter().map(|name| Style { index: place(name).unwrap_or_else(|| free.next().unwrap_or(1)) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 4] = ["pg_calm", "stock", "stock-tuned", "stock-uncapped"];

    #[test]
    fn looks_differ() {
        let names = ["a", "stock", "b", "pg_calm", "c", "d", "e"];
        let styles = assign(&KNOWN, names.into_iter());
        for (index, style) in styles.iter().enumerate() {
            assert!(!styles[..index].contains(style), "{}", names[index]);
        }
        assert_eq!(assign(&KNOWN, ["pg_calm"].into_iter())[0].dash(), None);
        assert_eq!(assign(&KNOWN, std::iter::repeat_n("x", 100)).len(), 100);
    }

    #[test]
    fn css_has_every_look() {
        let css = include_str!("../page/report.css");
        for (index, (_, colour)) in LOOKS.iter().enumerate() {
            let class = Style { index }.class();
            // Once for light, once for dark.
            assert_eq!(css.matches(&format!(".{class} {{")).count(), 2, "{class}");
            assert!(css.contains(colour), "{class}");
        }
    }

    /// Relative luminance as WCAG 2 defines it.
    fn luminance(colour: &str) -> f64 {
        let channel = |at: usize| {
            let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.040_45 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
    }

    #[test]
    fn every_look_stands_out() {
        let css = include_str!("../page/report.css");
        let (light, dark) = css.split_once("@media (prefers-color-scheme: dark)").unwrap();
        for part in [light, dark] {
            let colour_after = |text: &str| {
                let at = part.find(text).unwrap() + text.len();
                &part[at..at + "#rrggbb".len()]
            };
            let background = luminance(colour_after("--background: "));
            for index in 0..LOOKS.len() {
                let class = Style { index }.class();
                let colour = luminance(colour_after(&format!(".{class} {{ color: ")));
                let contrast = (colour.max(background) + 0.05) / (colour.min(background) + 0.05);
                assert!(contrast >= 3.0, "{class}: {contrast}");
            }
        }
    }
}

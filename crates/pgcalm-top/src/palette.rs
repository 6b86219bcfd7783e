//! Colours that can be read on light and dark terminals alike.
//!
//! Only the terminal's own colours, as its user has set them, and never a background: white or black, or yellow on
//! white, would vanish on half of all terminals. Nothing is told by colour alone, so that NO_COLOR loses nothing.

use ratatui::style::{Color, Modifier, Style};

/// The styles of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Palette {
    colours: bool,
}

impl Palette {
    /// With colours, or with bold and reverse video only.
    pub fn new(colours: bool) -> Self {
        Self { colours }
    }

    /// With colours unless the environment has NO_COLOR, not empty, or TERM says that there are none.
    pub fn from_environment() -> Self {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        Self::new(set("NO_COLOR").is_none() && set("TERM").is_none_or(|term| term != "dumb"))
    }

    /// Names of sections and instances.
    pub fn heading(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// Units, ages, what matters less.
    pub fn secondary(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// The chosen line of a list, and the line of keys.
    pub fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// Bars and curves.
    pub fn bar(self) -> Style {
        self.coloured(Color::Cyan)
    }

    /// What needs a look: near a cap, something missing, paused.
    pub fn notice(self) -> Style {
        self.coloured(Color::Magenta)
    }

    /// What is wrong: at the cap, unreachable, failed.
    pub fn alarm(self) -> Style {
        self.coloured(Color::Red).add_modifier(Modifier::BOLD)
    }

    /// The style for something of which `share`, 0 to 1, of a limit is used.
    pub fn of_share(self, share: f64) -> Style {
        if share >= 0.95 {
            self.alarm()
        } else if share >= 0.8 {
            self.notice()
        } else {
            self.bar()
        }
    }

    fn coloured(self, colour: Color) -> Style {
        if self.colours { Style::new().fg(colour) } else { Style::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_style_has_a_background_or_a_fixed_foreground() {
        let palette = Palette::new(true);
        for style in [
            palette.heading(),
            palette.secondary(),
            palette.selected(),
            palette.bar(),
            palette.notice(),
            palette.alarm(),
        ] {
            assert_eq!(style.bg, None);
            assert!(matches!(style.fg, None | Some(Color::Cyan | Color::Magenta | Color::Red)), "{style:?}");
        }
    }

    #[test]
    fn without_colours_alarms_are_still_told_apart() {
        let palette = Palette::new(false);
        for share in [0.1, 0.85, 1.0] {
            assert_eq!(palette.of_share(share).fg, None);
        }
        assert_ne!(palette.of_share(1.0), palette.of_share(0.1));
    }
}

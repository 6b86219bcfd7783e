//! Which key asks for what; the list of keys that is shown is made of the same table.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::state::{Command, Page};

/// A line of the list of keys.
#[derive(Debug)]
pub struct Binding {
    /// The keys, as a user reads them.
    pub keys: &'static str,
    /// What they do.
    pub meaning: &'static str,
    /// What each of them is to the terminal.
    bound: &'static [(KeyCode, KeyModifiers, Command)],
}

const PLAIN: KeyModifiers = KeyModifiers::NONE;
const CONTROL: KeyModifiers = KeyModifiers::CONTROL;

/// All keys, as the list shows them.
pub const BINDINGS: &[Binding] = &[
    Binding {
        keys: "Up Down, k j",
        meaning: "previous, next instance",
        bound: &[
            (KeyCode::Up, PLAIN, Command::PreviousInstance),
            (KeyCode::Down, PLAIN, Command::NextInstance),
            (KeyCode::Char('k'), PLAIN, Command::PreviousInstance),
            (KeyCode::Char('j'), PLAIN, Command::NextInstance),
        ],
    },
    Binding {
        keys: "Tab, 1 2 3",
        meaning: "next page; overview, charts, missing",
        bound: &[
            (KeyCode::Tab, PLAIN, Command::NextPage),
            (KeyCode::BackTab, PLAIN, Command::PreviousPage),
            (KeyCode::Char('1'), PLAIN, Command::Page(Page::Overview)),
            (KeyCode::Char('2'), PLAIN, Command::Page(Page::Charts)),
            (KeyCode::Char('3'), PLAIN, Command::Page(Page::Missing)),
        ],
    },
    Binding { keys: "Space", meaning: "pause, go on live", bound: &[(KeyCode::Char(' '), PLAIN, Command::Pause)] },
    Binding {
        keys: "Left Right",
        meaning: "one picture back, on",
        bound: &[(KeyCode::Left, PLAIN, Command::Earlier(1)), (KeyCode::Right, PLAIN, Command::Later(1))],
    },
    Binding {
        keys: "[ ], PageUp PageDown",
        meaning: "a minute back, on",
        bound: &[
            (KeyCode::Char('['), PLAIN, Command::MinuteEarlier),
            (KeyCode::Char(']'), PLAIN, Command::MinuteLater),
            (KeyCode::PageUp, PLAIN, Command::MinuteEarlier),
            (KeyCode::PageDown, PLAIN, Command::MinuteLater),
        ],
    },
    Binding {
        keys: "Home End",
        meaning: "oldest picture, live",
        bound: &[(KeyCode::Home, PLAIN, Command::Oldest), (KeyCode::End, PLAIN, Command::Live)],
    },
    Binding {
        keys: "+ -",
        meaning: "curves of less, more time",
        bound: &[(KeyCode::Char('+'), PLAIN, Command::ShorterSpan), (KeyCode::Char('-'), PLAIN, Command::LongerSpan)],
    },
    Binding {
        keys: "? h, Esc",
        meaning: "show, hide this list",
        bound: &[
            (KeyCode::Char('?'), PLAIN, Command::Help),
            (KeyCode::Char('h'), PLAIN, Command::Help),
            (KeyCode::F(1), PLAIN, Command::Help),
            (KeyCode::Esc, PLAIN, Command::Back),
        ],
    },
    Binding {
        keys: "Ctrl-L, Ctrl-Z",
        meaning: "draw anew, suspend",
        bound: &[(KeyCode::Char('l'), CONTROL, Command::Redraw), (KeyCode::Char('z'), CONTROL, Command::Suspend)],
    },
    Binding {
        keys: "q, Ctrl-C",
        meaning: "quit",
        bound: &[
            (KeyCode::Char('q'), PLAIN, Command::Quit),
            (KeyCode::Char('c'), CONTROL, Command::Quit),
            (KeyCode::Char('d'), CONTROL, Command::Quit),
            (KeyCode::Char('\\'), CONTROL, Command::Quit),
        ],
    },
];

/// What a key asks for; `None` if nothing, as the release of a key.
pub fn command(key: KeyEvent) -> Option<Command> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    // A shifted key is another character already; BackTab always comes with Shift.
    let modifiers = key.modifiers - KeyModifiers::SHIFT;
    BINDINGS
        .iter()
        .flat_map(|binding| binding.bound)
        .find(|(code, with, _)| *code == key.code && *with == modifiers)
        .map(|(_, _, command)| *command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_of_the_task_are_bound() {
        for (code, modifiers, expected) in [
            (KeyCode::Char('q'), PLAIN, Command::Quit),
            (KeyCode::Char('c'), CONTROL, Command::Quit),
            (KeyCode::Char('?'), KeyModifiers::SHIFT, Command::Help),
            (KeyCode::Left, PLAIN, Command::Earlier(1)),
            (KeyCode::Right, PLAIN, Command::Later(1)),
            (KeyCode::Char('['), PLAIN, Command::MinuteEarlier),
            (KeyCode::Char(']'), PLAIN, Command::MinuteLater),
            (KeyCode::Char(' '), PLAIN, Command::Pause),
            (KeyCode::Home, PLAIN, Command::Oldest),
            (KeyCode::End, PLAIN, Command::Live),
            (KeyCode::BackTab, KeyModifiers::SHIFT, Command::PreviousPage),
        ] {
            assert_eq!(command(KeyEvent::new(code, modifiers)), Some(expected));
        }
    }

    #[test]
    fn other_keys_do_nothing() {
        for (code, modifiers) in [
            (KeyCode::Char('c'), PLAIN),
            (KeyCode::Char('q'), CONTROL),
            (KeyCode::Char('q'), KeyModifiers::ALT),
            (KeyCode::Enter, PLAIN),
        ] {
            assert_eq!(command(KeyEvent::new(code, modifiers)), None);
        }
        let release = KeyEvent::new_with_kind(KeyCode::Char('q'), PLAIN, KeyEventKind::Release);
        assert_eq!(command(release), None);
    }

    #[test]
    fn no_key_is_bound_twice() {
        let bound: Vec<_> =
            BINDINGS.iter().flat_map(|binding| binding.bound).map(|(code, modifiers, _)| (code, modifiers)).collect();
        for (at, key) in bound.iter().enumerate() {
            assert!(!bound[..at].contains(key), "{key:?}");
        }
    }
}

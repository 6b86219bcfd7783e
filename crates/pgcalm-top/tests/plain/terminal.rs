//! A panic must not leave the terminal in a state in which its message can't be read, and nothing typed can be seen.

use std::thread;

use pgcalm_top::terminal::Screen;
use ratatui::text::Text;

use crate::pty::Terminal;

/// Names the test that is to act as the program.
const ACT: &str = "PGCALM_TEST_ACT";

/// Runs one of the tests below in a terminal, where it acts as the program.
fn act(test: &str) -> Terminal {
    let program = std::env::current_exe().unwrap();
    let script = format!("{ACT}={test} exec {} --exact terminal::{test} --nocapture", program.display());
    Terminal::run("/bin/sh", &["-c", &script], 24, 80)
}

fn acts(test: &str) -> bool {
    std::env::var(ACT).is_ok_and(|name| name == test)
}

#[test]
fn a_panic_restores_the_terminal_before_its_message() {
    const NAME: &str = "a_panic_restores_the_terminal_before_its_message";
    if acts(NAME) {
        let mut screen = Screen::enter().unwrap();
        screen.draw(|frame| frame.render_widget(Text::from("a picture"), frame.area())).unwrap();
        // Until the test has seen it.
        std::io::stdin().read_line(&mut String::new()).unwrap();
        panic!("something is wrong");
    }
    let mut terminal = act(NAME);
    terminal.wait_for_text("a picture");
    terminal.assert_taken();
    // Raw mode: no new line is made of a carriage return.
    terminal.type_keys("\n");
    let (status, text) = terminal.wait_for_end();
    assert!(!status.success());
    assert!(text.contains("something is wrong"), "{text}");
}

#[test]
fn after_a_panic_of_another_thread_nothing_is_drawn_any_more() {
    const NAME: &str = "after_a_panic_of_another_thread_nothing_is_drawn_any_more";
    if acts(NAME) {
        let mut screen = Screen::enter().unwrap();
        let other = thread::spawn(|| panic!("a sample is wrong"));
        assert!(other.join().is_err());
        let result = screen.draw(|frame| frame.render_widget(Text::from("a picture"), frame.area()));
        println!("draw: {}", result.unwrap_err());
        return;
    }
    let terminal = act(NAME);
    let (status, text) = terminal.wait_for_end();
    assert!(status.success(), "{text}");
    // Nothing is written over the message by restoring twice.
    let message = text.find("a sample is wrong").unwrap_or_else(|| panic!("{text}"));
    let draw = text.find("draw: a thread has failed");
    assert!(draw.is_some_and(|draw| draw > message), "{text}");
    assert!(!text.contains("a picture"), "{text}");
}

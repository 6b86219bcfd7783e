//! Rules on fake hosts, texts, and apply and undo on a real one.

mod apply;
mod fake;
mod rules;
mod text;

//! Whole verbs on fake hosts, and texts.

mod fake_host;
mod text;

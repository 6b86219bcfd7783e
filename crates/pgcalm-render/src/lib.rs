//! What renderings are made of, whatever is rendered.
//!
//! Nothing here knows what is measured: each verb has its model, and makes a [`document`] of it, of which text, HTML, Markdown and
//! lines of tabs are renderings. What these are made of is here, too: [`number`] and [`text`], [`page`] and [`chart`]; and [`json`].

pub mod chart;
pub mod document;
pub mod json;
pub mod number;
pub mod page;
pub mod text;

//! What renderings are made of, whatever is rendered.
//!
//! Nothing here knows what is measured: each verb has its model, and text and HTML of it beside that. What more than one of them
//! needs is here: [`number`] and [`text`] for the terminal, [`page`] and [`chart`] for HTML and SVG, [`json`] for documents.

pub mod chart;
pub mod json;
pub mod number;
pub mod page;
pub mod text;

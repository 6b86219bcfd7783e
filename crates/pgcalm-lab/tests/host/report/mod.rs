//! Renderings of reports, and their documents.

mod archive;
mod checkpoint_start;
mod drawings;
mod journal;
mod json;
mod predict;
mod replica;
mod seconds;
mod suite;
mod support;
mod text;

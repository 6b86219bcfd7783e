//! Documents of the scenarios whose models are here.

use pgcalm_report::JsonError;
use pgcalm_report::json;

use crate::archive_crash::report as archive_crash;

/// A document of one of them.
#[derive(Debug, Clone, PartialEq)]
pub enum Document {
    /// Power cuts at the steps of archiving.
    ArchiveCrash(Box<archive_crash::Report>),
}

/// Reads a document; `None` if it is another scenario's.
pub fn read(document: &str) -> Result<Option<Document>, JsonError> {
    match json::scenario(document).as_deref() {
        Some(archive_crash::SCENARIO) => {
            json::parse(document).map(|report| Some(Document::ArchiveCrash(Box::new(report))))
        }
        _ => Ok(None),
    }
}

impl Document {
    /// As text for a terminal.
    pub fn text(&self) -> String {
        match self {
            Self::ArchiveCrash(report) => crate::archive_crash::text::render(report),
        }
    }
}

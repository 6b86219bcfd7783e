//! The document that `pgcalm lab run --json` writes, and reading it back.

use serde::Deserialize;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::archive;
use crate::journal;
use crate::model;
use crate::predict;
use crate::replica;
use crate::suite;
use crate::tenants;
use crate::torture;

/// A document is not a report, or a report cannot become a document.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// Not JSON at all, or cut short.
    #[error("not a JSON document: {0}")]
    Syntax(#[source] serde_json::Error),
    /// JSON, but not of a report.
    #[error("not a report of pgcalm: field `{path}`: {source}")]
    Field {
        /// Where, e.g. `contestants[1].runs[0].tps_mean`; `.` is the document itself.
        path: String,
        /// What is wrong, with line and column.
        source: serde_json::Error,
    },
    /// JSON has no NaN and no infinity: the document would not read back.
    #[error("field `{path}` of the report is not a finite number")]
    NotFinite {
        /// Where, e.g. `contestants[1].runs[0].tps_mean`.
        path: String,
    },
}

/// A document of any scenario.
#[derive(Debug, Clone, PartialEq)]
pub enum Document {
    /// Contestants under load.
    Contest(Box<model::Report>),
    /// Layouts of two instances.
    Journal(Box<journal::Report>),
    /// Many instances on one device.
    Tenants(Box<tenants::Report>),
    /// Crash cycles.
    Torture(Box<torture::Report>),
    /// Archivers.
    Archive(Box<archive::Report>),
    /// A primary and its standby.
    Replica(Box<replica::Report>),
    /// Predictions against measurements.
    Predict(Box<predict::Report>),
    /// All rows of a suite.
    Suite(Box<suite::Report>),
}

/// The report as a document, ending in a newline.
///
/// What it returns can be read by [`read`]: serde_json would silently turn NaN into null, so a number that is not
/// finite is an error here. It is a mistake of whoever measured.
pub fn to_json_pretty<T: Serialize + DeserializeOwned + PartialEq>(
    report: &T,
) -> Result<String, JsonError> {
    let mut document = serde_json::to_string_pretty(report).map_err(JsonError::Syntax)?;
    document.push('\n');
    match parse::<T>(&document) {
        Ok(_) => Ok(document),
        Err(JsonError::Field { path, .. }) => Err(JsonError::NotFinite { path }),
        Err(error) => Err(error),
    }
}

/// Reads a contest's document; unknown fields are skipped, so that a later version's document can be read.
pub fn from_json(document: &str) -> Result<model::Report, JsonError> {
    parse(document).map(model::Report::completed)
}

/// Reads a document of whatever scenario, likewise.
pub fn read(document: &str) -> Result<Document, JsonError> {
    match scenario(document).as_deref() {
        Some(torture::SCENARIO) => {
            parse(document).map(|report| Document::Torture(Box::new(report)))
        }
        Some(journal::SCENARIO) => {
            parse(document).map(|report| Document::Journal(Box::new(report)))
        }
        Some(tenants::SCENARIO) => parse::<tenants::Report>(document)
            .map(|report| Document::Tenants(Box::new(report.completed()))),
        Some(archive::SCENARIO) => {
            parse(document).map(|report| Document::Archive(Box::new(report)))
        }
        Some(replica::SCENARIO) => {
            parse(document).map(|report| Document::Replica(Box::new(report)))
        }
        Some(predict::SCENARIO) => {
            parse(document).map(|report| Document::Predict(Box::new(report)))
        }
        Some(suite::SCENARIO) => parse::<suite::Report>(document)
            .map(|report| Document::Suite(Box::new(report.completed()))),
        _ => from_json(document).map(|report| Document::Contest(Box::new(report))),
    }
}

/// The scenario that a document is of; `None` if it is no report at all.
pub fn scenario(document: &str) -> Option<String> {
    /// What all documents have.
    #[derive(Deserialize)]
    struct Any {
        scenario: String,
    }
    parse::<Any>(document).ok().map(|any| any.scenario)
}

/// Reads a document of one type; errors name the field.
pub fn parse<T: DeserializeOwned>(document: &str) -> Result<T, JsonError> {
    let mut deserializer = serde_json::Deserializer::from_str(document);
    let mut track = serde_path_to_error::Track::new();
    let report = T::deserialize(serde_path_to_error::Deserializer::new(
        &mut deserializer,
        &mut track,
    ))
    .map_err(|source| match source.classify() {
        serde_json::error::Category::Data => JsonError::Field {
            path: track.path().to_string(),
            source,
        },
        _ => JsonError::Syntax(source),
    })?;
    deserializer.end().map_err(JsonError::Syntax)?;
    Ok(report)
}

//! The document that `pgcalm lab run --json` writes, and reading it back.

use pgcalm_render::json::JsonError;
use pgcalm_render::json::parse;
use serde::Deserialize;

use crate::archive;
use crate::journal;
use crate::model;
use crate::predict;
use crate::replica;
use crate::suite;
use crate::tenants;
use crate::torture;

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

/// Reads a contest's document; unknown fields are skipped, so that a later version's document can be read.
pub fn from_json(document: &str) -> Result<model::Report, JsonError> {
    parse(document).map(model::Report::completed)
}

/// Reads a document of whatever scenario, likewise.
pub fn read(document: &str) -> Result<Document, JsonError> {
    /// What all documents have.
    #[derive(Deserialize)]
    struct Any {
        scenario: String,
    }
    let scenario = parse::<Any>(document).map(|any| any.scenario);
    match scenario.as_deref() {
        Ok(torture::SCENARIO) => parse(document).map(|report| Document::Torture(Box::new(report))),
        Ok(journal::SCENARIO) => parse(document).map(|report| Document::Journal(Box::new(report))),
        Ok(tenants::SCENARIO) => parse::<tenants::Report>(document)
            .map(|report| Document::Tenants(Box::new(report.completed()))),
        Ok(archive::SCENARIO) => parse(document).map(|report| Document::Archive(Box::new(report))),
        Ok(replica::SCENARIO) => parse(document).map(|report| Document::Replica(Box::new(report))),
        Ok(predict::SCENARIO) => parse(document).map(|report| Document::Predict(Box::new(report))),
        Ok(suite::SCENARIO) => parse::<suite::Report>(document)
            .map(|report| Document::Suite(Box::new(report.completed()))),
        _ => from_json(document).map(|report| Document::Contest(Box::new(report))),
    }
}

//! The document that `pgcalm lab run --json` writes, and reading it back.

use pgcalm_render::json::{JsonError, parse};
use serde::Deserialize;

use crate::report::Shown;
use crate::{
    archive, archive_crash, contest, guard, interference, predict, replica, suite, tenants, torture, wal_full,
};

/// A document of any scenario.
#[derive(Debug, Clone, PartialEq)]
pub enum Document {
    /// Contestants under load.
    Contest(Box<contest::report::Report>),
    /// Layouts of two instances.
    Journal(Box<interference::report::Report>),
    /// Many instances on one device.
    Tenants(Box<tenants::report::Report>),
    /// Crash cycles.
    Torture(Box<torture::report::Report>),
    /// Power cuts at the steps of archiving.
    ArchiveCrash(Box<archive_crash::report::Report>),
    /// Overload with the guard and without.
    Guard(Box<guard::report::Report>),
    /// WAL that fills its volume, with the guard and without.
    WalFull(Box<wal_full::report::Report>),
    /// Archivers.
    Archive(Box<archive::report::Report>),
    /// A primary and its standby.
    Replica(Box<replica::report::Report>),
    /// Predictions against measurements.
    Predict(Box<predict::report::Report>),
    /// All rows of a suite.
    Suite(Box<suite::report::Report>),
}

impl Document {
    /// What it says.
    pub fn shown(&self) -> &dyn Shown {
        match self {
            Document::Contest(report) => &**report,
            Document::Journal(report) => &**report,
            Document::Tenants(report) => &**report,
            Document::Torture(report) => &**report,
            Document::ArchiveCrash(report) => &**report,
            Document::Guard(report) => &**report,
            Document::WalFull(report) => &**report,
            Document::Archive(report) => &**report,
            Document::Replica(report) => &**report,
            Document::Predict(report) => &**report,
            Document::Suite(report) => &**report,
        }
    }
}

/// Reads a contest's document; unknown fields are skipped, so that a later version's document can be read.
pub fn from_json(document: &str) -> Result<contest::report::Report, JsonError> {
    parse(document).map(contest::report::Report::completed)
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
        Ok(torture::report::SCENARIO) => parse(document).map(|report| Document::Torture(Box::new(report))),
        Ok(interference::report::SCENARIO) => parse(document).map(|report| Document::Journal(Box::new(report))),
        Ok(tenants::report::SCENARIO) => {
            parse::<tenants::report::Report>(document).map(|report| Document::Tenants(Box::new(report.completed())))
        }
        Ok(archive_crash::report::SCENARIO) => parse(document).map(|report| Document::ArchiveCrash(Box::new(report))),
        Ok(guard::report::SCENARIO) => parse(document).map(|report| Document::Guard(Box::new(report))),
        Ok(wal_full::report::SCENARIO) => parse(document).map(|report| Document::WalFull(Box::new(report))),
        Ok(archive::report::SCENARIO) => parse(document).map(|report| Document::Archive(Box::new(report))),
        Ok(replica::report::SCENARIO) => parse(document).map(|report| Document::Replica(Box::new(report))),
        Ok(predict::report::SCENARIO) => parse(document).map(|report| Document::Predict(Box::new(report))),
        Ok(suite::report::SCENARIO) => {
            parse::<suite::report::Report>(document).map(|report| Document::Suite(Box::new(report.completed())))
        }
        _ => from_json(document).map(|report| Document::Contest(Box::new(report))),
    }
}

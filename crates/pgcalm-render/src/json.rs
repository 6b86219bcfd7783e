//! Documents: what is written can be read back, and what can't be read is named by its field.

use serde::Serialize;
use serde::de::DeserializeOwned;

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

/// The report as a document, ending in a newline.
///
/// What it returns can be read by [`parse`]: serde_json would silently turn NaN into null, so a number that is not
/// finite is an error here. It is a mistake of whoever measured.
///
/// # Errors
///
/// [`JsonError::NotFinite`].
pub fn to_json_pretty<T: Serialize + DeserializeOwned + PartialEq>(report: &T) -> Result<String, JsonError> {
    let mut document = serde_json::to_string_pretty(report).map_err(JsonError::Syntax)?;
    document.push('\n');
    match parse::<T>(&document) {
        Ok(_) => Ok(document),
        Err(JsonError::Field { path, .. }) => Err(JsonError::NotFinite { path }),
        Err(error) => Err(error),
    }
}

/// Reads a document; unknown fields are skipped, so that a later version's document can be read.
///
/// # Errors
///
/// [`JsonError::Syntax`] and [`JsonError::Field`].
pub fn parse<T: DeserializeOwned>(document: &str) -> Result<T, JsonError> {
    let mut deserializer = serde_json::Deserializer::from_str(document);
    let mut track = serde_path_to_error::Track::new();
    let report =
        T::deserialize(serde_path_to_error::Deserializer::new(&mut deserializer, &mut track)).map_err(|source| {
            match source.classify() {
                serde_json::error::Category::Data => JsonError::Field { path: track.path().to_string(), source },
                _ => JsonError::Syntax(source),
            }
        })?;
    deserializer.end().map_err(JsonError::Syntax)?;
    Ok(report)
}

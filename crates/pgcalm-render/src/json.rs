//! Documents: what is written can be read back, and what can't be read is named by its field.

use anyhow::{anyhow, bail};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The report as a document, ending in a newline.
///
/// What it returns can be read by [`parse`]: serde_json would silently turn NaN into null, so a number that is not
/// finite is an error here. It is a mistake of whoever measured.
pub fn to_json_pretty<T: Serialize + DeserializeOwned + PartialEq>(report: &T) -> anyhow::Result<String> {
    let mut document = serde_json::to_string_pretty(report).map_err(no_json)?;
    document.push('\n');
    if let (path, Err(_)) = read::<T>(&document) {
        bail!("field `{path}` of the report is not a finite number");
    }
    Ok(document)
}

/// Reads a document; unknown fields are skipped, so that a later version's document can be read. An error names the field, e.g.
/// `contestants[1].runs[0].tps_mean`; `.` is the document itself.
pub fn parse<T: DeserializeOwned>(document: &str) -> anyhow::Result<T> {
    let (path, report) = read(document);
    report.map_err(|error| match error.classify() {
        serde_json::error::Category::Data => anyhow!("not a report of pgcalm: field `{path}`: {error}"),
        _ => no_json(error),
    })
}

/// A document, or why it is none, and how far it was read.
fn read<T: DeserializeOwned>(document: &str) -> (String, serde_json::Result<T>) {
    let mut deserializer = serde_json::Deserializer::from_str(document);
    let mut track = serde_path_to_error::Track::new();
    let report = T::deserialize(serde_path_to_error::Deserializer::new(&mut deserializer, &mut track));
    (track.path().to_string(), report.and_then(|report| deserializer.end().map(|()| report)))
}

fn no_json(error: serde_json::Error) -> anyhow::Error {
    anyhow!("not a JSON document: {error}")
}

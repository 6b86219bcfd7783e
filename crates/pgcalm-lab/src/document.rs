//! The document that `pgcalm lab run --json` writes, and reading it back.

use pgcalm_render::json::parse;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::report::{Host, Shown};
use crate::{contest, suite};

macro_rules! documents {
    ($($scenario:ident($module:ident),)*) => {
        /// A document of any scenario.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Document {
            $(
                #[doc = concat!("That of `", stringify!($module), "`.")]
                $scenario(Box<crate::$module::report::Report>),
            )*
            /// All rows of a suite.
            Suite(Box<suite::report::Report>),
        }

        impl Document {
            /// What it says.
            pub fn shown(&self) -> &dyn Shown {
                match self {
                    $(Self::$scenario(report) => &**report,)*
                    Self::Suite(report) => &**report,
                }
            }

            /// Where it was measured; none of a suite, whose rows may be of several hosts.
            pub fn host(&self) -> Option<&Host> {
                match self {
                    $(Self::$scenario(report) => Some(&report.host),)*
                    Self::Suite(_) => None,
                }
            }

            /// As JSON.
            pub fn value(&self) -> serde_json::Result<Value> {
                match self {
                    $(Self::$scenario(report) => serde_json::to_value(report),)*
                    Self::Suite(report) => serde_json::to_value(report),
                }
            }

            /// Of a scenario; of `checkpoint` if there is no such scenario.
            fn of(scenario: &str, document: &str) -> anyhow::Result<Self> {
                $(if scenario == crate::$module::HELP.name {
                    return completed(document).map(Self::$scenario);
                })*
                if scenario == suite::report::SCENARIO {
                    return completed(document).map(Self::Suite);
                }
                completed(document).map(Self::Checkpoint)
            }
        }

        /// Schema of each document by the name of its file.
        #[cfg(test)]
        fn schemas() -> Vec<pgcalm_testkit::schema::Document> {
            vec![
                $((crate::$module::HELP.name, schemars::schema_for!(crate::$module::report::Report).to_value()),)*
                (suite::report::SCENARIO, schemars::schema_for!(suite::report::Report).to_value()),
            ]
        }
    };
}

scenarios!(documents);

pub(crate) fn completed<R: Shown + DeserializeOwned>(document: &str) -> anyhow::Result<Box<R>> {
    parse::<R>(document).map(|report| Box::new(report.completed()))
}

/// Reads a contest's document; unknown fields are skipped, so that a later version's document can be read.
pub fn from_json(document: &str) -> anyhow::Result<contest::report::Report> {
    completed(document).map(|report| *report)
}

/// Reads a document of whatever scenario, likewise.
pub fn read(document: &str) -> anyhow::Result<Document> {
    /// What all documents have.
    #[derive(Deserialize)]
    struct Any {
        scenario: String,
    }
    let scenario = parse::<Any>(document).map_or(String::new(), |any| any.scenario);
    Document::of(&scenario, document)
}

#[test]
fn schema_files_match_the_models_and_describe_every_field() {
    let mut documents = schemas();
    for (name, _) in &mut documents {
        // The first of all documents had no name of its own.
        if *name == contest::HELP.name {
            *name = "report";
        }
    }
    pgcalm_testkit::schema::files_match(env!("CARGO_PKG_NAME"), &documents);
    pgcalm_testkit::schema::every_field_is_described(&documents);
}

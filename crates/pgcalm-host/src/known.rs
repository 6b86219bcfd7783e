//! Facts of three values: it is so, it is not, and it is not known, with the reason.

use serde::{Deserialize, Serialize};

use crate::Error;

/// Why a fact is not known and, where there is one, the way out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[error("{unknown}")]
pub struct Unknown {
    /// The reason, in one line.
    pub unknown: String,
}

impl Unknown {
    /// For this reason.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { unknown: reason.into() }
    }
}

impl From<&str> for Unknown {
    fn from(reason: &str) -> Self {
        Self::new(reason)
    }
}

impl From<Error> for Unknown {
    fn from(error: Error) -> Self {
        Self::new(error.to_string())
    }
}

/// What a document tells of a fact. With an `Option` in it there are three values: null is "there is none", which is not the
/// same as an object that has nothing but `unknown`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
#[serde(untagged)]
pub enum Known<T> {
    /// It can't be told.
    Not(Unknown),
    /// It is known.
    Is(T),
}

impl<T> Known<T> {
    /// The fact, or why it is not known.
    pub fn as_ref(&self) -> Result<&T, &Unknown> {
        match self {
            Self::Is(fact) => Ok(fact),
            Self::Not(why) => Err(why),
        }
    }

    /// The fact, if it is known.
    pub fn known(&self) -> Option<&T> {
        self.as_ref().ok()
    }

    /// Why it is not known, if it is not.
    pub fn unknown(&self) -> Option<&Unknown> {
        self.as_ref().err()
    }

    /// Something made of the fact.
    pub fn map<U>(&self, make: impl FnOnce(&T) -> U) -> Known<U> {
        match self {
            Self::Is(fact) => Known::Is(make(fact)),
            Self::Not(why) => Known::Not(why.clone()),
        }
    }
}

impl<T> Known<Option<T>> {
    /// What there is, if it is known that there is something.
    pub fn there(&self) -> Option<&T> {
        self.known()?.as_ref()
    }
}

impl<T, E: Into<Unknown>> From<Result<T, E>> for Known<T> {
    fn from(result: Result<T, E>) -> Self {
        match result {
            Ok(fact) => Self::Is(fact),
            Err(why) => Self::Not(why.into()),
        }
    }
}

impl<T> Default for Known<Option<T>> {
    /// There is none.
    fn default() -> Self {
        Self::Is(None)
    }
}

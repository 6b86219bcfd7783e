//! Positions in WAL.

use std::fmt;
use std::str::FromStr;

use postgres::types::PgLsn;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A position in WAL, in bytes since its beginning; as text `16/B374D848`, as PostgreSQL's `pg_lsn`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

impl Lsn {
    /// Bytes from `earlier` to here; 0 if that is not earlier. Positions of a standby can be ahead of those of the primary
    /// in one answer, which reads them one after the other.
    pub fn bytes_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl From<PgLsn> for Lsn {
    fn from(lsn: PgLsn) -> Self {
        Self(lsn.into())
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        PgLsn::from(self.0).fmt(f)
    }
}

/// Not a position in WAL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no position in WAL such as 16/B374D848")]
pub struct ParseLsnError(String);

impl FromStr for Lsn {
    type Err = ParseLsnError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse::<PgLsn>().map(Self::from).map_err(|_| ParseLsnError(text.to_string()))
    }
}

impl Serialize for Lsn {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Lsn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
impl schemars::JsonSchema for Lsn {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Lsn".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "A position in WAL, as PostgreSQL's `pg_lsn`, e.g. `16/B374D848`.",
            "type": "string",
            "pattern": "^[0-9A-F]{1,8}/[0-9A-F]{1,8}$"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_that_of_the_server() {
        let lsn = Lsn(0x16_B374_D848);
        assert_eq!(lsn.to_string(), "16/B374D848");
        assert_eq!("16/B374D848".parse(), Ok(lsn));
        assert_eq!(serde_json::to_string(&lsn).unwrap(), "\"16/B374D848\"");
        assert!("16".parse::<Lsn>().is_err());
        assert!(serde_json::from_str::<Lsn>("\"x/y\"").is_err());
    }

    #[test]
    fn a_standby_that_is_ahead_in_an_answer_is_not_behind() {
        assert_eq!(Lsn(10).bytes_since(Lsn(4)), 6);
        assert_eq!(Lsn(4).bytes_since(Lsn(10)), 0);
    }
}

//! The value of an option in a suite's file.

use toml::Value;

/// What is given for an option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Given {
    /// `keep = true`: an option without a value. `false` takes it back.
    Flag(bool),
    /// `seconds = 60`, `fs = "xfs"`.
    One(String),
    /// `contestants = ["stock", "pg_calm"]`, `set = ["wal_compression=lz4"]`.
    Several(Vec<String>),
}

impl Given {
    /// Fails on what no option can be, naming it.
    pub(super) fn from_toml(name: &str, value: &Value) -> Result<Self, String> {
        match value {
            Value::Boolean(flag) => Ok(Self::Flag(*flag)),
            Value::Array(items) => {
                items.iter().map(|item| scalar(name, item)).collect::<Result<_, _>>().map(Self::Several)
            }
            value => scalar(name, value).map(Self::One),
        }
    }

    /// As a label of a row shows it.
    pub(super) fn label(&self) -> String {
        match self {
            Self::Flag(flag) => flag.to_string(),
            Self::One(text) => text.clone(),
            Self::Several(texts) => texts.join("+"),
        }
    }
}

fn scalar(name: &str, value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Float(number) => Ok(number.to_string()),
        Value::Boolean(_) | Value::Datetime(_) | Value::Array(_) | Value::Table(_) => {
            Err(format!("option {name}: give a text, a number, true, or a list of texts and numbers"))
        }
    }
}

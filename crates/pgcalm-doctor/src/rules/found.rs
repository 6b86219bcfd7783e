pub(super) use pgcalm_host::Unknown;

use crate::facts::Server;
use crate::report::{Change, Target};

/// What a condition says: applies with evidence, does not apply, or can't be told and why.
pub(super) type Answer = Result<Option<Found>, Unknown>;

/// A rule applies.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Found {
    /// What was seen, and where.
    pub evidence: Vec<String>,
    /// Values to be changed.
    pub changes: Vec<Change>,
    /// Other commands.
    pub commands: Vec<String>,
    /// Cure and effect in place of the rule's.
    pub advice: Option<(&'static str, &'static str)>,
}

impl Found {
    /// Begins with its first evidence.
    pub fn new(evidence: impl Into<String>) -> Self {
        Self { evidence: vec![evidence.into()], ..Self::default() }
    }

    /// Adds evidence.
    pub fn and(mut self, evidence: impl Into<String>) -> Self {
        self.evidence.push(evidence.into());
        self
    }

    /// Gives cure and effect where the rule's are not for this server.
    pub fn advise(mut self, cure: &'static str, effect: &'static str) -> Self {
        self.advice = Some((cure, effect));
        self
    }

    /// Adds a command.
    pub fn run(mut self, command: impl Into<String>) -> Self {
        self.commands.push(command.into());
        self
    }

    /// Adds a change of a server's setting.
    pub fn set(mut self, server: &Server, name: &str, to: impl Into<String>) -> Self {
        let setting = server.settings.get(name);
        self.changes.push(Change {
            target: Target::Setting,
            name: name.to_string(),
            from: setting.map(|setting| {
                // A unit such as 8kB can't stand behind a number.
                match &setting.unit {
                    Some(unit) if unit.starts_with(|c: char| c.is_ascii_digit()) => {
                        format!("{} (in units of {unit})", setting.value)
                    }
                    Some(unit) => format!("{}{unit}", setting.value),
                    None => setting.value.clone(),
                }
            }),
            to: Some(to.into()),
        });
        self
    }

    /// Adds a change of a file of the kernel.
    pub fn write(mut self, file: &str, from: Option<String>, to: impl Into<String>) -> Self {
        self.changes.push(Change { target: Target::Kernel, name: file.to_string(), from, to: Some(to.into()) });
        self
    }
}

/// `Some(found)` if the condition holds.
pub(super) fn when(condition: bool, found: impl FnOnce() -> Found) -> Answer {
    Ok(condition.then(found))
}

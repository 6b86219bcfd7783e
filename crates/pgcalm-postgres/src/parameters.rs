//! The parameters of a connection, and where each comes from.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::environment::Environment;
use crate::error::ConnectError;
use crate::keyword::{Keyword, Use};
use crate::{conninfo, keyword, service_file};

/// Where a value comes from; for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// The connection string.
    String,
    /// A service of a service file.
    Service { service: String, file: PathBuf },
    /// An environment variable.
    Variable(&'static str),
    /// The server was found on this host.
    Found,
    /// A line of a password file.
    PasswordFile { file: PathBuf, line: usize },
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::String => f.write_str("the connection string"),
            Self::Service { service, file } => {
                write!(f, "service {service} of {}", file.display())
            }
            Self::Variable(name) => f.write_str(name),
            Self::Found => f.write_str("the server found on this host"),
            Self::PasswordFile { file, line } => {
                write!(f, "line {line} of {}", file.display())
            }
        }
    }
}

/// A value. It may be a password: it has no `Debug`.
#[derive(Clone)]
pub(crate) struct Given {
    pub value: String,
    pub source: Source,
}

/// Those that are given, by name. What is added later does not replace what is there.
#[derive(Clone, Default)]
pub(crate) struct Parameters {
    given: BTreeMap<&'static str, Given>,
}

impl Parameters {
    /// Of a connection string.
    pub(crate) fn parse(conninfo: &str) -> Result<Self, ConnectError> {
        let mut parameters = Self::default();
        for (keyword, value) in conninfo::parse(conninfo)? {
            let source = Source::String;
            parameters.given.insert(keyword.name, Given { value, source });
        }
        Ok(parameters)
    }

    /// Adds what a service has, if one is named in these parameters, or in `environment` where they name none.
    pub(crate) fn add_service(
        &mut self,
        environment: &Environment,
        from_environment: bool,
    ) -> Result<(), ConnectError> {
        let named = match self.given.get("service") {
            Some(given) => Some(given.value.clone()),
            None if from_environment => environment.variable("PGSERVICE")?.map(String::from),
            None => None,
        };
        let Some(service) = named.filter(|service| !service.is_empty()) else { return Ok(()) };
        let named_file = self.text("servicefile").map(PathBuf::from).or_else(|| environment.path("PGSERVICEFILE"));
        let found = service_file::look_up(&service, named_file, environment)?;
        for (keyword, value) in found.pairs {
            let source = Source::Service { service: service.clone(), file: found.file.clone() };
            self.add(keyword, value, source);
        }
        Ok(())
    }

    /// Adds what environment variables give. Those that something takes precedence over are not looked at.
    pub(crate) fn add_environment(&mut self, environment: &Environment) -> Result<(), ConnectError> {
        for keyword in keyword::KEYWORDS {
            if let Some(name) = keyword.variable
                && !self.given.contains_key(keyword.name)
                && let Some(value) = environment.variable(name)?
            {
                self.add(keyword, value.to_string(), Source::Variable(name));
            }
        }
        Ok(())
    }

    /// Adds a value.
    pub(crate) fn add(&mut self, keyword: &'static Keyword, value: String, source: Source) {
        self.given.entry(keyword.name).or_insert(Given { value, source });
    }

    /// Adds a value that a server found on this host has, also where an empty one was given; `name` is a known one.
    pub(crate) fn add_found(&mut self, name: &'static str, value: String) {
        if self.get(name).is_none() {
            let source = Source::Found;
            self.given.insert(name, Given { value, source });
        }
    }

    /// A parameter that is given, and not empty: that is as good as none for libpq.
    pub(crate) fn get(&self, name: &str) -> Option<&Given> {
        self.given.get(name).filter(|given| !given.value.is_empty())
    }

    /// Its value.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.get(name).map(|given| given.value.as_str())
    }

    /// Fails if something is asked for that can't be had here.
    pub(crate) fn check(&self) -> Result<(), ConnectError> {
        for keyword in keyword::KEYWORDS {
            if let (Use::Only(values), Some(given)) = (keyword.usage, self.get(keyword.name))
                && !values.contains(&given.value.as_str())
            {
                return Err(ConnectError::Parameters(format!(
                    "{} (from {}): pgcalm has no support for it: leave it out{}",
                    keyword.name,
                    given.source,
                    match values {
                        [] => String::new(),
                        values => format!(", or give {}", values.join(" or ")),
                    }
                )));
            }
        }
        Ok(())
    }

    /// One of the values of `choices`, by its name; `None` if nothing is given.
    pub(crate) fn choice<T: Copy>(&self, name: &str, choices: &[(&str, T)]) -> Result<Option<T>, ConnectError> {
        let Some(given) = self.get(name) else { return Ok(None) };
        let chosen = choices.iter().find(|(choice, _)| *choice == given.value);
        let names = || -> Vec<&str> { choices.iter().map(|(choice, _)| *choice).collect() };
        match chosen {
            Some((_, value)) => Ok(Some(*value)),
            None => Err(self.invalid(name, &format!("choose from {}", names().join(", ")))),
        }
    }

    /// A whole number; `None` if nothing is given.
    pub(crate) fn number(&self, name: &str) -> Result<Option<i64>, ConnectError> {
        match self.text(name).map(|text| text.trim().parse()) {
            None => Ok(None),
            Some(Ok(number)) => Ok(Some(number)),
            Some(Err(_)) => Err(self.invalid(name, "give a whole number")),
        }
    }

    /// So many seconds if they are more than none; `Some(None)` for 0 or less, `None` if nothing is given.
    pub(crate) fn seconds(&self, name: &str) -> Result<Option<Option<Duration>>, ConnectError> {
        let number = self.number(name)?;
        Ok(number.map(|seconds| u64::try_from(seconds).ok().filter(|seconds| *seconds > 0).map(Duration::from_secs)))
    }

    /// The values of a list separated by commas; none if nothing is given.
    pub(crate) fn list(&self, name: &str) -> Vec<&str> {
        self.text(name).map(|text| text.split(',').map(str::trim).collect()).unwrap_or_default()
    }

    /// That a value can't be used. It is not repeated: after a slip in a URI it may be a part of a password.
    pub(crate) fn invalid(&self, name: &str, remedy: &str) -> ConnectError {
        let source = self.get(name).map_or(String::new(), |given| format!(" (from {})", given.source));
        ConnectError::Parameters(format!("{name}{source}: no such value: {remedy}"))
    }
}

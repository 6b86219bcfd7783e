//! A scenario with its options, whichever it is: what a row of a suite runs.

use std::collections::BTreeMap;
use std::time::Duration;

use pgcalm_host::Failure;
use serde_json::Value;

use crate::document::Document;
use crate::interrupt::Interrupt;
use crate::options::{Common, named};
use crate::suite;

macro_rules! chosen {
    ($($scenario:ident($module:ident),)*) => {
        /// A scenario and its options.
        #[derive(Debug, Clone)]
        pub enum Chosen {
            $(
                #[doc = concat!("That of `", stringify!($module), "`.")]
                $scenario(Box<crate::$module::Options>),
            )*
        }

        impl Chosen {
            /// Fails on values that can't work, naming the option.
            pub fn check(&self) -> Result<(), Failure> {
                match self {
                    $(Self::$scenario(options) => options.check(),)*
                }
            }

            /// Every option, by its name on the command line.
            fn all_named(&self) -> BTreeMap<String, Value> {
                match self {
                    $(Self::$scenario(options) => named(&**options),)*
                }
            }

            /// What every scenario has.
            pub fn common(&self) -> &Common {
                match self {
                    $(Self::$scenario(options) => &options.common,)*
                }
            }

            /// Runs it. Whatever way it ends, the host is as before.
            pub fn run(&self, interrupt: &Interrupt) -> anyhow::Result<Document> {
                match self {
                    $(Self::$scenario(options) => {
                        crate::$module::run(options, interrupt).map(Box::new).map(Document::$scenario)
                    })*
                }
            }
        }
    };
}

scenarios!(chosen);

impl Chosen {
    /// Every option with the value in force, by its name on the command line: a result is that of these.
    pub fn named(&self) -> BTreeMap<String, Value> {
        match self {
            Self::Checkpoint(options) => options.named(),
            Self::StopStart(options) => options.named(),
            _ => self.all_named(),
        }
    }

    /// Whether a server of it may load the module.
    pub(crate) fn loads_module(&self) -> bool {
        match self {
            Self::Checkpoint(options) => options.contestants.iter().any(|contestant| contestant.module),
            _ => true,
        }
    }

    /// How long it takes, but for the loading of tables; none where nobody knows before.
    pub fn estimate(&self) -> Option<Duration> {
        match self {
            Self::Checkpoint(options) => Some(suite::estimate(options)),
            Self::StopStart(options) => Some(options.takes()),
            _ => None,
        }
    }
}

//! The ways of running PostgreSQL that are set against each other.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::options::{Named, each_once, one_of};
use crate::preload::CHECKPOINTER_FLUSH;
use pgcalm_host::Failure;

/// One way of running PostgreSQL.
#[derive(Debug, PartialEq, Eq)]
pub struct Contestant {
    /// As on the command line.
    pub name: &'static str,
    /// What sets it apart, in one sentence.
    pub description: &'static str,
    /// Where it differs from `stock`.
    pub settings: &'static [(&'static str, &'static str)],
    /// Whether it runs with the module and reports its status.
    pub module: bool,
    /// Whether the data device is capped.
    pub data_capped: bool,
    /// How many times the operations per second its volumes have.
    pub operations: u32,
}

/// What all others differ from.
pub(crate) const STOCK: Contestant = Contestant {
    name: "stock",
    description: "PostgreSQL as it comes.",
    settings: &[],
    module: false,
    data_capped: true,
    operations: 1,
};

/// All that there are.
pub const CONTESTANTS: [Contestant; 15] = [
    STOCK,
    Contestant {
        name: "stock-tuned",
        description: "PostgreSQL with the settings that help most without the module: no flush hints, so that the \
                      kernel may gather and merge writes, and a background writer that keeps backends from writing.",
        settings: &[
            // With these on, every 256 KiB of scattered pages are pushed out at once, one operation per page.
            ("checkpoint_flush_after", "0"),
            ("bgwriter_flush_after", "0"),
            ("backend_flush_after", "0"),
            // Up to 100,000 pages/s: under an upsert of random rows nearly every buffer taken is a dirty one, and the
            // default of 500 pages/s leaves its write to the backend that needs the buffer.
            ("bgwriter_delay", "10ms"),
            ("bgwriter_lru_maxpages", "1000"),
            ("bgwriter_lru_multiplier", "4"),
            // Spread the checkpoint's writes over all of the interval but what its fsyncs need.
            ("checkpoint_completion_target", "0.9"),
        ],
        ..STOCK
    },
    Contestant {
        name: "pg_calm",
        description: "PostgreSQL as it comes, with the module pg_calm loaded.",
        settings: &[
            ("shared_preload_libraries", "pg_calm"),
            // The lab's clients are superusers, those of applications are not.
        ],
        module: true,
        ..STOCK
    },
    Contestant {
        name: "pg_calm-shadow",
        description: "With pg_calm loaded in shadow mode: it tracks and reports, and does nothing.",
        settings: &[("shared_preload_libraries", "pg_calm"), ("pg_calm.mode", "shadow")],
        module: true,
        ..STOCK
    },
    Contestant {
        name: "pg_calm-off",
        description: "With pg_calm loaded and switched off.",
        settings: &[("shared_preload_libraries", "pg_calm"), ("pg_calm.mode", "off")],
        module: true,
        ..STOCK
    },
    Contestant {
        name: "stock-uncapped",
        description: "PostgreSQL as it comes with the data volume's caps lifted: the rate that the WAL volume allows.",
        data_capped: false,
        ..STOCK
    },
    Contestant {
        name: "stock-twice",
        description: "PostgreSQL as it comes, on volumes with twice the operations per second and no more bandwidth: what money buys.",
        operations: 2,
        ..STOCK
    },
    Contestant {
        name: "flush-none",
        description: "No flush hints at all, by checkpointer, background writer or backends: the kernel's flusher decides.",
        settings: &[("checkpoint_flush_after", "0"), ("bgwriter_flush_after", "0"), ("backend_flush_after", "0")],
        ..STOCK
    },
    Contestant {
        name: "flush-checkpointer",
        description: "Flush hints of the checkpointer alone, each 256 kB.",
        settings: &[("checkpoint_flush_after", "256kB"), ("bgwriter_flush_after", "0"), ("backend_flush_after", "0")],
        ..STOCK
    },
    Contestant {
        name: "flush-checkpointer-8kB",
        description: "Flush hints of the checkpointer alone, after each block that it writes.",
        settings: &[("checkpoint_flush_after", "8kB"), ("bgwriter_flush_after", "0"), ("backend_flush_after", "0")],
        ..STOCK
    },
    Contestant {
        name: "flush-checkpointer-sync",
        description: "Flush hints as stock, but the checkpointer waits at each, 256 kB, until the pages are on the device.",
        settings: &[CHECKPOINTER_FLUSH],
        ..STOCK
    },
    Contestant {
        name: "flush-bgwriter",
        description: "Flush hints of the background writer alone, each 512 kB.",
        settings: &[("checkpoint_flush_after", "0"), ("bgwriter_flush_after", "512kB"), ("backend_flush_after", "0")],
        ..STOCK
    },
    Contestant {
        name: "flush-backend",
        description: "Flush hints of backends alone, each 256 kB.",
        settings: &[("checkpoint_flush_after", "0"), ("bgwriter_flush_after", "0"), ("backend_flush_after", "256kB")],
        ..STOCK
    },
    Contestant {
        name: "flush-all",
        description: "Flush hints of all four, each after 2 MB: for data as seldom as they can be.",
        settings: &[
            ("checkpoint_flush_after", "2MB"),
            ("bgwriter_flush_after", "2MB"),
            ("backend_flush_after", "2MB"),
            ("wal_writer_flush_after", "2MB"),
        ],
        ..STOCK
    },
    Contestant {
        name: "flush-wal-writer",
        description: "The WAL writer flushes each time that it writes; flush hints for data as stock.",
        settings: &[("wal_writer_flush_after", "0")],
        ..STOCK
    },
];

impl Named for Contestant {
    fn name(&self) -> &'static str {
        self.name
    }
}

/// Reads one name, or `NAME+setting=value`: that contestant with settings on top, as one of its own.
///
/// What is made here lives as long as the process, as those do that are declared above.
pub fn parse(text: &str) -> Result<&'static Contestant, String> {
    let Some((base, given)) = text.split_once('+') else {
        return one_of(&CONTESTANTS, "contestant", text);
    };
    let base = one_of(&CONTESTANTS, "contestant", base)?;
    let mut settings = base.settings.to_vec();
    for setting in given.split('+') {
        let ServerSetting { name, value } = setting.parse()?;
        // The name is that of directories, too.
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if value.is_empty() || !value.chars().all(plain) {
            return Err(format!(
                "{setting}: use letters, digits, '.', '_' and '-' here, and --set-contestant for other values"
            ));
        }
        if name == "shared_preload_libraries" {
            return Err(format!("{setting}: name a contestant that has the module, or none of it"));
        }
        settings.retain(|(own, _)| *own != name);
        settings.push((name.leak(), value.leak()));
    }
    Ok(Box::leak(Box::new(Contestant {
        name: text.to_string().leak(),
        description: format!("{} With {}.", base.description, given.replace('+', ", ")).leak(),
        settings: settings.leak(),
        ..*base
    })))
}

/// A server setting given on the command line as `name=value`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSetting {
    /// Parameter.
    pub name: String,
    /// Value, unquoted.
    pub value: String,
}

/// Parameters that the lab sets and depends on.
const OWN: [&str; 12] = [
    "config_file",
    "data_directory",
    "external_pid_file",
    "hba_file",
    "lc_messages",
    "listen_addresses",
    "log_checkpoints",
    "log_destination",
    "log_line_prefix",
    "logging_collector",
    "port",
    "unix_socket_directories",
];

impl fmt::Display for ServerSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.value)
    }
}

impl Serialize for ServerSetting {
    /// As it was given.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for ServerSetting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').ok_or("give name=value, e.g. wal_compression=lz4")?;
        let name = name.trim();
        let well_formed = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.');
        if !well_formed || value.contains(['\n', '\0']) {
            return Err("give name=value, e.g. wal_compression=lz4".to_string());
        }
        let name = name.to_ascii_lowercase();
        if OWN.contains(&name.as_str()) {
            return Err(format!("{name} is set by the lab; leave it out"));
        }
        Ok(Self { name, value: value.to_string() })
    }
}

/// A server setting for one contestant: `CONTESTANT:name=value`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContestantSetting {
    /// Name of the contestant.
    pub contestant: String,
    /// The setting.
    pub setting: ServerSetting,
}

impl Serialize for ContestantSetting {
    /// As it was given.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{}:{}", self.contestant, self.setting))
    }
}

impl FromStr for ContestantSetting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (contestant, setting) =
            text.split_once(':').ok_or("give CONTESTANT:name=value, e.g. stock:wal_compression=lz4")?;
        Ok(Self { contestant: contestant.to_string(), setting: setting.parse()? })
    }
}

/// The settings in which a contestant differs from `stock`, with those given for it on the command line on top.
pub fn settings_of(contestant: &Contestant, given: &[ContestantSetting]) -> BTreeMap<String, String> {
    let mut settings: BTreeMap<String, String> =
        contestant.settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    for ContestantSetting { contestant: name, setting } in given {
        if name == contestant.name {
            settings.insert(setting.name.clone(), setting.value.clone());
        }
    }
    settings
}

/// Fails if a contestant takes part twice, or a setting is for one that doesn't take part.
pub fn check_settings(contestants: &[&'static Contestant], given: &[ContestantSetting]) -> Result<(), Failure> {
    each_once("contestants", contestants)?;
    for setting in given {
        if !contestants.iter().any(|c| c.name == setting.contestant) {
            return Err(Failure::Usage(format!(
                "--set-contestant {}:{}: {} does not take part; name it in --contestants",
                setting.contestant, setting.setting.name, setting.contestant
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_refused_if_malformed_or_the_labs_own() {
        assert_eq!("Work_Mem=64MB".parse(), Ok(ServerSetting { name: "work_mem".into(), value: "64MB".into() }));
        assert!("work_mem".parse::<ServerSetting>().is_err());
        assert!("=1".parse::<ServerSetting>().is_err());
        assert!("a b=1".parse::<ServerSetting>().is_err());
        assert!("a=1\nb=2".parse::<ServerSetting>().is_err());
        let error = "port=5433".parse::<ServerSetting>().unwrap_err();
        assert!(error.contains("port"), "{error}");
    }

    #[test]
    fn a_contestant_can_have_settings_in_its_name() {
        let contestant = parse("pg_calm-shadow+pg_calm.mode=on+commit_delay=400").unwrap();
        assert_eq!(contestant.name, "pg_calm-shadow+pg_calm.mode=on+commit_delay=400");
        assert!(contestant.module && contestant.data_capped);
        let settings = settings_of(contestant, &[]);
        assert_eq!(settings.len(), 3);
        assert_eq!(settings["shared_preload_libraries"], "pg_calm");
        assert_eq!(settings["pg_calm.mode"], "on");
        assert_eq!(settings["commit_delay"], "400");
        let stock = parse("stock").unwrap();
        assert!(check_settings(&[stock, parse("stock+commit_delay=400").unwrap()], &[]).is_ok());
        for (name, expected) in [
            ("stick+commit_delay=400", "no contestant \"stick\""),
            ("stock+", "name=value"),
            ("stock+commit_delay", "name=value"),
            ("stock+commit_delay=", "letters"),
            ("stock+archive_command=../x", "--set-contestant"),
            ("stock+port=5433", "leave it out"),
            ("stock+shared_preload_libraries=pg_calm", "has the module"),
        ] {
            let error = parse(name).unwrap_err();
            assert!(error.contains(expected), "{name}: {error}");
        }
    }

    #[test]
    fn a_contestants_own_settings_can_be_overridden_for_it_alone() {
        let given: ContestantSetting = "stock-tuned:bgwriter_delay=50ms".parse().unwrap();
        let given = [given];
        let list = ["stock", "stock-tuned"].map(|name| parse(name).unwrap());
        assert_eq!(settings_of(list[0], &given), BTreeMap::new());
        assert_eq!(settings_of(list[1], &given)["bgwriter_delay"], "50ms");
        assert!(check_settings(&list, &given).is_ok());
        assert!(check_settings(&list[..1], &given).is_err());
    }
}

//! The ways of running PostgreSQL that are set against each other.

use std::collections::BTreeMap;
use std::str::FromStr;

use crate::LabError;

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
}

/// All that there are.
pub const CONTESTANTS: [Contestant; 6] = [
    Contestant {
        name: "stock",
        description: "PostgreSQL as it comes.",
        settings: &[],
        module: false,
        data_capped: true,
    },
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
        module: false,
        data_capped: true,
    },
    Contestant {
        name: "pg_calm",
        description: "PostgreSQL as it comes, with the module pg_calm loaded.",
        settings: &[("shared_preload_libraries", "pg_calm")],
        module: true,
        data_capped: true,
    },
    Contestant {
        name: "pg_calm-shadow",
        description: "With pg_calm loaded in shadow mode: it tracks and reports, and does nothing.",
        settings: &[
            ("shared_preload_libraries", "pg_calm"),
            ("pg_calm.mode", "shadow"),
        ],
        module: true,
        data_capped: true,
    },
    Contestant {
        name: "pg_calm-off",
        description: "With pg_calm loaded and switched off.",
        settings: &[
            ("shared_preload_libraries", "pg_calm"),
            ("pg_calm.mode", "off"),
        ],
        module: true,
        data_capped: true,
    },
    Contestant {
        name: "stock-uncapped",
        description: "PostgreSQL as it comes with the data volume's caps lifted: the rate that the WAL volume allows.",
        settings: &[],
        module: false,
        data_capped: false,
    },
];

/// The contestants named in a comma-separated list.
pub fn parse_list(text: &str) -> Result<Vec<&'static Contestant>, String> {
    let names = || {
        let names: Vec<_> = CONTESTANTS.iter().map(|c| c.name).collect();
        names.join(", ")
    };
    let mut chosen: Vec<&'static Contestant> = Vec::new();
    for name in text.split(',').map(str::trim) {
        let contestant = CONTESTANTS
            .iter()
            .find(|contestant| contestant.name == name)
            .ok_or_else(|| format!("no contestant {name:?}; choose from {}", names()))?;
        if chosen.contains(&contestant) {
            return Err(format!("{name} is named twice; use --repeat for more runs"));
        }
        chosen.push(contestant);
    }
    Ok(chosen)
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

impl FromStr for ServerSetting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text
            .split_once('=')
            .ok_or("give name=value, e.g. wal_compression=lz4")?;
        let name = name.trim();
        let well_formed = !name.is_empty()
            && name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.');
        if !well_formed || value.contains(['\n', '\0']) {
            return Err("give name=value, e.g. wal_compression=lz4".to_string());
        }
        let name = name.to_ascii_lowercase();
        if OWN.contains(&name.as_str()) {
            return Err(format!("{name} is set by the lab; leave it out"));
        }
        Ok(Self {
            name,
            value: value.to_string(),
        })
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

impl FromStr for ContestantSetting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (contestant, setting) = text
            .split_once(':')
            .ok_or("give CONTESTANT:name=value, e.g. stock:wal_compression=lz4")?;
        Ok(Self {
            contestant: contestant.to_string(),
            setting: setting.parse()?,
        })
    }
}

/// The settings in which a contestant differs from `stock`, with those given for it on the command line on top.
pub fn settings_of(
    contestant: &Contestant,
    given: &[ContestantSetting],
) -> BTreeMap<String, String> {
    let mut settings: BTreeMap<String, String> = contestant
        .settings
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .collect();
    for ContestantSetting {
        contestant: name,
        setting,
    } in given
    {
        if name == contestant.name {
            settings.insert(setting.name.clone(), setting.value.clone());
        }
    }
    settings
}

/// Fails if a setting is for a contestant that doesn't take part.
pub fn check_settings(
    contestants: &[&Contestant],
    given: &[ContestantSetting],
) -> Result<(), LabError> {
    for setting in given {
        if !contestants.iter().any(|c| c.name == setting.contestant) {
            return Err(LabError::Usage(format!(
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
    fn a_list_of_contestants_keeps_its_order_and_refuses_unknown_and_double_names() {
        let names =
            |text| parse_list(text).map(|list| list.iter().map(|c| c.name).collect::<Vec<_>>());
        assert_eq!(names("pg_calm, stock"), Ok(vec!["pg_calm", "stock"]));
        assert!(names("stock,fast").unwrap_err().contains("stock-tuned"));
        assert!(names("stock,stock").unwrap_err().contains("--repeat"));
        assert!(names("").is_err());
    }

    #[test]
    fn settings_are_refused_if_malformed_or_the_labs_own() {
        assert_eq!(
            "Work_Mem=64MB".parse(),
            Ok(ServerSetting {
                name: "work_mem".into(),
                value: "64MB".into()
            })
        );
        assert!("work_mem".parse::<ServerSetting>().is_err());
        assert!("=1".parse::<ServerSetting>().is_err());
        assert!("a b=1".parse::<ServerSetting>().is_err());
        assert!("a=1\nb=2".parse::<ServerSetting>().is_err());
        let error = "port=5433".parse::<ServerSetting>().unwrap_err();
        assert!(error.contains("port"), "{error}");
    }

    #[test]
    fn a_contestants_own_settings_can_be_overridden_for_it_alone() {
        let given: ContestantSetting = "stock-tuned:bgwriter_delay=50ms".parse().unwrap();
        let given = [given];
        let list = parse_list("stock,stock-tuned").unwrap();
        assert_eq!(settings_of(list[0], &given), BTreeMap::new());
        assert_eq!(settings_of(list[1], &given)["bgwriter_delay"], "50ms");
        assert!(check_settings(&list, &given).is_ok());
        assert!(check_settings(&list[..1], &given).is_err());
    }
}

//! What the module is told of the limits: as they are, or wrong. It is settings that a server starts with, so that all there is
//! to play is what the report says.

use std::collections::BTreeMap;

use crate::contest::Options;
use crate::trouble::Ground;
use crate::trouble::play::Play;

/// How the limits are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Truth {
    /// As they are; those of control groups the module finds by itself.
    Whole,
    /// So many percent of them, those of control groups, too.
    Share(u32),
    /// Not at all.
    Nothing,
}

impl Truth {
    /// As asked for by `--trouble`.
    pub(crate) fn of(options: &Options) -> Self {
        options
            .common
            .trouble
            .iter()
            .find_map(|scheduled| match scheduled.trouble.name {
                "caps-told-half" => Some(Self::Share(50)),
                "caps-told-double" => Some(Self::Share(200)),
                "caps-not-told" => Some(Self::Nothing),
                _ => None,
            })
            .unwrap_or(Self::Whole)
    }
}

#[derive(Debug, Default)]
pub(crate) struct CapsTold {
    told: String,
}

impl Play for CapsTold {
    fn prepare(&mut self, ground: &Ground<'_>) -> anyhow::Result<bool> {
        self.told = told(&ground.options.settings_of(ground.contestant));
        Ok(false)
    }

    fn done(&self) -> Option<String> {
        Some(self.told.clone())
    }
}

fn told(settings: &BTreeMap<String, String>) -> String {
    let limits: Vec<String> = settings
        .iter()
        .filter(|(name, _)| name.ends_with("iops") || name.ends_with("bandwidth"))
        .map(|(name, value)| format!("{name} = {value}"))
        .collect();
    if limits.is_empty() { "none is set".to_string() } else { limits.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contestant;
    use crate::options::parsed;

    fn settings(arguments: &[&str], name: &str) -> BTreeMap<String, String> {
        let options: Options = parsed(arguments).unwrap();
        options.check().unwrap();
        options.settings_of(contestant::parse(name).unwrap())
    }

    #[test]
    fn the_module_is_told_a_share_of_the_limits_or_nothing_and_stock_never() {
        let half = ["--volume", "gp3", "--trouble", "caps-told-half"];
        assert_eq!(settings(&half, "pg_calm")["pg_calm.iops"], "1500");
        assert_eq!(settings(&half, "pg_calm")["pg_calm.bandwidth"], "64000kB");
        assert_eq!(settings(&half, "pg_calm")["pg_calm.io_size"], "256kB");
        assert!(!settings(&half, "stock").contains_key("pg_calm.iops"));
        let double = ["--trouble", "caps-told-double"];
        assert_eq!(settings(&double, "pg_calm")["pg_calm.write_iops"], "1600");
        assert_eq!(settings(&double, "pg_calm")["pg_calm.write_bandwidth"], "256000kB");
        let nothing = ["--volume", "gp3", "--trouble", "caps-not-told"];
        let settings = settings(&nothing, "pg_calm");
        assert!(!settings.contains_key("pg_calm.iops"), "{settings:?}");
        assert_eq!(told(&settings), "none is set");
    }
}

use std::collections::BTreeMap;
use std::path::Path;

use crate::contestant::Contestant;

/// The setting that tells instances to share, added when the directory is known.
const DIRECTORY: &str = "pg_calm.arbiter_directory";

/// Name of the one that shares.
const ARBITER: &str = "pg_calm-arbiter";

/// The ways in which all servers are run.
pub const CONTESTANTS: [Contestant; 3] = [
    Contestant {
        name: "stock",
        description: "PostgreSQL as it comes.",
        settings: &[],
        module: false,
        data_capped: true,
    },
    Contestant {
        name: "pg_calm",
        description: "With the module pg_calm loaded; each instance knows its own caps only.",
        settings: &[("shared_preload_libraries", "pg_calm")],
        module: true,
        data_capped: true,
    },
    Contestant {
        name: ARBITER,
        description: "With pg_calm loaded and pg_calm.arbiter_directory set: the instances share the device's budget, \
                      and their timed checkpoints are moved apart.",
        settings: &[("shared_preload_libraries", "pg_calm")],
        module: true,
        data_capped: true,
    },
];

/// The contestants named in a comma-separated list.
pub fn parse_list(text: &str) -> Result<Vec<&'static Contestant>, String> {
    let mut chosen: Vec<&'static Contestant> = Vec::new();
    for name in text.split(',').map(str::trim) {
        let contestant = CONTESTANTS
            .iter()
            .find(|contestant| contestant.name == name)
            .ok_or_else(|| {
                let names: Vec<_> = CONTESTANTS.iter().map(|c| c.name).collect();
                format!("no contestant {name:?}; choose from {}", names.join(", "))
            })?;
        if chosen.contains(&contestant) {
            return Err(format!("{name} is named twice"));
        }
        chosen.push(contestant);
    }
    Ok(chosen)
}

/// Adds the directory of the shared segments for the contestant that has one.
pub(super) fn add_directory(
    contestant: &Contestant,
    directory: &Path,
    settings: &mut BTreeMap<String, String>,
) {
    if contestant.name == ARBITER {
        settings.insert(DIRECTORY.to_string(), directory.display().to_string());
    }
}

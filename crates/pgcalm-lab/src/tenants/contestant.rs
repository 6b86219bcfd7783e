use std::collections::BTreeMap;
use std::path::Path;

use crate::contestant::{Contestant, STOCK};
use crate::options::one_of;

/// The setting that tells instances to share, added when the directory is known.
const DIRECTORY: &str = "pg_calm_share.directory";

/// Name of the one that shares.
const SHARE: &str = "pg_calm-share";

/// The ways in which all servers are run.
pub(super) const CONTESTANTS: [Contestant; 3] = [
    STOCK,
    Contestant {
        name: "pg_calm",
        description: "With the module pg_calm loaded; each instance knows its own caps only.",
        settings: &[("shared_preload_libraries", "pg_calm")],
        module: true,
        ..STOCK
    },
    Contestant {
        name: SHARE,
        description: "With pg_calm and pg_calm_share loaded and pg_calm_share.directory set: the instances share the device's budget, \
                      and their timed checkpoints are moved apart.",
        settings: &[("shared_preload_libraries", "pg_calm, pg_calm_share")],
        module: true,
        ..STOCK
    },
];

/// Reads one name.
pub(super) fn parse(name: &str) -> Result<&'static Contestant, String> {
    one_of(&CONTESTANTS, "contestant", name)
}

/// Adds the directory of the shared segments for the contestant that has one.
pub(super) fn add_directory(contestant: &Contestant, directory: &Path, settings: &mut BTreeMap<String, String>) {
    if contestant.name == SHARE {
        settings.insert(DIRECTORY.to_string(), directory.display().to_string());
    }
}

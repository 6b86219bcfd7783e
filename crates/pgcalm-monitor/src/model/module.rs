//! What pg_calm says about itself: view pg_calm_status.

use serde::{Deserialize, Serialize};

/// pg_calm in a server. Counters start with the server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Module {
    /// `off`, `shadow` or `on`. In `shadow` all figures of what is written are of what would be.
    pub mode: String,
    /// Why less is done than the mode says; `None` if nothing is amiss.
    pub degraded: Option<String>,
    /// Whether the writeback worker runs.
    pub worker_running: bool,
    /// Cap in force: write operations per second; `None` if not capped.
    pub write_operations_cap: Option<u64>,
    /// Cap in force: bytes written per second; `None` if not capped.
    pub write_bytes_cap: Option<u64>,
    /// What reads and writes share: operations per second, as pg_calm.iops tells; `None` if it does not.
    #[serde(default)]
    pub operations_cap: Option<u64>,
    /// Where the caps were found, in the module's words.
    pub caps_source: Option<String>,
    /// Bytes of a contiguous write that count as one operation.
    pub io_size_bytes: Option<u64>,
    /// Dirty pages written back by the worker.
    pub flushed_pages: u64,
    /// Dirty pages left for PostgreSQL's fsync.
    pub fsynced_pages: u64,
    /// Dirty pages that the kernel had written before.
    pub kernel_flushed_pages: u64,
    /// Clean pages written along.
    pub bridged_pages: u64,
    /// Operations of all these writes as the device counts them.
    pub device_operations: u64,
    /// Bytes of all these writes.
    pub written_bytes: u64,
    /// Flush hints of the server that were dropped.
    pub suppressed_hints: u64,
    /// Flushes of WAL by fdatasync or fsync.
    pub wal_flushes: u64,
    /// How long these took, all together.
    pub wal_flush_seconds: f64,
    /// Writes that could not be tracked because pg_calm.page_map_memory was used up.
    pub map_full: u64,
    /// Writeback errors seen by the worker; each ends in PANIC.
    pub errors: u64,
    /// A fast stop; `None` if no cap is known.
    #[serde(default)]
    pub stop_seconds: Option<f64>,
    /// Recovery after a crash; `None` if the server has not recovered since it was started.
    #[serde(default)]
    pub recovery_seconds: Option<f64>,
    /// Checkpoints that were requested for pg_calm.recovery_target.
    #[serde(default)]
    pub target_checkpoints: u64,
    /// What some of these come to per second.
    pub rates: Option<ModuleRates>,
}

/// States that `degraded` can name, and the module's words for them; what fits none is `other`.
const DEGRADED: [(&str, &str); 10] = [
    ("not_flushed", "nothing is flushed: "),
    ("worker_down", "the writeback worker is not running"),
    ("worker_stuck", "the writeback worker does not respond"),
    ("no_cap", "no cap of the data directory's device is known"),
    ("other_devices", "files on other devices than the data directory's"),
    ("map_full", "pg_calm.page_map_memory is too small"),
    ("gives_less", "the device gives less than"),
    ("not_bridged", "gaps are not bridged"),
    ("not_shared", "the device's budget is not shared"),
    ("breaker", "circuit breaker: "),
];

impl Module {
    /// Each state that `degraded` can name, and whether it does.
    pub fn degraded_states(&self) -> impl Iterator<Item = (&'static str, bool)> {
        let text = self.degraded.as_deref().unwrap_or("");
        let other = !text.is_empty() && !DEGRADED.iter().any(|(_, words)| text.contains(words));
        DEGRADED
            .iter()
            .map(move |(state, words)| (*state, text.contains(words)))
            .chain(std::iter::once(("other", other)))
    }
}

/// What the module does per second, between the last two samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ModuleRates {
    /// Dirty pages written back by the worker.
    pub flushed_pages_per_second: f64,
    /// Clean pages written along.
    pub bridged_pages_per_second: f64,
    /// Operations as the device counts them.
    pub device_operations_per_second: f64,
    /// Bytes written.
    pub written_bytes_per_second: f64,
}

/// Pages that are written and not flushed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unflushed {
    /// Of files over 1 MB.
    pub pages: u64,
    /// That the worker is writing back now.
    pub in_flight_pages: u64,
    /// Size of a page (setting block_size).
    pub page_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(degraded: &str) -> Vec<&'static str> {
        let module = Module { degraded: Some(degraded.to_string()), ..Module::default() };
        module.degraded_states().filter_map(|(state, named)| named.then_some(state)).collect()
    }

    #[test]
    fn states_are_told_by_the_modules_words() {
        assert_eq!(
            named(
                "the writeback worker does not respond: the server's flush hints are obeyed, and nothing waits for it; \
                 files on other devices than the data directory's are left as without pg_calm"
            ),
            ["worker_stuck", "other_devices"]
        );
        assert_eq!(named("something new"), ["other"]);
        assert!(Module::default().degraded_states().all(|(_, named)| !named));
    }

    /// The module's sources have these words: who changes them there has to change them here.
    #[test]
    fn words_are_those_of_the_module() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../extension/pg_calm/src/");
        let sources: String = ["status.c", "worker/worker.c", "worker/breaker.c"]
            .iter()
            .map(|name| std::fs::read_to_string(format!("{directory}{name}")).unwrap())
            .collect();
        // strings go on in the next line
        let joined = sources.replace("\"\n", "\"");
        let mut text = String::new();
        for piece in joined.split("\"") {
            if !piece.trim().is_empty() {
                text.push_str(piece);
            }
        }
        for (state, words) in DEGRADED {
            assert!(text.contains(words), "{state}: {words}");
        }
    }
}

//! The results of a suite's rows: one file each, written when its row has ended, so that an interrupted suite goes on
//! where it was.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::{fs, io};

use anyhow::Context;
use pgcalm_host::replacement::{Durability, Replacement};
use pgcalm_host::{HostRoot, replacement};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::chosen::Chosen;
use crate::installation::Installation;
use crate::interrupt::Interrupt;
use crate::load::choice::LoadChoice;
use crate::load::workload;
use crate::{document, host_facts, module};
use pgcalm_host::Failure;

/// What a result was measured with. A row is not run again as long as all of it is the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stamp {
    /// Every option with the value in force, defaults included, as in the report's settings.
    pub options: BTreeMap<String, Value>,
    /// SHA-256 of the files of the load, by their names: a script may be edited.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    /// Version of pgcalm.
    pub pgcalm: String,
    /// SHA-256 of its program, in hexadecimal digits: measuring changes between versions, too. Empty in results that lack it.
    #[serde(default)]
    pub program: String,
    /// Release of the kernel; likewise.
    #[serde(default)]
    pub kernel: String,
    /// `postgres --version`.
    pub server: String,
    /// SHA-256 of the server module, in hexadecimal digits; none if no contestant loads it.
    pub module: Option<String>,
    /// CPUs of the machine; of a result it is the document that says so, as it does of memory.
    #[serde(skip)]
    pub cpus: Option<u32>,
    /// Its memory.
    #[serde(skip)]
    pub memory_mib: Option<u64>,
}

/// A machine is the same with one part in so many of its memory more or less: kernels keep some of it to themselves.
const MEMORY_SHARE: u64 = 100;

impl Stamp {
    /// Of a run with these options that would be made now.
    pub fn of(options: &Chosen, interrupt: &Interrupt) -> anyhow::Result<Self> {
        let common = options.common();
        let installation = Installation::find(&HostRoot::default(), common.pg_bindir.as_deref(), interrupt)?;
        let module = if options.loads_module() {
            let directory = match &common.module_dir {
                Some(directory) => directory.clone(),
                None => installation.module_dir(interrupt)?,
            };
            match module::sum(&directory) {
                Ok(sum) => Some(sum),
                // The run says so, with the way out.
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => {
                    return Err(error).with_context(|| format!("read pg_calm in {}", directory.display()));
                }
            }
        } else {
            None
        };
        let options = options.named();
        let (cpus, memory_mib) = host_facts::machine(&HostRoot::default())?;
        Ok(Self {
            files: sums_of_load(&options),
            options,
            pgcalm: env!("CARGO_PKG_VERSION").to_string(),
            program: own_sum()?.to_string(),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            server: installation.version,
            module,
            cpus: Some(cpus),
            memory_mib: Some(memory_mib),
        })
    }

    /// In which respect `self`, of a result, differs from that of a run now; none if in none.
    pub fn differs_from(&self, now: &Self) -> Option<String> {
        let options = differing(&self.options, &now.options);
        if !options.is_empty() {
            return Some(format!("other options: {}", options.join(", ")));
        }
        let files = differing(&self.files, &now.files);
        if !files.is_empty() {
            return Some(format!("another content of {}", files.join(", ")));
        }
        if self.pgcalm != now.pgcalm {
            return Some(format!("pgcalm {}", self.pgcalm));
        }
        if self.program != now.program {
            return Some("another build of pgcalm".to_string());
        }
        if self.kernel != now.kernel {
            return Some(format!("Linux {}", self.kernel));
        }
        if let (Some(then), Some(now)) = (self.cpus, now.cpus)
            && then != now
        {
            return Some(format!("{then} CPUs"));
        }
        if let (Some(then), Some(now)) = (self.memory_mib, now.memory_mib)
            && then.abs_diff(now) > now / MEMORY_SHARE
        {
            return Some(format!("{then} MiB of memory"));
        }
        if self.server != now.server {
            return Some(self.server.clone());
        }
        (self.module != now.module).then(|| "another build of pg_calm".to_string())
    }
}

/// Names whose values differ, or that only one of both has.
fn differing<'a, V: PartialEq>(then: &'a BTreeMap<String, V>, now: &'a BTreeMap<String, V>) -> Vec<&'a str> {
    let changed = now.iter().filter(|(name, value)| then.get(*name) != Some(*value)).map(|(name, _)| name.as_str());
    let gone = then.keys().filter(|name| !now.contains_key(*name)).map(String::as_str);
    changed.chain(gone).collect()
}

/// SHA-256 of a script that is the load, and of the preparation beside it. Of what can't be read, the run says so.
fn sums_of_load(options: &BTreeMap<String, Value>) -> BTreeMap<String, String> {
    let load = options.get("load").and_then(Value::as_str).map(str::parse::<LoadChoice>);
    let Some(Ok(LoadChoice::Script(script))) = load else { return BTreeMap::new() };
    let preparation = workload::beside(&script);
    [Some(script), preparation]
        .into_iter()
        .flatten()
        .filter_map(|file| Some((file.display().to_string(), module::sum_of_file(&file).ok()?)))
        .collect()
}

/// SHA-256 of this very program, whatever lies in its place since it was started.
fn own_sum() -> anyhow::Result<&'static str> {
    static SUM: OnceLock<String> = OnceLock::new();
    if let Some(sum) = SUM.get() {
        return Ok(sum);
    }
    let sum = module::sum_of_file(Path::new("/proc/self/exe")).context("read the program of this process")?;
    Ok(SUM.get_or_init(|| sum))
}

/// A file of results: the document, as any run writes it, and its stamp beside.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Stamped {
    suite_row: Stamp,
    #[serde(flatten)]
    document: Value,
}

/// A result that is there.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// What it was measured with.
    pub stamp: Stamp,
    /// The result.
    pub document: document::Document,
}

/// The directory with the results.
#[derive(Debug, Clone)]
pub struct Results {
    directory: PathBuf,
}

impl Results {
    /// Where they are or will be.
    pub fn new(directory: &Path) -> Self {
        Self { directory: directory.to_path_buf() }
    }

    /// Makes the directory and fails if nothing can be written there, before a run of minutes is made for it.
    pub fn check(&self) -> Result<(), Failure> {
        let named = |error: io::Error| {
            Failure::Usage(format!(
                "--results {}: {error}; name a directory that can be written",
                self.directory.display()
            ))
        };
        fs::create_dir_all(&self.directory).map_err(named)?;
        let probe = self.directory.join(".pgcalm-probe");
        Replacement::create(probe, 0o600).map(drop).map_err(named)
    }

    /// The file of a row.
    pub fn file(&self, row: &str) -> PathBuf {
        self.directory.join(format!("{row}.json"))
    }

    /// The result of a row. None if there is no file, or one that is no suite's result.
    pub fn find(&self, row: &str) -> anyhow::Result<Option<Found>> {
        let file = self.file(row);
        let text = match fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("read {}", file.display())),
        };
        /// The rest is read as any report is, so that what later versions have added is filled in.
        #[derive(Deserialize)]
        struct Any {
            suite_row: Stamp,
        }
        // A report without a stamp, or of a version whose reports cannot be read any more: as good as none.
        Ok(serde_json::from_str::<Any>(&text).ok().zip(document::read(&text).ok()).map(|(any, document)| {
            let (cpus, memory_mib) = document.host().map(|host| (host.cpus, host.memory_mib)).unzip();
            Found { stamp: Stamp { cpus, memory_mib, ..any.suite_row }, document }
        }))
    }

    /// Puts a result there: whole or, if it fails or the machine does, not at all.
    pub fn put(&self, row: &str, stamp: &Stamp, document: &document::Document) -> anyhow::Result<()> {
        let stamped = Stamped { suite_row: stamp.clone(), document: document.value()? };
        let text = pgcalm_render::json::to_json_pretty(&stamped)?;
        let file = self.file(row);
        let part = self.directory.join(format!(".{row}.json.part"));
        replacement::write(&file, &part, 0o644, text.as_bytes(), Durability::Synced)
            .with_context(|| format!("write {}", file.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp() -> Stamp {
        Stamp {
            options: [("seconds".to_string(), Value::from(60))].into(),
            files: [("mix.sql".to_string(), "ab12".to_string())].into(),
            pgcalm: "0.1.0".into(),
            program: "1234".into(),
            kernel: "6.18".into(),
            server: "PostgreSQL 15.20".into(),
            module: Some("abcd".into()),
            cpus: Some(2),
            memory_mib: Some(1000),
        }
    }

    fn report() -> document::Document {
        let text = r#"{
            "scenario": "checkpoint",
            "host": {
                "kernel": "6.18", "cpus": 2, "memory_mib": 1000, "postgres": "PostgreSQL 15.20", "pgcalm": "0.1.0",
                "started_at": "2026-11-23T22:00:00Z", "sysctls": {}, "cap_mechanism": "none"
            },
            "settings": {"seconds": 60},
            "contestants": [{"name": "stock", "description": "", "server_settings": {}, "runs": []}]
        }"#;
        document::read(text).unwrap()
    }

    #[test]
    fn a_result_comes_back_as_it_was_and_is_still_a_report() {
        let directory = tempfile::tempdir().unwrap();
        let results = Results::new(&directory.path().join("new"));
        results.check().unwrap();
        assert_eq!(results.find("a").unwrap(), None);
        results.put("a", &stamp(), &report()).unwrap();
        let found = results.find("a").unwrap().unwrap();
        assert_eq!((found.stamp, found.document), (stamp(), report()));
        let text = fs::read_to_string(results.file("a")).unwrap();
        assert_eq!(document::read(&text).unwrap(), report());
        let left: Vec<_> = fs::read_dir(directory.path().join("new")).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }

    #[test]
    fn what_is_no_result_of_a_suite_is_none() {
        let directory = tempfile::tempdir().unwrap();
        let results = Results::new(directory.path());
        let text = pgcalm_render::json::to_json_pretty(&report().value().unwrap()).unwrap();
        for text in ["", "{", &text] {
            fs::write(results.file("a"), text).unwrap();
            assert_eq!(results.find("a").unwrap(), None);
        }
    }

    #[test]
    fn differences_are_named() {
        let changed = |change: fn(&mut Stamp)| {
            let mut now = stamp();
            change(&mut now);
            stamp().differs_from(&now)
        };
        assert_eq!(changed(|_| {}), None);
        type Change = fn(&mut Stamp);
        assert_eq!(changed(|now| now.memory_mib = Some(1009)), None);
        let cases: [(Change, &str); 11] = [
            (
                |now| {
                    now.options.insert("seconds".into(), 90.into());
                },
                "other options: seconds",
            ),
            (
                |now| {
                    now.options.clear();
                },
                "other options: seconds",
            ),
            (
                |now| {
                    now.files.insert("mix.sql".into(), "cd34".into());
                },
                "another content of mix.sql",
            ),
            (
                |now| {
                    now.files.insert("mix.prepare.sql".into(), "ab12".into());
                },
                "another content of mix.prepare.sql",
            ),
            (|now| now.cpus = Some(8), "2 CPUs"),
            (|now| now.memory_mib = Some(900), "1000 MiB of memory"),
            (|now| now.pgcalm = "0.2.0".into(), "pgcalm 0.1.0"),
            (|now| now.program = "5678".into(), "another build of pgcalm"),
            (|now| now.kernel = "6.12".into(), "Linux 6.18"),
            (|now| now.server = "PostgreSQL 17".into(), "PostgreSQL 15.20"),
            (|now| now.module = None, "another build of pg_calm"),
        ];
        for (change, expected) in cases {
            assert_eq!(changed(change).as_deref(), Some(expected));
        }
    }

    #[test]
    fn a_result_that_does_not_say_what_measured_it_is_of_another_build() {
        let mut old = serde_json::to_value(stamp()).unwrap();
        for name in ["program", "kernel"] {
            old.as_object_mut().unwrap().remove(name).unwrap();
        }
        let old: Stamp = serde_json::from_value(old).unwrap();
        assert_eq!(old.differs_from(&stamp()).as_deref(), Some("another build of pgcalm"));
        assert_eq!(own_sum().unwrap(), module::sum_of_file(&std::env::current_exe().unwrap()).unwrap());
    }

    #[test]
    fn a_stamp_has_the_text_of_a_script_and_of_its_preparation() {
        let directory = tempfile::tempdir().unwrap();
        let script = directory.path().join("mix.sql");
        let of = |load: &str| sums_of_load(&[("load".to_string(), Value::from(load))].into());
        let of_script = || of(script.to_str().unwrap());
        fs::write(&script, "select 1;").unwrap();
        let first = of_script();
        assert_eq!(first.len(), 1, "{first:?}");
        fs::write(&script, "select 2;").unwrap();
        let second = of_script();
        assert_ne!(first, second);
        fs::write(directory.path().join("mix.prepare.sql"), "create table a ();").unwrap();
        assert_eq!(of_script().len(), 2);
        assert_eq!(of("tpcb"), BTreeMap::new());
    }

    #[test]
    fn a_stamp_without_files_is_done_where_the_load_has_none() {
        let mut now = stamp();
        let mut old = serde_json::to_value(&now).unwrap();
        old.as_object_mut().unwrap().remove("files").unwrap();
        let old: Stamp = serde_json::from_value(old).unwrap();
        assert_eq!(old.differs_from(&now).as_deref(), Some("another content of mix.sql"));
        now.files.clear();
        assert_eq!(old.differs_from(&now), None);
    }

    #[test]
    fn a_directory_that_cannot_be_written_is_named() {
        let error = Results::new(Path::new("/proc/none")).check().unwrap_err().to_string();
        assert!(error.starts_with("--results /proc/none: "), "{error}");
    }
}

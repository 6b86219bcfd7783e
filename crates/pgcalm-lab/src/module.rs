//! The server module and the libraries beside it: where they are, and what they say of themselves.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::Context;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::installation::Installation;
use crate::interrupt::Interrupt;
use pgcalm_host::Failure;

/// Without it there is nothing to load.
const LIBRARY: &str = "pg_calm.so";

/// The module, and the libraries that can be loaded beside it: each is an extension of that name.
const EXTENSIONS: [&str; 4] = ["pg_calm", "pg_calm_archive", "pg_calm_guard", "pg_calm_share"];

/// The module that servers load, and the libraries beside it.
#[derive(Debug)]
pub(crate) struct Module {
    /// Where it was built, if it is not to be the installed one.
    source: Option<PathBuf>,
    /// What creates the SQL functions of each extension.
    create: Vec<(&'static str, String)>,
    /// Where servers find it, if not among their own.
    directory: Option<PathBuf>,
    /// SHA-256 of all, in hexadecimal digits.
    pub sum: String,
}

/// SHA-256 of the module in `directory` and the libraries beside it, in hexadecimal digits; not found if there is none.
pub(crate) fn sum(directory: &Path) -> io::Result<String> {
    let mut digest = Sha256::new();
    digest.update(fs::read(directory.join(LIBRARY))?);
    for library in libraries(directory).filter(|library| library != LIBRARY) {
        digest.update(fs::read(directory.join(library))?);
    }
    Ok(in_digits(digest))
}

/// SHA-256 of a file, in hexadecimal digits.
pub(crate) fn sum_of_file(file: &Path) -> io::Result<String> {
    let mut digest = Sha256::new();
    digest.update(fs::read(file)?);
    Ok(in_digits(digest))
}

fn in_digits(digest: Sha256) -> String {
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Those that are there.
fn libraries(directory: &Path) -> impl Iterator<Item = String> {
    EXTENSIONS.iter().map(|name| format!("{name}.so")).filter(|library| directory.join(library).exists())
}

impl Module {
    /// Takes the one in `directory`, or the installed one.
    pub(crate) fn find(
        directory: Option<&Path>,
        installation: &Installation,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Self> {
        let Some(directory) = directory else {
            let directory = installation.module_dir(interrupt)?;
            let file = directory.join(LIBRARY);
            if !file.exists() {
                anyhow::bail!(Failure::Host(format!(
                    "{} not found: run make install in extension/pg_calm, or name its directory with --module-dir",
                    file.display()
                )));
            }
            return Ok(Self {
                source: None,
                create: EXTENSIONS.map(|name| (name, format!("create extension {name}"))).to_vec(),
                directory: None,
                sum: sum(&directory).context("read the module")?,
            });
        };
        let usage = |what: &str| {
            Failure::Usage(format!(
                "--module-dir {}: {what}; name the directory in which pg_calm was built",
                directory.display()
            ))
        };
        if !directory.join(LIBRARY).exists() {
            return Err(usage(&format!("no {LIBRARY} there")).into());
        }
        let mut create = Vec::new();
        for name in EXTENSIONS {
            let script = fs::read_dir(directory)?
                .filter_map(|entry| Some(entry.ok()?.path()))
                .filter(|path| is_install_script(path, name))
                .max()
                .ok_or_else(|| usage(&format!("no {name}--VERSION.sql there")))?;
            create.push((name, fs::read_to_string(&script).with_context(|| format!("read {}", script.display()))?));
        }
        Ok(Self {
            source: Some(directory.to_path_buf()),
            create,
            directory: None,
            sum: sum(directory).context("read the module")?,
        })
    }

    /// Copies it to `place`, where servers can read it whatever directory it was built in, and where it stays the same
    /// until the end of the run. The installed one stays where it is.
    pub(crate) fn settle(&mut self, place: &Path) -> anyhow::Result<()> {
        if let Some(source) = &self.source {
            for library in libraries(source) {
                let source = source.join(&library);
                fs::copy(&source, place.join(&library))
                    .with_context(|| format!("copy {} to {}", source.display(), place.display()))?;
            }
            for (name, script) in &mut self.create {
                *script = as_plain_sql(script, &place.join(*name));
            }
            self.directory = Some(place.to_path_buf());
        }
        Ok(())
    }

    /// Settings by which the server finds it.
    pub(crate) fn settings(&self) -> Option<(String, String)> {
        let directory = self.directory.as_ref()?;
        Some(("dynamic_library_path".to_string(), format!("{}:$libdir", directory.display())))
    }

    /// SQL that creates functions and views of what a server has loaded, by its shared_preload_libraries.
    pub(crate) fn create(&self, loaded: &str) -> String {
        let is_loaded = |name: &str| loaded.split(',').any(|library| library.trim().trim_matches('"') == name);
        let scripts = self.create.iter().filter(|(name, _)| is_loaded(name));
        scripts.map(|(_, script)| format!("{script};\n")).collect()
    }

    /// `pg_calm_status`.
    pub(crate) fn status(client: &mut pgcalm_postgres::Client) -> anyhow::Result<BTreeMap<String, Value>> {
        let row = client.query_one("select row_to_json(s)::text from pg_calm_status s", &[])?;
        let text: String = row.try_get(0)?;
        serde_json::from_str(&text).context("read pg_calm_status")
    }
}

/// `pg_calm--0.1.sql`, and not `pg_calm--0.1--0.2.sql`.
fn is_install_script(path: &Path, extension: &str) -> bool {
    path.file_name()
        .and_then(|name| name.to_str()?.strip_prefix(extension)?.strip_prefix("--")?.strip_suffix(".sql"))
        .is_some_and(|version| !version.contains("--"))
}

/// What CREATE EXTENSION would make of the script.
fn as_plain_sql(script: &str, library: &Path) -> String {
    let library = library.display().to_string().replace('\'', "''");
    script
        .lines()
        .filter(|line| !line.starts_with('\\'))
        .map(|line| line.replace("MODULE_PATHNAME", &library) + "\n")
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_install_script_is_told_from_an_upgrade() {
        assert!(is_install_script(Path::new("/a/pg_calm--0.1.sql"), "pg_calm"));
        assert!(!is_install_script(Path::new("/a/pg_calm--0.1--0.2.sql"), "pg_calm"));
        assert!(!is_install_script(Path::new("/a/pg_calm_archive--0.1.sql"), "pg_calm"));
        assert!(!is_install_script(Path::new("/a/pg_calm.control"), "pg_calm"));
    }

    #[test]
    fn the_script_becomes_plain_sql() {
        assert_eq!(
            as_plain_sql("\\echo no \\quit\nas 'MODULE_PATHNAME', 'f';\n", Path::new("/d/pg_calm")),
            "as '/d/pg_calm', 'f';\n"
        );
    }

    #[test]
    fn without_the_module_there_is_no_sum() {
        let directory = tempfile::tempdir().expect("a directory");
        fs::write(directory.path().join("pg_calm_guard.so"), "guard").expect("a library");
        assert_eq!(sum(directory.path()).map_err(|error| error.kind()), Err(io::ErrorKind::NotFound));
    }
}

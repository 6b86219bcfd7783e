//! The server module: where it is, and what it says of itself.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::path::PathBuf;

use anyhow::Context;
use serde_json::Value;
use sha2::Digest;
use sha2::Sha256;

use crate::installation::Installation;
use crate::interrupt::Interrupt;
use pgcalm_host::Failure;

const LIBRARY: &str = "pg_calm.so";

/// The module that servers load.
#[derive(Debug)]
pub struct Module {
    /// Where it was built, if it is not to be the installed one.
    source: Option<PathBuf>,
    /// What creates its SQL functions.
    create: String,
    /// Where servers find it, if not among their own.
    directory: Option<PathBuf>,
    /// SHA-256 of it, in hexadecimal digits.
    pub sum: String,
}

/// SHA-256 of the module in `directory`, in hexadecimal digits.
pub(crate) fn sum(directory: &Path) -> io::Result<String> {
    let bytes = fs::read(directory.join(LIBRARY))?;
    let digest = Sha256::digest(&bytes);
    Ok(digest.iter().map(|byte| format!("{byte:02x}")).collect())
}

impl Module {
    /// Takes the one in `directory`, or the installed one.
    pub fn find(directory: Option<&Path>, installation: &Installation, interrupt: &Interrupt) -> anyhow::Result<Self> {
        let Some(directory) = directory else {
            let file = installation.module_dir(interrupt)?.join(LIBRARY);
            if !file.exists() {
                return Err(Failure::Host(format!(
                    "{} not found: run make install in extension/pg_calm, or name its directory with --module-dir",
                    file.display()
                ))
                .into());
            }
            return Ok(Self {
                source: None,
                create: "create extension pg_calm".to_string(),
                directory: None,
                sum: sum(&installation.module_dir(interrupt)?).context("read the module")?,
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
        let script = fs::read_dir(directory)?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| is_install_script(path))
            .max()
            .ok_or_else(|| usage("no pg_calm--VERSION.sql there"))?;
        Ok(Self {
            source: Some(directory.to_path_buf()),
            create: fs::read_to_string(&script).with_context(|| format!("read {}", script.display()))?,
            directory: None,
            sum: sum(directory).context("read the module")?,
        })
    }

    /// Copies it to `place`, where servers can read it whatever directory it was built in, and where it stays the same
    /// until the end of the run. The installed one stays where it is.
    pub fn settle(&mut self, place: &Path) -> anyhow::Result<()> {
        if let Some(source) = &self.source {
            let source = source.join(LIBRARY);
            fs::copy(&source, place.join(LIBRARY))
                .with_context(|| format!("copy {} to {}", source.display(), place.display()))?;
            self.create = as_plain_sql(&self.create, &place.join("pg_calm"));
            self.directory = Some(place.to_path_buf());
        }
        Ok(())
    }

    /// Settings by which the server finds it.
    pub fn settings(&self) -> Option<(String, String)> {
        let directory = self.directory.as_ref()?;
        Some(("dynamic_library_path".to_string(), format!("{}:$libdir", directory.display())))
    }

    /// SQL that creates its functions and views.
    pub fn create(&self) -> &str {
        &self.create
    }

    /// `pg_calm_status`.
    pub fn status(client: &mut pgcalm_connect::Client) -> anyhow::Result<BTreeMap<String, Value>> {
        let row = client.query_one("select row_to_json(s)::text from pg_calm_status s", &[])?;
        let text: String = row.try_get(0)?;
        serde_json::from_str(&text).context("read pg_calm_status")
    }
}

/// `pg_calm--0.1.sql`, and not `pg_calm--0.1--0.2.sql`.
fn is_install_script(path: &Path) -> bool {
    path.file_name()
        .and_then(|name| name.to_str()?.strip_prefix("pg_calm--")?.strip_suffix(".sql"))
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
        assert!(is_install_script(Path::new("/a/pg_calm--0.1.sql")));
        assert!(!is_install_script(Path::new("/a/pg_calm--0.1--0.2.sql")));
        assert!(!is_install_script(Path::new("/a/pg_calm.control")));
    }

    #[test]
    fn the_script_becomes_plain_sql() {
        assert_eq!(
            as_plain_sql("\\echo no \\quit\nas 'MODULE_PATHNAME', 'f';\n", Path::new("/d/pg_calm")),
            "as '/d/pg_calm', 'f';\n"
        );
    }
}

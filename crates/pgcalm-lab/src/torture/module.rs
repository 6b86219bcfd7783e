//! The server module: where it is, and what it says of itself.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

use anyhow::Context;
use serde_json::Value;

use crate::LabError;
use crate::installation::Installation;
use crate::interrupt::Interrupt;

/// The module that servers load.
#[derive(Debug)]
pub struct Module {
    /// What creates its SQL functions.
    create: String,
    /// Where it is, if not among the server's own.
    directory: Option<PathBuf>,
}

impl Module {
    /// Takes the one in `directory`, or the installed one.
    pub fn find(
        directory: Option<&Path>,
        installation: &Installation,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Self> {
        let Some(directory) = directory else {
            let file = installation.module_dir(interrupt)?.join("pg_calm.so");
            if !file.exists() {
                return Err(LabError::Host(format!(
                    "{} not found: run make install in extension/pg_calm, or name its directory with --module-dir",
                    file.display()
                ))
                .into());
            }
            return Ok(Self {
                create: "create extension pg_calm".to_string(),
                directory: None,
            });
        };
        let usage = |what: &str| {
            LabError::Usage(format!(
                "--module-dir {}: {what}; name the directory in which pg_calm was built",
                directory.display()
            ))
        };
        let directory = directory
            .canonicalize()
            .map_err(|error| usage(&error.to_string()))?;
        if !directory.join("pg_calm.so").exists() {
            return Err(usage("no pg_calm.so there").into());
        }
        let script = fs::read_dir(&directory)?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| is_install_script(path))
            .max()
            .ok_or_else(|| usage("no pg_calm--VERSION.sql there"))?;
        let script =
            fs::read_to_string(&script).with_context(|| format!("read {}", script.display()))?;
        Ok(Self {
            create: as_plain_sql(&script, &directory.join("pg_calm")),
            directory: Some(directory),
        })
    }

    /// Settings by which the server finds it.
    pub fn settings(&self) -> Option<(String, String)> {
        let directory = self.directory.as_ref()?;
        Some((
            "dynamic_library_path".to_string(),
            format!("{}:$libdir", directory.display()),
        ))
    }

    /// Creates its functions and views.
    pub fn create(&self, client: &mut postgres::Client) -> Result<(), postgres::Error> {
        client.batch_execute(&self.create)
    }

    /// `pg_calm_status`.
    pub fn status(client: &mut postgres::Client) -> anyhow::Result<BTreeMap<String, Value>> {
        let row = client.query_one("select row_to_json(s)::text from pg_calm_status s", &[])?;
        let text: String = row.try_get(0)?;
        serde_json::from_str(&text).context("read pg_calm_status")
    }
}

/// `pg_calm--0.1.sql`, and not `pg_calm--0.1--0.2.sql`.
fn is_install_script(path: &Path) -> bool {
    path.file_name()
        .and_then(|name| {
            name.to_str()?
                .strip_prefix("pg_calm--")?
                .strip_suffix(".sql")
        })
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
            as_plain_sql(
                "\\echo no \\quit\nas 'MODULE_PATHNAME', 'f';\n",
                Path::new("/d/pg_calm")
            ),
            "as '/d/pg_calm', 'f';\n"
        );
    }
}

//! What is loaded into a server ahead of the C library, for ways of running PostgreSQL that no setting of its own has.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::installation::Installation;
use crate::interrupt::Interrupt;
use crate::{shared_file, tool};

/// The lab's own setting, which the server keeps and does not know: `wait` makes the checkpointer's flush hints synchronous.
pub(crate) const CHECKPOINTER_FLUSH: (&str, &str) = ("lab.checkpointer_flush", "wait");

const SYNCHRONOUS_FLUSH: &str = include_str!("../../../bench/shims/synchronous_flush.c");

/// The library that a server with these settings wants, compiled in `directory` as the servers' user.
pub(crate) fn library(
    settings: &BTreeMap<String, String>,
    directory: &Path,
    installation: &Installation,
    interrupt: &Interrupt,
) -> anyhow::Result<Option<PathBuf>> {
    let (name, value) = CHECKPOINTER_FLUSH;
    if settings.get(name).is_none_or(|given| given != value) {
        return Ok(None);
    }
    let source = directory.join("synchronous_flush.c");
    // Whatever root's umask is, the compiler is to read it.
    shared_file::write(&source, SYNCHRONOUS_FLUSH)
        .and_then(|()| shared_file::give(&source, installation))
        .with_context(|| format!("write {}", source.display()))?;
    let library = source.with_extension("so");
    let mut compiler = tool::command("cc");
    installation.run_as(&mut compiler, directory);
    compiler.args(["-shared", "-fPIC", "-O2", "-o"]).arg(&library).arg(&source);
    tool::run(&mut compiler, interrupt).with_context(|| format!("{name}={value}"))?;
    Ok(Some(library))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use super::*;

    #[test]
    fn the_checkpointer_alone_waits_for_what_it_flushes() {
        let dir = tempfile::tempdir().unwrap();
        let installation = Installation::for_test(nix::unistd::getuid().as_raw(), nix::unistd::getgid().as_raw());
        let made = |settings: &BTreeMap<String, String>| {
            library(settings, dir.path(), &installation, &Interrupt::default()).unwrap()
        };
        let (name, value) = CHECKPOINTER_FLUSH;
        assert_eq!(made(&BTreeMap::from([(name.into(), "on".into())])), None);
        let library = made(&BTreeMap::from([(name.into(), value.into())])).unwrap();
        assert!(library.exists());

        // The same source, with the system call replaced by one that tells its flags.
        let main = "#define _GNU_SOURCE\n#include <fcntl.h>\n#include <stdarg.h>\n#include <stdio.h>\n\
            long seen(long n, ...) { va_list a; va_start(a, n); va_arg(a, int); va_arg(a, long); va_arg(a, long);\n\
            printf(\"%u\", va_arg(a, unsigned)); va_end(a); return 0; }\n\
            int main(void) { return sync_file_range(0, 0, 0, SYNC_FILE_RANGE_WRITE); }\n";
        std::fs::write(dir.path().join("main.c"), main).unwrap();
        let program = dir.path().join("main");
        let arguments = ["-Dsyscall=seen", "-o", "main", "main.c", "synchronous_flush.c"];
        let compiled = Command::new("cc").current_dir(dir.path()).args(arguments).status().unwrap();
        assert!(compiled.success());
        for (title, flags) in [
            ("postgres: checkpointer ", "7"),
            ("postgres: lab: checkpointer ", "7"),
            ("postgres: background writer ", "2"),
            ("/usr/bin/postgres -D checkpointer", "2"),
        ] {
            let output = Command::new(&program).arg0(title).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout), flags, "{title}");
        }
    }
}

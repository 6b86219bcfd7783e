use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::stage::Stage;
use crate::template::for_each_file;
use crate::tool;
use crate::trouble::play::Play;
use crate::trouble::program::{Program, Start, amount};
use crate::trouble::{Before, Ground, Trouble};

const NAMES: [&str; 2] = ["files-read-before-start", "files-read-after-start"];

/// Whether it takes the place of `--warm`.
pub(crate) fn reads_files(trouble: &Trouble) -> bool {
    NAMES.contains(&trouble.name)
}

pub(crate) fn before_start() -> Box<dyn Play> {
    Box::new(FilesRead { before: true, bytes: 0, program: None })
}

pub(crate) fn after_start() -> Box<dyn Play> {
    Box::new(FilesRead { before: false, bytes: 0, program: None })
}

#[derive(Debug)]
struct FilesRead {
    before: bool,
    /// Of the files, once they have been read.
    bytes: u64,
    program: Option<Program>,
}

impl Play for FilesRead {
    fn before_start(&mut self, before: &Before<'_>) -> anyhow::Result<()> {
        if !self.before {
            return Ok(());
        }
        let stage = before.stage;
        let (command, bytes) = cat(before.cluster)?;
        let mut program = start(stage, command, NAMES[0])?;
        before.devices.admit_to_memory(program.pid())?;
        while !program.has_ended()? {
            stage.progress.status("cat reads the data files");
            stage.interrupt.sleep(Duration::from_millis(50))?;
        }
        self.bytes = bytes;
        Ok(())
    }

    fn begin(&mut self, ground: &Ground<'_>, _left: Duration) -> anyhow::Result<()> {
        let (command, bytes) = cat(ground.cluster)?;
        let program = start(ground.stage, command, NAMES[1])?;
        ground.devices.admit_beside(ground.options, program.pid())?;
        self.program = Some(program);
        self.bytes = bytes;
        Ok(())
    }

    fn is_over(&mut self, _ground: &Ground<'_>) -> anyhow::Result<bool> {
        match &mut self.program {
            Some(program) => program.has_ended(),
            None => Ok(true),
        }
    }

    fn end(&mut self, _ground: &Ground<'_>) -> anyhow::Result<()> {
        self.program = None;
        Ok(())
    }

    fn done(&self) -> Option<String> {
        Some(amount("files of", self.bytes))
    }
}

fn start(stage: &Stage<'_>, command: Command, mark: &str) -> anyhow::Result<Program> {
    Program::start(&stage.journal, &stage.dir.run(), mark, Start::of(command))
}

/// cat of all tables and indexes of the cluster, and their bytes. What it prints is thrown away.
fn cat(cluster: &Path) -> anyhow::Result<(Command, u64)> {
    let mut files: Vec<PathBuf> = Vec::new();
    let mut bytes = 0;
    for_each_file(&cluster.join("base"), &mut |file| {
        bytes += file.metadata()?.len();
        files.push(file.to_path_buf());
        Ok(())
    })?;
    let mut command = tool::command("cat");
    command.args(files).current_dir("/");
    Ok((command, bytes))
}

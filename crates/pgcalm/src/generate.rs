//! Man pages and shell completions, from the same definitions as --help: made when packages are built, never committed.

use std::fs;

use anyhow::Context;
use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Cli;
use crate::args::generate::GenerateArgs;

/// Whatever a shell is started with is no name of a file: these are the ones that Debian's packages of the shells read.
const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Fish];

pub fn run(args: &GenerateArgs) -> anyhow::Result<()> {
    if let Some(directory) = &args.man {
        fs::create_dir_all(directory)
            .and_then(|()| clap_mangen::generate_to(Cli::command(), directory))
            .with_context(|| format!("write man pages into {}", directory.display()))?;
    }
    if let Some(directory) = &args.completions {
        let context = || format!("write completions into {}", directory.display());
        fs::create_dir_all(directory).with_context(context)?;
        for shell in SHELLS {
            clap_complete::generate_to(shell, &mut Cli::command(), "pgcalm", directory)
                .with_context(context)?;
        }
    }
    Ok(())
}

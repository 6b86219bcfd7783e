//! Man pages and shell completions, from the same definitions as --help: made when packages are built, never committed.

use std::fs;

use anyhow::Context;
use clap::Command;
use clap_complete::Shell;

use crate::args;
use crate::args::generate::GenerateArgs;

/// Whatever a shell is started with is no name of a file: these are the ones that Debian's packages of the shells read.
const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Fish];

/// Man pages have what comes after a help, but not what comes before it.
fn with_examples(command: Command) -> Command {
    let texts = [command.get_before_help(), command.get_after_help()];
    let text = texts.into_iter().flatten().map(ToString::to_string).collect::<Vec<_>>().join("\n\n");
    command.after_help(text).mut_subcommands(with_examples)
}

pub(crate) fn run(options: &GenerateArgs) -> anyhow::Result<()> {
    if let Some(directory) = &options.man {
        fs::create_dir_all(directory)
            .and_then(|()| clap_mangen::generate_to(with_examples(args::command()), directory))
            .with_context(|| format!("write man pages into {}", directory.display()))?;
    }
    if let Some(directory) = &options.completions {
        let context = || format!("write completions into {}", directory.display());
        fs::create_dir_all(directory).with_context(context)?;
        for shell in SHELLS {
            clap_complete::generate_to(shell, &mut args::command(), "pgcalm", directory).with_context(context)?;
        }
    }
    Ok(())
}

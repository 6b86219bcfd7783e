//! Man pages and shell completions, from the same definitions as --help: made when packages are built, never committed.

use std::path::Path;
use std::{fs, io};

use anyhow::Context;
use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::args;
use crate::args::generate::GenerateArgs;

/// Whatever a shell is started with is no name of a file: these are the ones that Debian's packages of the shells read.
const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Fish];

/// Writes the pages of a command that is built, and of those below it.
fn write_pages(command: &Command, directory: &Path) -> io::Result<()> {
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        write_pages(verb, directory)?;
    }
    // It would be one paragraph, EXTRA.
    let man = Man::new(command.clone().after_help(None::<&str>));
    let mut page: Vec<u8> = Vec::new();
    man.render(&mut page)?;
    page.extend_from_slice(sections(command).as_bytes());
    fs::write(directory.join(man.get_filename()), page)
}

/// What stands around a help, in sections: the lists after it by their headings, and the example before it.
fn sections(command: &Command) -> String {
    let mut page = Roff::new();
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    for list in after.split("\n\n") {
        let (heading, lines) = list.split_once(":\n").unwrap_or(("Notes", list));
        let heading = match heading {
            "Exit codes" => "EXIT STATUS".to_string(),
            other => other.to_uppercase(),
        };
        page.control("SH", [heading.as_str()]);
        for line in lines.lines().map(str::trim) {
            match line.split_once("  ") {
                Some((name, meaning)) => {
                    page.control("TP", []).text([bold(name)]).text([roman(meaning.trim_start())]);
                }
                None => {
                    page.control("PP", []).text([bold(line)]);
                }
            }
        }
    }
    if let Some(before) = command.get_before_help() {
        let before = before.to_string();
        let example = before.strip_prefix("Example: ").unwrap_or(before.as_str());
        page.control("SH", ["EXAMPLES"]).text([bold(example)]);
    }
    // What each document begins with is at the page's beginning.
    let text = page.render();
    text.split_once(".SH").map_or(String::new(), |(_, sections)| format!(".SH{sections}"))
}

pub(crate) fn run(options: &GenerateArgs) -> anyhow::Result<()> {
    if let Some(directory) = &options.man {
        let mut command = args::command().disable_help_subcommand(true);
        command.build();
        fs::create_dir_all(directory)
            .and_then(|()| write_pages(&command, directory))
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

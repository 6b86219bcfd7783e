use std::path::PathBuf;

use clap::Args;

/// Of the hidden verb that the packaging calls.
#[derive(Debug, Args)]
pub struct GenerateArgs {
    /// Write man pages into this directory, one per verb.
    #[arg(long, value_name = "DIR", required_unless_present = "completions")]
    pub man: Option<PathBuf>,
    /// Write completions for bash, zsh and fish into this directory.
    #[arg(long, value_name = "DIR")]
    pub completions: Option<PathBuf>,
}

/// What man pages, completions and --help show comes from the same place, so that none of them can lack a verb.
#[cfg(test)]
mod tests {
    use clap::Command;
    use clap::CommandFactory;

    use crate::args::Cli;

    /// Names of the verbs and options below `command` that have no help.
    fn undocumented(command: &Command, path: &str, found: &mut Vec<String>) {
        if command.get_about().is_none() {
            found.push(path.to_string());
        }
        for argument in command.get_arguments() {
            if argument
                .get_help()
                .is_none_or(|help| help.to_string().trim().is_empty())
            {
                found.push(format!("{path} {}", argument.get_id()));
            }
        }
        for verb in command.get_subcommands() {
            undocumented(verb, &format!("{path} {}", verb.get_name()), found);
        }
    }

    #[test]
    fn every_verb_and_option_has_help() {
        let mut command = Cli::command();
        command.build();
        let mut found = Vec::new();
        undocumented(&command, "pgcalm", &mut found);
        assert_eq!(found, Vec::<String>::new(), "without help text");
    }
}

use std::path::PathBuf;

use clap::Args;

/// Of the hidden verb that the packaging calls.
#[derive(Debug, Args)]
pub(crate) struct GenerateArgs {
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

    use crate::args;

    /// Names of the verbs and options below `command` that have no help.
    fn undocumented(command: &Command, path: &str, found: &mut Vec<String>) {
        if command.get_about().is_none() {
            found.push(path.to_string());
        }
        for argument in command.get_arguments() {
            if argument.get_help().is_none_or(|help| help.to_string().trim().is_empty()) {
                found.push(format!("{path} {}", argument.get_id()));
            }
        }
        for verb in command.get_subcommands() {
            undocumented(verb, &format!("{path} {}", verb.get_name()), found);
        }
    }

    #[test]
    fn every_verb_and_option_has_help() {
        let mut command = args::command();
        command.build();
        let mut found = Vec::new();
        undocumented(&command, "pgcalm", &mut found);
        assert_eq!(found, Vec::<String>::new(), "without help text");
    }
    /// All verbs that are shown, with their names in full.
    fn shown<'a>(command: &'a Command, path: &str, found: &mut Vec<(String, &'a Command)>) {
        if command.is_hide_set() || command.get_name() == "help" {
            return;
        }
        found.push((path.to_string(), command));
        for verb in command.get_subcommands() {
            shown(verb, &format!("{path} {}", verb.get_name()), found);
        }
    }

    #[test]
    fn every_help_begins_with_an_example_that_the_program_takes() {
        let mut command = args::command();
        command.build();
        let mut found = Vec::new();
        shown(&command, "pgcalm", &mut found);
        assert!(found.len() > 25, "{}", found.len());
        for (path, verb) in found {
            let help = verb.clone().render_long_help().to_string();
            let example = help.lines().next().unwrap_or_default();
            let example = example.strip_prefix("Example: ").unwrap_or_else(|| panic!("{path}: {example}"));
            let words = example.strip_prefix("sudo ").unwrap_or(example);
            assert!(words.starts_with(&path), "{path}: {example}");
            let parsed = args::command().try_get_matches_from(words.split(' '));
            assert!(parsed.is_ok(), "{path}: {}", parsed.unwrap_err());
        }
    }

    /// What an option means is said once, so that it means the same in every verb.
    #[test]
    fn an_option_is_the_same_in_every_verb() {
        let mut command = args::command();
        command.build();
        let mut found = Vec::new();
        shown(&command, "pgcalm", &mut found);
        for option in [
            "json",
            "instance",
            "connect",
            "iops",
            "bandwidth",
            "write-iops",
            "write-bandwidth",
            "plan",
            "apply",
            "yes",
            "fail-on",
            "duration",
            "interval",
        ] {
            let mut takes = Vec::new();
            for (path, verb) in &found {
                for argument in verb.get_arguments() {
                    if argument.get_long() == Some(option) {
                        let values = argument.get_value_names().unwrap_or_default();
                        let mut values = format!("{values:?}");
                        // `pgcalm lab run journal` is about one device, which has a cap
                        if option.starts_with("write-") {
                            values = values.replace("|none", "");
                        }
                        // `pgcalm lab run suite` judges by verdicts
                        if option == "fail-on" {
                            values = values.replace("VERDICT", "SEVERITY");
                        }
                        takes.push((values, path));
                    }
                }
            }
            assert!(takes.len() > 1, "{option}: {takes:?}");
            assert!(takes.iter().all(|(values, _)| *values == takes[0].0), "{option}: {takes:?}");
        }
        // Which say it in words of their own.
        for (path, verb) in &found {
            for argument in verb.get_arguments() {
                let name = argument.get_long().unwrap_or_default();
                assert!(
                    !matches!(name, "port" | "pid" | "datadir" | "sample" | "write-bps" | "read-bps")
                        || path.starts_with("pgcalm lab"),
                    "{path} --{name}"
                );
            }
        }
    }

    #[test]
    fn every_verb_lists_its_exit_codes() {
        let mut command = args::command();
        command.build();
        let mut found = Vec::new();
        shown(&command, "pgcalm", &mut found);
        for (path, verb) in found {
            let help = verb.clone().render_help().to_string();
            let (_, codes) = help.split_once("\nExit codes:\n").unwrap_or_else(|| panic!("{path}"));
            let unreachable = codes.lines().any(|line| line.starts_with("  4  "));
            assert_eq!(unreachable, path != "pgcalm wal-restore", "{path}: {codes}");
        }
    }
}

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// What is wrong with a command line, in one line with the way out.
pub(crate) fn one_line(error: &clap::Error) -> String {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return "no command given; try pgcalm --help".to_string();
    }
    let text = error.render().to_string();
    let mut parts = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with("Usage:") || line.starts_with("For more information") {
            break;
        }
        let line = line.strip_prefix("error: ").unwrap_or(line);
        let line = line.strip_prefix("tip: ").unwrap_or(line);
        if !line.is_empty() {
            parts.push(line);
        }
    }
    let mut text = parts.join("; ").replace(":; ", ": ");
    // clap says what is wrong with an unknown word, but a way out only if it finds a similar one.
    let suggests = error.context().any(|(kind, value)| {
        matches!(
            kind,
            ContextKind::SuggestedArg
                | ContextKind::SuggestedSubcommand
                | ContextKind::SuggestedValue
                | ContextKind::Suggested
        ) && !matches!(value, ContextValue::None)
    });
    // Where it was looked for at first.
    if error.kind() == ErrorKind::InvalidSubcommand
        && error.get(ContextKind::InvalidSubcommand) == Some(&ContextValue::String("report".to_string()))
    {
        return "pgcalm lab report shows the reports of lab runs".to_string();
    }
    let unknown = matches!(error.kind(), ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand);
    if unknown && !suggests {
        text.push_str("; --help lists what there is");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::Command;

    use super::*;
    use crate::args;
    use crate::args::QUANTITIES;

    /// What values of other kinds are called.
    const OTHERS: [&str; 34] = [
        "ADDRESS:PORT",
        "COMMAND",
        "CONNINFO",
        "CONTESTANT:NAME=VALUE",
        "D",
        "DIR",
        "FILE",
        "FILE.json",
        "FILE.toml",
        "FS",
        "GROUP",
        "HOW",
        "INSTANCE",
        "LAYOUT",
        "LIST",
        "NAME",
        "NAME,...",
        "NAME=VALUE",
        "NODE",
        "PART",
        "PATH",
        "PROFILE",
        "PROFILE[:KEY=VALUE,...]",
        "NAME[@SECOND]",
        "ID",
        "RULES",
        "SEVERITY",
        "VERDICT",
        "WHAT",
        "WHEN",
        "WHERE",
        "WHOSE",
        "upsert|read70|tpcb|tpcc|FILE.sql|COMMAND",
        // Of a hidden verb.
        "MEMBERS",
    ];

    /// Calls `look` with verb, option and what the option's value is called.
    fn each_option(command: &Command, path: &str, look: &mut dyn FnMut(&str, &str, &str)) {
        for arg in command.get_arguments() {
            let takes_value = arg.get_action().takes_values();
            if let (true, Some(option), Some([name])) = (takes_value, arg.get_long(), arg.get_value_names()) {
                look(path, &format!("--{option}"), name);
            }
        }
        for verb in command.get_subcommands() {
            each_option(verb, &format!("{path} {}", verb.get_name()), look);
        }
    }

    /// Of every verb: no value that is none gets further than the command line, and the error says what to give.
    #[test]
    fn what_is_no_quantity_is_refused_with_what_to_give() {
        let command = args::command();
        let refused = |path: &str, option: &str, value: &str| {
            let words = path.split(' ').chain([option, value]);
            match command.clone().try_get_matches_from(words) {
                Err(error) => one_line(&error),
                Ok(_) => panic!("{path} {option} {value}"),
            }
        };
        let mut tried = 0;
        let mut unknown = BTreeSet::new();
        each_option(&command, "pgcalm", &mut |path, option, name| {
            if !QUANTITIES.contains(&name) {
                if !OTHERS.contains(&name) {
                    unknown.insert(name.to_string());
                }
                return;
            }
            let takes_bytes = name.starts_with("SIZE");
            for value in ["-1", "-1s", "-0.5MB", "NaN", "inf", "1e400", "3q", "0x10", "99999999999999999999999999"] {
                let text = refused(path, option, value);
                let asks_for_unit = takes_bytes && text.contains("give a unit: ");
                let says_what = text.contains("give ") && text.contains("e.g. ");
                assert!(text.contains(option) && (says_what || asks_for_unit), "{path} {option} {value}: {text}");
                tried += 1;
            }
            if takes_bytes {
                let text = refused(path, option, "125");
                let asked = text.contains("give a unit: 125MB or 125MiB");
                assert!(asked, "{path} {option}: {text}");
            }
        });
        assert!(unknown.is_empty(), "are they quantities? {unknown:?}");
        assert!(tried > 500, "{tried}");
    }
}

use clap::error::ContextKind;
use clap::error::ContextValue;
use clap::error::ErrorKind;

/// What is wrong with a command line, in one line with the way out.
pub fn one_line(error: &clap::Error) -> String {
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
        && error.get(ContextKind::InvalidSubcommand)
            == Some(&ContextValue::String("report".to_string()))
    {
        return "pgcalm lab report shows the reports of lab runs".to_string();
    }
    let unknown = matches!(
        error.kind(),
        ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand
    );
    if unknown && !suggests {
        text.push_str("; --help lists what there is");
    }
    text
}

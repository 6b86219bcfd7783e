use pgcalm_host::Failure;
use pgcalm_lab::document::Document;

use crate::args::ReportArgs;
use crate::{output, suite};

/// Shows a report, or writes it as HTML, Markdown or its chart as SVG.
pub(crate) fn render(args: &ReportArgs) -> anyhow::Result<()> {
    let refused = |why: String| Failure::Usage(format!("{}: {why}", args.file.display()));
    let unread = |why: String| refused(format!("{why}; name a file that pgcalm lab run --json wrote"));
    let text = std::fs::read_to_string(&args.file).map_err(|error| unread(error.to_string()))?;
    let document = pgcalm_lab::document::read(&text).map_err(|error| unread(error.to_string()))?;
    output::check_writable("--html", args.html.as_deref())?;
    output::check_writable("--svg", args.svg.as_deref())?;
    suite::check_document(args.markdown.as_deref())?;
    if let Some(svg) = &args.svg {
        return match &document {
            Document::Checkpoint(report) => output::write(svg, &pgcalm_lab::contest::report::chart::svg_tps(report)),
            Document::Suite(report) => output::write(svg, &pgcalm_lab::suite::report::svg::render(report)),
            _ => Err(refused("a report of this scenario has no chart as a file of its own; use --html".into()).into()),
        };
    }
    if args.seconds {
        return match &document {
            Document::Checkpoint(report) => output::print(&pgcalm_lab::contest::report::seconds::render(report)),
            _ => {
                Err(refused("only reports of scenario checkpoint have the seconds of runs; leave out --seconds".into())
                    .into())
            }
        };
    }
    if let (Document::Suite(report), Some(markdown)) = (&document, &args.markdown) {
        return suite::write_markdown(report, markdown, |_| true);
    }
    match (&document.shown(), &args.html, &args.markdown) {
        (shown, Some(html), _) => output::write(html, &shown.html()),
        (shown, None, Some(markdown)) => output::write(markdown, &shown.document().markdown()),
        (shown, None, None) if args.tables => output::print(&shown.document().tabs()),
        (shown, None, None) => output::print(&shown.text()),
    }
}

use pgcalm_lab::LabError;
use pgcalm_lab::document::Document;

use crate::args::ReportArgs;
use crate::output;
use crate::suite;

/// Shows a report, or writes it as HTML or its chart as SVG.
pub fn render(args: &ReportArgs) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(&args.file).map_err(|error| {
        LabError::Usage(format!("{}: {error}; name a file that pgcalm lab run --json wrote", args.file.display()))
    })?;
    let document = pgcalm_lab::document::read(&text).map_err(|error| {
        LabError::Usage(format!("{}: {error}; name a file that pgcalm lab run --json wrote", args.file.display()))
    })?;
    output::check_writable("--html", args.html.as_deref())?;
    output::check_writable("--svg", args.svg.as_deref())?;
    suite::check_document(args.markdown.as_deref())?;
    let as_file = args.html.is_some() || args.svg.is_some() || args.markdown.is_some();
    let text_only = matches!(document, Document::ArchiveCrash(_) | Document::Guard(_));
    if text_only && (as_file || args.seconds) {
        return Err(LabError::Usage(format!(
            "{}: a report of this scenario has text only; leave out --html, --svg, --markdown and --seconds",
            args.file.display()
        ))
        .into());
    }
    if args.markdown.is_some() && !matches!(document, Document::Suite(_)) {
        return Err(LabError::Usage(format!(
            "{}: only the rows of a suite are sections of a document; leave out --markdown",
            args.file.display()
        ))
        .into());
    }
    if args.seconds && !matches!(document, Document::Contest(_)) {
        return Err(LabError::Usage(format!(
            "{}: only reports of scenario checkpoint have the seconds of runs; leave out --seconds",
            args.file.display()
        ))
        .into());
    }
    match document {
        Document::Contest(report) if args.seconds => {
            output::print(&pgcalm_lab::contest::report::seconds::render(&report))
        }
        Document::Contest(report) => {
            if let Some(html) = &args.html {
                output::write(html, &pgcalm_lab::contest::report::html::render(&report))
            } else if let Some(svg) = &args.svg {
                output::write(svg, &pgcalm_lab::contest::report::chart::svg_tps(&report))
            } else {
                output::print(&pgcalm_lab::contest::report::text::render(&report))
            }
        }
        Document::Journal(_) if args.svg.is_some() => Err(LabError::Usage(format!(
            "{}: a report of layouts has no chart of its own; leave out --svg",
            args.file.display()
        ))
        .into()),
        Document::Journal(report) => match &args.html {
            Some(html) => output::write(html, &pgcalm_lab::interference::report::html::render(&report)),
            None => output::print(&pgcalm_lab::interference::report::text::render(&report)),
        },
        Document::Tenants(report) => {
            if let Some(html) = &args.html {
                output::write(html, &pgcalm_lab::tenants::report::html::render(&report))
            } else if args.svg.is_some() {
                Err(LabError::Usage(format!(
                    "{}: a report of tenants has no chart as a file of its own; use --html",
                    args.file.display()
                ))
                .into())
            } else {
                output::print(&pgcalm_lab::tenants::report::text::render(&report))
            }
        }
        Document::Torture(_) if args.html.is_some() || args.svg.is_some() => Err(LabError::Usage(format!(
            "{}: a report of crash cycles has text only; leave out --html and --svg",
            args.file.display()
        ))
        .into()),
        Document::Archive(report) => {
            if let Some(html) = &args.html {
                output::write(html, &pgcalm_lab::archive::report::html::render(&report))
            } else if args.svg.is_some() {
                Err(LabError::Usage(format!(
                    "{}: a report of archivers has no chart of its own; leave out --svg",
                    args.file.display()
                ))
                .into())
            } else {
                output::print(&pgcalm_lab::archive::report::text::render(&report))
            }
        }
        Document::Replica(report) => {
            if let Some(html) = &args.html {
                output::write(html, &pgcalm_lab::replica::report::html::render(&report))
            } else if args.svg.is_some() {
                Err(LabError::Usage(format!(
                    "{}: a report of a standby has no chart as a file of its own; use --html",
                    args.file.display()
                ))
                .into())
            } else {
                output::print(&pgcalm_lab::replica::report::text::render(&report))
            }
        }
        Document::Predict(report) => {
            if let Some(html) = &args.html {
                output::write(html, &pgcalm_lab::predict::report::html::render(&report))
            } else if args.svg.is_some() {
                Err(LabError::Usage(format!(
                    "{}: a report of predictions has no chart; leave out --svg",
                    args.file.display()
                ))
                .into())
            } else {
                output::print(&pgcalm_lab::predict::report::text::render(&report))
            }
        }
        Document::Suite(report) => {
            if let Some(html) = &args.html {
                output::write(html, &pgcalm_lab::suite::report::html::render(&report))
            } else if let Some(svg) = &args.svg {
                output::write(svg, &pgcalm_lab::suite::report::svg::render(&report))
            } else if let Some(markdown) = &args.markdown {
                suite::write_markdown(&report, markdown, |_| true)
            } else {
                output::print(&pgcalm_lab::suite::report::text::render(&report))
            }
        }
        Document::ArchiveCrash(report) => output::print(&pgcalm_lab::archive_crash::report::text::render(&report)),
        Document::Guard(report) => output::print(&pgcalm_lab::guard::report::text::render(&report)),
        Document::Torture(report) => output::print(&pgcalm_lab::torture::report::text::render(&report)),
    }
}

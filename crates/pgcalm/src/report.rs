use pgcalm_lab::LabError;
use pgcalm_lab::document;
use pgcalm_report::Document;

use crate::args::ReportArgs;
use crate::output;
use crate::suite;

/// Shows a report, or writes it as HTML or its chart as SVG.
pub fn render(args: &ReportArgs) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(&args.file).map_err(|error| {
        LabError::Usage(format!(
            "{}: {error}; name a file that pgcalm lab run --json wrote",
            args.file.display()
        ))
    })?;
    let not_a_report = |error| {
        LabError::Usage(format!(
            "{}: {error}; name a file that pgcalm lab run --json wrote",
            args.file.display()
        ))
    };
    if let Some(document) = document::read(&text).map_err(not_a_report)? {
        let as_file = args.html.is_some() || args.svg.is_some() || args.markdown.is_some();
        if as_file || args.seconds {
            return Err(LabError::Usage(format!(
                "{}: a report of power cuts has text only; leave out --html, --svg, --markdown and --seconds",
                args.file.display()
            ))
            .into());
        }
        return output::print(&document.text());
    }
    let document = pgcalm_report::read(&text).map_err(not_a_report)?;
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
            output::print(&pgcalm_report::seconds::render(&report))
        }
        Document::Contest(report) => {
            if let Some(html) = &args.html {
                output::write(html, &pgcalm_report::html::render(&report))
            } else if let Some(svg) = &args.svg {
                output::write(svg, &pgcalm_report::chart::svg_tps(&report))
            } else {
                output::print(&pgcalm_report::text::render(&report))
            }
        }
        Document::Journal(_) if args.svg.is_some() => Err(LabError::Usage(format!(
            "{}: a report of layouts has no chart of its own; leave out --svg",
            args.file.display()
        ))
        .into()),
        Document::Journal(report) => match &args.html {
            Some(html) => output::write(html, &pgcalm_report::journal::html::render(&report)),
            None => output::print(&pgcalm_report::journal::text::render(&report)),
        },
        Document::Tenants(report) => {
            if let Some(html) = &args.html {
                output::write(html, &pgcalm_report::tenants::html::render(&report))
            } else if args.svg.is_some() {
                Err(LabError::Usage(format!(
                    "{}: a report of tenants has no chart as a file of its own; use --html",
                    args.file.display()
                ))
                .into())
            } else {
                output::print(&pgcalm_report::tenants::text::render(&report))
            }
        }
        Document::Torture(_) if args.html.is_some() || args.svg.is_some() => {
            Err(LabError::Usage(format!(
                "{}: a report of crash cycles has text only; leave out --html and --svg",
                args.file.display()
            ))
            .into())
        }
        Document::Archive(report) => {
            if let Some(html) = &args.html {
                output::write(html, &pgcalm_report::archive::html::render(&report))
            } else if args.svg.is_some() {
                Err(LabError::Usage(format!(
                    "{}: a report of archivers has no chart of its own; leave out --svg",
                    args.file.display()
                ))
                .into())
            } else {
                output::print(&pgcalm_report::archive::text::render(&report))
            }
        }
        Document::Replica(report) => {
            if let Some(html) = &args.html {
                output::write(html, &pgcalm_report::replica::html::render(&report))
            } else if args.svg.is_some() {
                Err(LabError::Usage(format!(
                    "{}: a report of a standby has no chart as a file of its own; use --html",
                    args.file.display()
                ))
                .into())
            } else {
                output::print(&pgcalm_report::replica::text::render(&report))
            }
        }
        Document::Predict(report) => {
            if let Some(html) = &args.html {
                output::write(html, &pgcalm_report::predict::html::render(&report))
            } else if args.svg.is_some() {
                Err(LabError::Usage(format!(
                    "{}: a report of predictions has no chart; leave out --svg",
                    args.file.display()
                ))
                .into())
            } else {
                output::print(&pgcalm_report::predict::text::render(&report))
            }
        }
        Document::Suite(report) => {
            if let Some(html) = &args.html {
                output::write(html, &pgcalm_report::suite::html::render(&report))
            } else if let Some(svg) = &args.svg {
                output::write(svg, &pgcalm_report::suite::svg::render(&report))
            } else if let Some(markdown) = &args.markdown {
                suite::write_markdown(&report, markdown, |_| true)
            } else {
                output::print(&pgcalm_report::suite::text::render(&report))
            }
        }
        Document::Torture(report) => output::print(&pgcalm_report::torture::text::render(&report)),
    }
}

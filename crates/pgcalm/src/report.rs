use pgcalm_lab::LabError;

use crate::args::ReportArgs;
use crate::output;

/// Shows a report, or writes it as HTML or its chart as SVG.
pub fn render(args: &ReportArgs) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(&args.file).map_err(|error| {
        LabError::Usage(format!(
            "{}: {error}; name a file that pgcalm lab run --json wrote",
            args.file.display()
        ))
    })?;
    let report = pgcalm_report::from_json(&text).map_err(|error| {
        LabError::Usage(format!(
            "{}: {error}; name a file that pgcalm lab run --json wrote",
            args.file.display()
        ))
    })?;
    if let Some(html) = &args.html {
        output::write(html, &pgcalm_report::html::render(&report))
    } else if let Some(svg) = &args.svg {
        output::write(svg, &pgcalm_report::chart::svg_tps(&report))
    } else {
        output::print(&pgcalm_report::text::render(&report))
    }
}

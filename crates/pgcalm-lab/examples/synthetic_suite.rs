//! Writes the page of a made-up suite, to look at: `cargo run -p pgcalm-lab --example synthetic_suite FILE.html`.
//!
//! SYNTHETIC: nothing in it was ever measured.

#[path = "../tests/host/report/support/mod.rs"]
mod support;

use pgcalm_lab::report::Shown;
use pgcalm_lab::suite::report::{Report, Row};

fn main() -> std::io::Result<()> {
    let file = std::env::args().nth(1).unwrap_or("suite.html".into());
    let mut rows = Vec::new();
    for index in 0..24 {
        let mut report = support::report(180, if index % 5 == 4 { 3 } else { 1 });
        report
            .contestants
            .retain(|contestant| ["stock", "pg_calm"].contains(&contestant.name.as_str()) || index % 4 == 0);
        for contestant in &mut report.contestants {
            for run in &mut contestant.runs {
                if contestant.name == "pg_calm" && index % 3 == 0 {
                    run.tps_mean *= 0.3;
                    run.tps_min = 10.0;
                }
            }
        }
        rows.push(Row::new(
            format!("row-{index}"),
            format!("SYNTHETIC: 8GB of memory, gp3, case {index}"),
            None,
            format!("pgcalm lab run checkpoint --seconds 180 --clients {index}"),
            Some(report),
        ));
    }
    rows[3].failure = Some("SYNTHETIC: no room on the device".to_string());
    rows[3].report = None;
    rows[3].comparisons.clear();
    let report =
        Report::new("Cloud volumes (SYNTHETIC)".to_string(), "Nothing of this was measured.".to_string(), rows);
    print!("{}", report.text());
    std::fs::write(file, report.html())
}

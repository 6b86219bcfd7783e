//! What the model of today says of what was observed and measured earlier: `cargo run --release --package pgcalm-lab
//! --example replay REPORT.json…`, with documents of `pgcalm lab run predict --json`.
//!
//! The second table is for the rate of pages that was measured: errors there are not those of the predicted rate, nor of a load
//! that has changed since it was observed.

use std::process::ExitCode;

use pgcalm_lab::document::Document;
use pgcalm_lab::predict::report::Report;
use pgcalm_lab::report::Shown;
use pgcalm_predict::predict;

fn main() -> ExitCode {
    let mut all: Option<Report> = None;
    for file in std::env::args().skip(1) {
        let document = std::fs::read_to_string(&file)
            .map_err(|error| error.to_string())
            .and_then(|text| pgcalm_lab::document::read(&text).map_err(|error| error.to_string()));
        match (document, &mut all) {
            (Ok(Document::Predict(report)), Some(all)) => all.points.extend(report.points),
            (Ok(Document::Predict(report)), all) => *all = Some(*report),
            (Ok(_), _) => {
                eprintln!("{file}: not a report of lab run predict");
                return ExitCode::from(2);
            }
            (Err(error), _) => {
                eprintln!("{file}: {error}");
                return ExitCode::from(2);
            }
        }
    }
    let Some(mut report) = all else {
        eprintln!("name reports of lab run predict");
        return ExitCode::from(2);
    };
    for point in &mut report.points {
        point.prediction = predict(point.prediction.observation.clone());
    }
    print!("{}", report.text());
    println!("\nAt the rates that were measured:\n");
    for point in &mut report.points {
        let mut observation = point.prediction.observation.clone();
        observation.unhindered_tps = match &point.measured.written {
            Some(written) => {
                let observed = observation.checkpointer_pages_per_s
                    + observation.background_writer_pages_per_s
                    + observation.backend_pages_per_s;
                let measured = written.checkpointer_pages_per_s
                    + written.background_writer_pages_per_s
                    + written.backend_pages_per_s;
                observation.tps * measured / observed.max(1.0)
            }
            None => point.measured.tps,
        };
        point.prediction = predict(observation);
    }
    print!("{}", report.text());
    ExitCode::SUCCESS
}

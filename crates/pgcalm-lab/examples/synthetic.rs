//! Renders a made-up report in every form into a folder, to look at while working on the renderings:
//! `cargo run -p pgcalm-lab --example synthetic -- /tmp/report`.

#[path = "../tests/report/support/mod.rs"]
mod support;

use pgcalm_lab::report::Shown;
use std::error::Error;
use std::fs;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    let folder = folder.ok_or("usage: synthetic FOLDER")?;
    fs::create_dir_all(&folder)?;
    for (name, report) in [("single", support::report(150, 1)), ("repeated", support::report(240, 3))] {
        let text = report.text();
        println!("{text}");
        fs::write(folder.join(format!("{name}.txt")), text)?;
        fs::write(folder.join(format!("{name}.html")), report.html())?;
        fs::write(folder.join(format!("{name}.svg")), pgcalm_lab::contest::report::chart::svg_tps(&report))?;
        fs::write(folder.join(format!("{name}.json")), pgcalm_render::json::to_json_pretty(&report)?)?;
    }
    Ok(())
}

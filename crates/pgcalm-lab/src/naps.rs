#![allow(missing_docs)]
use crate::{host_facts, installation::Installation, interrupt::Interrupt, options, report as house, scenarios::Help};
use pgcalm_render::{chart, document as render};
use std::time::{Duration, Instant, SystemTime};
pub const HELP: Help = Help { name: "naps", example: "Example: pgcalm lab run naps", text: "Naps in each second." };
#[derive(Debug, Clone, clap::Args, serde::Serialize)]
#[command(mut_args(options::declared))]
pub struct Options {
    #[arg(long, default_value = "2")]
    pub(crate) seconds: crate::Seconds,
    /// Milliseconds of a nap.
    #[arg(long, value_name = "MS", default_value = "10", value_parser = options::count::<u32>)]
    pub nap: u32,
    #[command(flatten)]
    #[serde(flatten)]
    pub common: options::Common,
}
impl Options {
    pub fn check(&self) -> Result<(), pgcalm_host::Failure> {
        self.common.refuse_trouble()
    }
}
pub fn run(options: &Options, interrupt: &Interrupt) -> anyhow::Result<Report> {
    options.check()?;
    let postgres = Installation::find(&Default::default(), options.common.pg_bindir.as_deref(), interrupt)?;
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let host = host_facts::collect(&Default::default(), &postgres, None, now, "none")?;
    let mut naps = vec![0.0; options.seconds.0 as usize];
    for second in &mut naps {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(1) {
            interrupt.sleep(Duration::from_millis(options.nap.into()))?;
            *second += 1.0;
        }
    }
    Ok(Report { scenario: HELP.name.into(), host, settings: options::named(options), naps })
}
pub mod report {
    pub use super::Report;
}
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Report {
    pub scenario: String,
    pub host: house::Host,
    pub settings: std::collections::BTreeMap<String, serde_json::Value>,
    pub naps: Vec<f64>,
}
impl house::Shown for Report {
    fn document(&self) -> render::Document {
        let options = house::settings::options(&self.settings, &[]);
        let mut document = house::document(&self.scenario, &self.host, options);
        let mut table = render::Table::new(["second", "naps"].map(render::Column::figures));
        table.rows.extend(self.naps.iter().enumerate().map(|(s, n)| vec![s.to_string(), n.to_string()]));
        let style = house::style::assign(["naps"].into_iter()).remove(0);
        let lines = vec![self.naps.iter().copied().map(Some).collect()];
        let entries = vec![chart::Entry { name: "naps".into(), style, lines, checkpoints: vec![] }];
        let chart = chart::Chart::of("Naps", "naps", entries, chart::Scale::Linear, None);
        document.section("Naps").table(table).add(render::Block::Charts(vec![chart]));
        document
    }
}

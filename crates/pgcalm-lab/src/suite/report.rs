//! Many runs side by side: the results of a suite, and who wins where.

mod compare;
mod html;
pub mod markdown;
mod order;
mod reading;
pub mod svg;
mod text;

use pgcalm_render::document::{Column, Document, Table, figure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::report::Shown;
use crate::{contest, document, stop_start};

/// Name of the document, where others have that of their scenario.
pub const SCENARIO: &str = "suite";

/// The contestant that all others are compared with.
pub const BASELINE: &str = "stock";

/// The contestant whose losses come first.
pub const SUBJECT: &str = "pg_calm";

/// All rows of a suite: the document written by `pgcalm lab run suite --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Report {
    /// Always `suite`.
    pub scenario: String,
    /// Heading.
    pub title: String,
    /// What the suite is for; may be empty.
    pub about: String,
    /// In the order of the suite's file.
    pub rows: Vec<Row>,
}

impl Shown for Report {
    /// The figures alone, and what other scenarios found: the matrix with its verdicts has its own layout in each rendering.
    fn document(&self) -> Document {
        let mut document = Document::new("pgcalm lab", SCENARIO, "");
        document.title = Some(self.title.clone());
        document.readings = reading::lines(self);
        document.conditions = vec![vec![self.about.clone()]];
        let figures = reading::SHOWN.iter().map(|shown| Column::figures(shown.heading.join("\n")));
        let mut table = Table::new(["row", "contestant"].map(Column::text).into_iter().chain(figures));
        for row in order::groups(self).iter().flat_map(|group| &group.rows) {
            for contestant in row.report.iter().flat_map(|report| &report.contestants) {
                let figures = reading::SHOWN.iter().map(|shown| figure((shown.figure)(contestant)));
                table.row([row.name.clone(), contestant.name.clone()].into_iter().chain(figures));
            }
        }
        if self.rows.iter().any(|row| row.report.is_some()) {
            document.section("Matrix").table(table);
        }
        for (row, other) in order::others(self) {
            document.section(&row.title);
            document.sections.extend(other.shown().document().sections);
        }
        document
    }

    fn text(&self) -> String {
        self.pooled().map_or_else(|| text::document(self).text(), |pooled| pooled.text())
    }

    fn html(&self) -> String {
        self.pooled().map_or_else(|| html::render(self), |pooled| pooled.html())
    }

    fn completed(mut self) -> Self {
        for row in &mut self.rows {
            row.report = row.report.take().map(contest::report::Report::completed);
        }
        self
    }
}

/// One run of the suite with all its contestants.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Row {
    /// Its name in the suite's file.
    pub name: String,
    /// Heading.
    pub title: String,
    /// The part of the suite that it belongs to; absent if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// The command line that makes the same run.
    pub command: String,
    /// Why it has no result, in the words of the run; absent if it has one or was not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// SHA-256 of the server module that was measured; absent where none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// The result of scenario `checkpoint`; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<contest::report::Report>,
    /// The document of any other scenario; absent if there is none. Its own schema describes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<Value>,
    /// Every contestant but `stock` and `stock-uncapped` against `stock`, in mean TPS, worst second, p99.9 and longest
    /// transaction; none of those that, with --steady, are not steady, or of which a trouble failed.
    pub comparisons: Vec<Comparison>,
}

/// One figure of a contestant against that of `stock` in the same row; medians of the runs. Where lengths of runs differ
/// by more than a quarter, worst second and longest transaction are those of as many seconds as the shortest run has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Comparison {
    /// Whose.
    pub contestant: String,
    /// `tps_mean`, `tps_min`, `latency_p999_ms` or `latency_max_ms`.
    pub metric: String,
    /// The contestant's figure.
    pub value: f64,
    /// Its lowest and highest run; absent with one run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<[f64; 2]>,
    /// Checkpoints that ended in the contestant's measured time, in the run with the fewest.
    #[serde(default)]
    pub checkpoints: u32,
    /// The figure of `stock`.
    pub baseline: f64,
    /// Its lowest and highest run; likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline_range: Option<[f64; 2]>,
    /// Checkpoints of `stock`; likewise.
    #[serde(default)]
    pub baseline_checkpoints: u32,
    /// `value / baseline`; absent if the latter is 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    /// Whether the contestant is better than `stock`.
    pub verdict: Verdict,
}

/// How a figure compares with that of `stock`: beyond the ranges of both contestants' runs, and by a least share and a least
/// amount (`suite/report/compare.rs` declares them), or the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// More TPS, or less latency.
    Better,
    /// Neither.
    #[serde(alias = "no-difference")]
    Same,
    /// Less TPS, or more latency.
    Worse,
}

pgcalm_host::names! { pub fn name(Verdict): Better "better", Same "same", Worse "worse" }

impl Row {
    /// A row with its result, compared.
    pub fn new(
        name: String,
        title: String,
        part: Option<String>,
        command: String,
        report: Option<contest::report::Report>,
    ) -> Self {
        let comparisons = report.as_ref().map_or_else(Vec::new, compare::of);
        Self { name, title, part, command, failure: None, module: None, report, document: None, comparisons }
    }

    /// Why pg_calm and stock are not compared: which of them was not steady, and why not; empty if they both were, or nobody
    /// asked.
    pub fn objections(&self) -> Vec<(&str, &str)> {
        self.report
            .iter()
            .flat_map(|report| &report.contestants)
            .filter(|contestant| [BASELINE, SUBJECT].contains(&contestant.name.as_str()))
            .filter_map(|contestant| Some((contestant.name.as_str(), contestant.objection()?)))
            .collect()
    }

    /// What a scenario other than `checkpoint` found; none if there is no result, or none that can be read.
    fn other(&self) -> Option<document::Document> {
        document::read(&self.document.as_ref()?.to_string()).ok()
    }

    /// Whether pg_calm is worse than stock in something.
    pub fn is_worse(&self) -> bool {
        self.comparisons.iter().any(|found| found.contestant == SUBJECT && found.verdict == Verdict::Worse)
    }

    /// What pg_calm failed in where stock did not, which no figure need show; none if there is nothing of the kind.
    pub fn failed_alone(&self) -> Option<&'static str> {
        type Failed = fn(&contest::report::Contestant) -> bool;
        let ways: [(&str, Failed); 3] = [
            ("gave up", |contestant| contestant.runs.iter().any(|run| run.server_failure.is_some())),
            ("was not steady", |contestant| contestant.objection().is_some()),
            ("its trouble failed", |contestant| contestant.failed_trouble().is_some()),
        ];
        let named = |name: &str| self.report.as_ref()?.contestants.iter().find(|c| c.name == name);
        let (subject, baseline) = (named(SUBJECT)?, named(BASELINE)?);
        ways.into_iter().find(|(_, failed)| failed(subject) && !failed(baseline)).map(|(words, _)| words)
    }

    /// What is compared of a contestant.
    fn comparison(&self, contestant: &str, metric: &str) -> Option<&Comparison> {
        self.comparisons.iter().find(|found| found.contestant == contestant && found.metric == metric)
    }
}

impl Report {
    /// All rows as one report, where all that have a result are of stop-start: what counts of it is many rounds.
    fn pooled(&self) -> Option<stop_start::report::Report> {
        let rows = order::others(self);
        let results = self.rows.iter().filter(|row| row.report.is_some() || row.document.is_some()).count();
        let pooled: Vec<_> = rows
            .into_iter()
            .filter_map(|(row, document)| match document {
                document::Document::StopStart(report) => Some((row.title.clone(), *report)),
                _ => None,
            })
            .collect();
        (pooled.len() == results).then(|| stop_start::report::Report::of_suite(&self.title, &self.about, pooled))?
    }

    /// A document of these rows.
    pub fn new(title: String, about: String, rows: Vec<Row>) -> Self {
        Self { scenario: SCENARIO.to_string(), title, about, rows }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wal_full::report::tests::report as wal_full;

    #[test]
    fn what_other_scenarios_found_stands_below_the_matrix() {
        let mut row = Row::new("full".into(), "WAL fills up".into(), None, "pgcalm lab run wal-full".into(), None);
        let mut found = wal_full();
        found.cases[0].died_s = None;
        row.document = Some(serde_json::to_value(&found).unwrap());
        let mut unread = Row::new("unread".into(), "Of a later version".into(), None, String::new(), None);
        unread.document = Some("nothing".into());
        let report = Report::new("Some rows".into(), String::new(), vec![row, unread]);
        let markdown = markdown::render(&report, "", |_| true);
        assert!(report.document().tabs().contains("slot stock\t"), "{}", report.document().tabs());
        for rendered in [report.text(), report.html(), markdown] {
            assert!(rendered.contains("WAL fills up") && rendered.contains("slot"), "{rendered}");
            assert!(!rendered.contains("No row compares"), "{rendered}");
        }
        let failure = found.failure().unwrap();
        assert!(reading::lines(&report).contains(&format!("full: {failure}")));
        assert!(report.text().contains("PostgreSQL 15.20; Linux 6.18.0"), "{}", report.text());
    }
}

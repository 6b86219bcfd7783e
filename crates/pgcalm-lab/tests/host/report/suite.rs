//! A suite's matrix: what is compared, what comes first, and its renderings.

use pgcalm_lab::contest::report::Report as Run;
use pgcalm_lab::contest::report::{
    Backlog, BacklogAt, CapKind, Checkpoint, ServerFailure, Steadiness, TroubleRun, reading,
};
use pgcalm_lab::document::Document;
use pgcalm_lab::report::Shown;
use pgcalm_lab::suite::report::{Report, Row, Verdict, markdown, svg};

use super::support;

/// Stock and pg_calm alone, with these mean TPS, worst seconds and p99.9.
fn run(stock: [f64; 3], pg_calm: [f64; 3]) -> Run {
    let mut report = support::report(60, 1);
    report.contestants.retain(|contestant| ["stock", "pg_calm"].contains(&contestant.name.as_str()));
    for contestant in &mut report.contestants {
        let figures = if contestant.name == "stock" { stock } else { pg_calm };
        for run in &mut contestant.runs {
            let latency = run.latency_ms.as_mut().unwrap();
            [run.tps_mean, run.tps_min, latency.p999] = figures;
            latency.max = 100.0;
        }
    }
    report
}

fn row(name: &str, report: Option<Run>) -> Row {
    Row::new(
        name.to_string(),
        format!("The row {name}"),
        None,
        format!("pgcalm lab run checkpoint --name {name}"),
        report,
    )
}

fn suite() -> Report {
    let mut failed = row("failed", None);
    failed.failure = Some("no space left".to_string());
    Report::new(
        "Some rows".to_string(),
        "For a test.".to_string(),
        vec![
            row("won", Some(run([100.0, 0.0, 50.0], [150.0, 80.0, 5.0]))),
            row("lost", Some(run([100.0, 50.0, 5.0], [95.0, 50.0, 5.0]))),
            failed,
            row("lost-most", Some(run([100.0, 50.0, 5.0], [120.0, 10.0, 5.0]))),
            row("even", Some(run([1000.0, 50.0, 5.0], [1001.0, 50.0, 5.0]))),
            row("never-run", None),
        ],
    )
}

fn verdicts(row: &Row) -> Vec<(&str, Verdict)> {
    row.comparisons.iter().map(|comparison| (comparison.metric.as_str(), comparison.verdict)).collect()
}

/// Where each of the texts begins, in their order.
fn assert_in_order(rendered: &str, texts: &[&str]) {
    let places: Vec<usize> =
        texts.iter().map(|text| rendered.find(text).unwrap_or_else(|| panic!("no {text:?} in {rendered}"))).collect();
    assert!(places.is_sorted(), "{texts:?} at {places:?}: {rendered}");
}

#[test]
fn contestants_are_compared_with_stock() {
    use Verdict::*;
    let suite = suite();
    assert_eq!(
        verdicts(&suite.rows[0]),
        [("tps_mean", Better), ("tps_min", Better), ("latency_p999_ms", Better), ("latency_max_ms", Same)]
    );
    // No ratio to a second at zero.
    assert_eq!(suite.rows[0].comparisons[1].ratio, None);
    assert_eq!(suite.rows[0].comparisons[2].ratio, Some(0.1));
    assert_eq!(
        verdicts(&suite.rows[1]),
        [("tps_mean", Worse), ("tps_min", Same), ("latency_p999_ms", Same), ("latency_max_ms", Same)]
    );
    assert_eq!(verdicts(&suite.rows[4])[0], ("tps_mean", Same));
    assert_eq!(verdicts(&suite.rows[2]), []);
}

#[test]
fn ranges_that_overlap_are_no_difference() {
    let mut report = support::report(60, 2);
    report.contestants.retain(|contestant| ["stock", "pg_calm"].contains(&contestant.name.as_str()));
    let mut with_means = |stock: [f64; 2], pg_calm: [f64; 2]| {
        for contestant in &mut report.contestants {
            let means = if contestant.name == "stock" { stock } else { pg_calm };
            for (run, mean) in contestant.runs.iter_mut().zip(means) {
                run.tps_mean = mean;
            }
        }
        verdicts(&row("a", Some(report.clone())))[0].1
    };
    assert_eq!(with_means([100.0, 120.0], [118.0, 140.0]), Verdict::Same);
    assert_eq!(with_means([100.0, 120.0], [121.0, 140.0]), Verdict::Better);
    assert_eq!(with_means([100.0, 120.0], [80.0, 99.0]), Verdict::Worse);
}

#[test]
fn what_a_longer_run_meets_when_the_other_is_over_is_not_compared() {
    let verdicts_of = |seconds: usize, worst_second: usize| {
        let mut report = run([100.0, 100.0, 5.0], [100.0, 0.0, 5.0]);
        for contestant in &mut report.contestants {
            let is_ours = contestant.name == "pg_calm";
            let run = &mut contestant.runs[0];
            let seconds = if is_ours { seconds } else { 60 };
            run.series.tps = vec![100.0; seconds];
            run.series.latency_max_ms = vec![Some(100.0); seconds];
            if is_ours {
                run.series.tps[worst_second] = 0.0;
                run.series.latency_max_ms[worst_second] = Some(900.0);
                run.latency_ms.as_mut().unwrap().max = 900.0;
            }
        }
        let row = row("a", Some(report));
        verdicts(&row).iter().map(|(_, verdict)| *verdict).collect::<Vec<_>>()
    };
    use Verdict::{Same, Worse};
    for (seconds, worst_second, verdict) in [(90, 70, Same), (90, 30, Worse), (75, 70, Worse)] {
        assert_eq!(verdicts_of(seconds, worst_second), [Same, verdict, Same, verdict], "{seconds} {worst_second}");
    }
}

#[test]
fn stock_alone_and_the_reference_are_not_compared() {
    let mut report = support::report(60, 1);
    report.contestants.retain(|contestant| ["stock", "stock-uncapped"].contains(&contestant.name.as_str()));
    assert_eq!(row("a", Some(report.clone())).comparisons, []);
    report.contestants.remove(0);
    assert_eq!(row("a", Some(report)).comparisons, []);
}

#[test]
fn losses_come_first_in_text() {
    let text = suite().text();
    assert_in_order(
        &text,
        &[
            "Some rows",
            "\nFailed\n  failed: no space left\n",
            "\npg_calm is worse than stock in something\nlost-most: The row lost-most\n",
            "\nlost: The row lost\n",
            "\nOthers\nwon: The row won\n",
            "\neven: The row even\n",
            "pg_calm's mean TPS against stock's in 4 rows: better in 2 (1.2x to 1.5x), worse in 1 (0.95x), the same in 1\n",
            "Failed: failed\n",
            "Without a result: never-run\n",
        ],
    );
    assert!(text.contains("~1.00x"), "{text}");
    for line in text.lines() {
        assert!(line.chars().count() <= 110, "{line}");
        assert_eq!(line.trim_end(), line);
    }
}

#[test]
fn without_losses_the_heading_says_so() {
    let mut suite = suite();
    suite.rows.retain(|row| row.name == "won");
    let text = suite.text();
    assert!(text.contains("\npg_calm is worse than stock in nothing compared\nwon: The row won\n"), "{text}");
}

#[test]
fn the_picture_has_each_row_with_both_losses_first() {
    let picture = svg::render(&suite());
    let document = roxmltree::Document::parse(&picture).unwrap_or_else(|error| panic!("{error}: {picture}"));
    assert_in_order(&picture, &["pg_calm is worse", ">lost-most<", ">lost<", ">Others<", ">won<", ">even<"]);
    assert!(!picture.contains("never-run"), "{picture}");
    let widths: Vec<f64> = document
        .descendants()
        .filter(|node| node.attribute("fill-opacity") == Some("0.35"))
        .map(|node| node.attribute("width").unwrap().parse().unwrap())
        .collect();
    // Means of 100 and 120, 100 and 95, 100 and 150, 1000 and 1001.
    assert_eq!(widths.len(), 8);
    assert!((widths[1] / widths[0] - 1.2).abs() < 0.01, "{widths:?}");
    assert!((widths[6] / widths[4] - 10.0).abs() < 0.1, "{widths:?}");
    // A row of which only one ran is left out.
    let mut alone = suite();
    for row in &mut alone.rows {
        let Some(report) = &mut row.report else { continue };
        report.contestants.retain(|contestant| contestant.name == "stock");
    }
    assert!(!svg::render(&alone).contains(">won<"));
}

#[test]
fn repeats_show_their_spread() {
    let suite = Report::new("x".into(), String::new(), vec![row("a", Some(support::report(60, 3)))]);
    let text = suite.text();
    assert!(text.contains("    3 runs: mean TPS "), "{text}");
}

#[test]
fn a_run_without_a_steady_state_is_marked() {
    let mut suite = suite();
    let backlog = |steady_state| Backlog {
        steady_state,
        minute_before_end: BacklogAt::default(),
        end: BacklogAt::default(),
        last_minute_s: 60.0,
        written_last_minute_mib: 100.0,
        drain_s: None,
        drain_bound_s: None,
        left_after_drain_mib: None,
        shared_buffers_unknown: None,
    };
    let result = suite.rows[0].report.as_mut().unwrap();
    for contestant in &mut result.contestants {
        contestant.runs[0].backlog = Some(backlog(contestant.name != "pg_calm"));
        contestant.runs[0].checkpoints.iter_mut().for_each(|checkpoint| checkpoint.start_s = 20.0);
    }
    // It is compared all the same: nobody asked for it to be steady.
    assert_eq!(row("again", suite.rows[0].report.clone()).comparisons, suite.rows[0].comparisons);
    let expected = "no steady state, the backlog still changed at the end: pg_calm";
    for rendered in [suite.text(), suite.html()] {
        assert!(rendered.contains(expected), "{rendered}");
    }
    // What is no fault is not.
    let html = suite.html();
    assert!(html.contains(&format!("<small class=\"mark\">{expected}")), "{html}");
    assert!(html.contains("<small>first 5 s of checkpoints"), "{html}");
}

/// One whose runs were to become steady; stock's or pg_calm's did not.
fn with_steadiness(name: &str, unsteady: Option<&str>) -> Row {
    let mut report = run([100.0, 50.0, 5.0], [150.0, 10.0, 5.0]);
    for contestant in &mut report.contestants {
        let objection = unsteady.filter(|name| contestant.name == *name);
        contestant.runs[0].steadiness = Some(Steadiness {
            objection: objection.map(|_| "2 of 3 checkpoints ended in the measured part".into()),
            warm_up_s: 30.0,
            dirty: Vec::new(),
        });
    }
    row(name, Some(report))
}

#[test]
fn what_is_not_steady_has_no_verdict_and_no_place_in_the_picture() {
    let suite = Report::new(
        "x".into(),
        String::new(),
        vec![
            with_steadiness("stocks", Some("stock")),
            with_steadiness("ours", Some("pg_calm")),
            with_steadiness("both-steady", None),
        ],
    );
    assert_eq!(suite.rows[0].comparisons, []);
    assert_eq!(suite.rows[1].comparisons, []);
    assert_eq!(suite.rows[2].comparisons.len(), 4);
    assert!(suite.rows[2].is_worse() && !suite.rows[1].is_worse());
    let lines = [
        "pg_calm is worse than stock in something",
        "both-steady",
        "Not steady: no verdict",
        "stocks",
        "stock: not steady: 2 of 3 checkpoints ended in the measured part",
        "ours",
    ];
    assert_in_order(&suite.text(), &lines);
    assert_in_order(
        &suite.html(),
        &[
            "href=\"#row-both-steady\"",
            "Not steady: no verdict",
            "href=\"#row-stocks\"",
            "stock: not steady: 2 of 3 checkpoints ended in the measured part",
            "href=\"#row-ours\"",
        ],
    );
    let picture = svg::render(&suite);
    assert!(picture.contains(">both-steady<"), "{picture}");
    assert!(!picture.contains(">stocks<") && !picture.contains(">ours<"), "{picture}");
    // Nor does the report of such a run say who won.
    let of_row = |index: usize| suite.rows[index].report.as_ref().unwrap();
    let headline = &reading::lines(of_row(0))[0];
    assert!(headline.starts_with("stock: not steady: "), "{headline}");
    let said = reading::lines(of_row(1)).join("\n");
    assert!(!said.contains("stock's mean TPS"), "{said}");
    assert!(reading::lines(of_row(2))[0].contains("1.5x stock's mean TPS"));
}

#[test]
fn whose_trouble_failed_has_no_verdict_and_a_remark() {
    let with_trouble = |name: &str, failed: &str, died: bool| {
        let mut report = run([100.0, 50.0, 5.0], [150.0, 10.0, 5.0]);
        for contestant in &mut report.contestants {
            let failure = (contestant.name == failed).then(|| "pg_dump failed".to_string());
            let run = &mut contestant.runs[0];
            run.server_failure = failure.as_ref().filter(|_| died).map(|_| ServerFailure {
                at_s: 30.0,
                message: "No space left on device".into(),
                up_again_s: None,
            });
            run.troubles = vec![TroubleRun { name: "pg-dump".into(), failure, ..TroubleRun::default() }];
        }
        row(name, Some(report))
    };
    let suite = Report::new(
        "x".into(),
        String::new(),
        vec![
            with_trouble("none", "", false),
            with_trouble("ours", "pg_calm", false),
            with_trouble("stocks", "stock", false),
            with_trouble("dead", "pg_calm", true),
        ],
    );
    let compared: Vec<usize> = suite.rows.iter().map(|row| row.comparisons.len()).collect();
    // What failed with its server is compared: it is the server's death that is seen.
    assert_eq!(compared, [4, 0, 0, 4]);
    let alone: Vec<_> = suite.rows.iter().map(Row::failed_alone).collect();
    assert_eq!(alone, [None, Some("its trouble failed"), None, Some("gave up")]);
    for rendered in [suite.text(), suite.html(), markdown::render(&suite, "", |_| false)] {
        for name in ["pg_calm", "stock"] {
            let remark = format!("{name}: no verdict, trouble pg-dump failed: pg_dump failed");
            assert!(rendered.contains(&remark), "{remark}: {rendered}");
        }
    }
}

fn checkpoint() -> Checkpoint {
    Checkpoint {
        start_s: 3.0,
        end_s: 30.0,
        reason: "time".into(),
        buffers: 1,
        write_s: 27.0,
        sync_s: 0.0,
        total_s: 27.0,
        sync_files: 1,
        longest_sync_s: 0.0,
    }
}

#[test]
fn each_figure_has_its_checkpoints_and_a_verdict_beside_it() {
    let mut suite = suite();
    for row in &mut suite.rows {
        let Some(mut report) = row.report.take() else { continue };
        for contestant in &mut report.contestants {
            contestant.runs[0].checkpoints = vec![checkpoint()];
        }
        *row = self::row(&row.name, Some(report));
    }
    assert_eq!(suite.rows[0].comparisons[0].checkpoints, 1);
    assert_eq!(suite.rows[0].comparisons[0].baseline_checkpoints, 1);
    let text = suite.text();
    assert!(text.contains("\n    worse: worst second; better: mean TPS; same: p99.9, longest transaction\n"), "{text}");
    let markdown = markdown::render(&suite, "", |_| false);
    assert_in_order(
        &markdown,
        &[
            "Measured with PostgreSQL 15.20; Linux 6.18.5; ext4; 2000-01-01; pgcalm 0.1.0.",
            "**pg_calm is worse than stock in something**",
            "| The row lost-most | 100 / 120 | 50 / **10** | 5 / 5 | 100 / 100 | 1 / 1 | worse: worst second; better: mean TPS; ",
            "**Others**",
            "| The row won |",
            "**Failed**: failed: no space left",
        ],
    );
    assert!(svg::render(&suite).contains("10 / 120, 1<"));
}

#[test]
fn a_picture_says_that_volumes_are_emulated_and_what_it_was_measured_with() {
    let mut suite = suite();
    let caption = |suite: &Report| {
        let picture = svg::render(suite);
        let document = roxmltree::Document::parse(&picture).unwrap();
        let texts = document.descendants().filter_map(|node| node.text());
        texts.map(str::trim).collect::<Vec<_>>().join(" ")
    };
    assert!(!caption(&suite).contains("emulated"));
    for row in &mut suite.rows {
        row.module = Some("0123456789abcdef".repeat(4));
        if let Some(report) = &mut row.report {
            report.cap.kind = CapKind::CloudVolume;
        }
    }
    let said = caption(&suite);
    for part in
        ["on emulated volumes", "PostgreSQL 15.20; Linux 6.18.5; ext4; 2000-01-01; pg_calm 0123456789ab; pgcalm 0.1.0"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn the_page_is_self_contained_and_has_every_run() {
    let suite = suite();
    let page = suite.html();
    assert_in_order(&page, &["id=\"row-lost-most\"", "id=\"row-lost\"", "id=\"row-won\"", "id=\"row-even\""]);
    for name in ["lost-most", "lost", "won", "even"] {
        assert!(page.contains(&format!("href=\"#row-{name}\"")), "{name}");
    }
    assert!(page.contains("no space left"));
    // Transactions per second of each row, in sight, with its values.
    assert_eq!(page.matches("data-field=\"tps\"").count(), 4);
    assert_eq!(page.matches("class=\"series\"").count(), 4);
    for scheme in ["http:", "https:", "url(", "src=", "@import"] {
        assert!(!page.contains(scheme), "{scheme}");
    }
    assert_eq!(page.matches("href=").count(), page.matches("href=\"#row-").count());
}

#[test]
fn the_size_of_fifty_long_runs_can_be_mailed() {
    let mut long = support::report(180, 1);
    long.contestants.truncate(3);
    let rows = (0..50).map(|index| row(&format!("row-{index}"), Some(long.clone()))).collect();
    let page = Report::new("x".into(), String::new(), rows).html();
    assert!(page.len() < 10_000_000, "{}", page.len());
}

#[test]
fn strings_of_a_suite_are_escaped() {
    let mut suite = suite();
    suite.title = "<script>alert(1)</script>".into();
    suite.rows[2].failure = Some("<img>".into());
    let page = suite.html();
    assert!(!page.contains("<script>alert"));
    assert!(!page.contains("<img>"));
    let mut suite = Report::new("a\u{1b}[31m".into(), String::new(), Vec::new());
    suite.about = "b\u{7}".into();
    let text = suite.text();
    assert!(!text.contains(['\u{1b}', '\u{7}']), "{text:?}");
}

#[test]
fn a_document_reads_back() {
    let suite = suite();
    let json = pgcalm_render::json::to_json_pretty(&suite).unwrap();
    match pgcalm_lab::document::read(&json).unwrap() {
        Document::Suite(read) => assert_eq!(*read, suite),
        other => panic!("{other:?}"),
    }
}

#[test]
fn sections_that_are_not_renewed_stay() {
    let suite = suite();
    let old = "# Old\n\nOld words.\n\n## The row won\n\nold won\n\n## The row lost\n\nold lost\n\n## Gone\n\nx\n\n\
               ## The row never-run\n\n```text\nold never-run\n```\n";
    let new = markdown::render(&suite, old, |row| row.name == "won");
    assert_in_order(
        &new,
        &[
            "# Some rows\n\nFor a test.\n",
            "## The row won\n\n`pgcalm lab run checkpoint --name won`\n\n```text\n",
            "```\n\n## The row lost\n\nold lost\n\n## The row never-run\n\n```text\nold never-run\n```\n",
        ],
    );
    for gone in ["old won", "Gone", "Old words", "## The row even"] {
        assert!(!new.contains(gone), "{gone}: {new}");
    }
    // The matrix says what these say, and the JSON document has them all.
    let result = suite.rows.iter().find(|row| row.name == "won").and_then(|row| row.report.as_ref()).unwrap();
    let readings = result.document().readings;
    assert!(!readings.is_empty());
    for reading in readings {
        assert!(result.text().contains(&reading) && !new.contains(&reading), "{reading}: {new}");
    }
    // Nothing renewed: the same again.
    assert_eq!(markdown::render(&suite, &new, |_| false), new);
}

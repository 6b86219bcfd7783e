//! HTML and SVG: well-formed, self-contained, escaped, and never broken by what a report holds.

use pgcalm_lab::contest::report::chart::svg_tps;
use pgcalm_lab::contest::report::{CapKind, Report, Series};
use pgcalm_lab::report::Shown;
use roxmltree::Document;

use super::support;

const SVG_NAMESPACE: &str = "http://www.w3.org/2000/svg";

/// The inline SVGs of a page.
fn drawings(page: &str) -> Vec<&str> {
    page.match_indices("<svg")
        .map(|(start, _)| {
            let length = page[start..].find("</svg>").expect("an svg element is closed");
            &page[start..start + length + "</svg>".len()]
        })
        .collect()
}

/// What the renderings of any report have in common.
fn check(report: &Report) {
    let page = report.html();
    for drawing in drawings(&page) {
        Document::parse(drawing).unwrap_or_else(|error| panic!("{error}: {drawing}"));
    }
    let svg = svg_tps(report);
    let document = Document::parse(&svg).unwrap_or_else(|error| panic!("{error}: {svg}"));
    assert_eq!(document.root_element().tag_name().namespace(), Some(SVG_NAMESPACE));
    for rendered in [&page, &svg] {
        let fetched = rendered.replace(SVG_NAMESPACE, "");
        for scheme in ["http:", "https:", "url(", "src=", "href=", "@import"] {
            assert!(!fetched.contains(scheme), "{scheme}");
        }
    }
    for rendered in [&page, &svg, &report.text()] {
        for number in ["NaN", "inf", "Infinity"] {
            let word = |rest: &str| rest.chars().next().is_none_or(|c| !c.is_alphanumeric());
            let found = rendered.match_indices(number).find(|(at, found)| word(&rendered[at + found.len()..]));
            assert!(found.is_none(), "{found:?}");
        }
    }
}

#[test]
fn a_picture_says_that_the_volume_is_emulated_and_with_what_it_was_measured() {
    let mut report = support::report(60, 1);
    report.cap.kind = CapKind::CloudVolume;
    report.cap.description = "one emulated gp3: reads and writes share 3000 operations".into();
    report.host.module = Some("0123456789abcdef".repeat(4));
    let picture = svg_tps(&report);
    let document = Document::parse(&picture).unwrap();
    let texts = document.descendants().filter_map(|node| node.text());
    let said = texts.map(str::trim).collect::<Vec<_>>().join(" ");
    for part in [
        "one emulated gp3, PostgreSQL 15.20, Linux 6.18.5, 2000-01-01, pg_calm 0123456789ab, pgcalm 0.1.0,",
        " ext4, roomy sysctls",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn a_full_report() {
    for report in [support::report(150, 1), support::report(240, 3), support::report(1800, 1)] {
        check(&report);
    }
}

#[test]
fn one_line_per_contestant_and_a_thin_one_per_repeat() {
    let lines = |report: &Report| {
        let page = report.html();
        let chart = drawings(&page)[0].to_string();
        let document = Document::parse(&chart).unwrap();
        document
            .descendants()
            .filter_map(|node| node.attribute("class"))
            .filter(|class| class.split(' ').any(|name| name == "line"))
            .map(|class| class.split(' ').any(|name| name == "thin"))
            .collect::<Vec<bool>>()
    };
    assert_eq!(lines(&support::report(60, 1)), [false; 4]);
    assert_eq!(lines(&support::report(60, 3)), [true; 12]);
}

#[test]
fn the_cap_is_drawn_where_there_is_one() {
    let capped = support::report(60, 1);
    let page = capped.html();
    assert!(page.contains("cap 800/s") && page.contains("cap 125 MiB/s"), "{page}");
    let mut uncapped = capped;
    uncapped.settings.insert("data-iops".to_string(), serde_json::json!(null));
    let page = uncapped.html();
    assert!(!page.contains("cap 800/s"));
    check(&uncapped);
}

#[test]
fn a_gap_in_a_series_breaks_the_line() {
    let mut report = support::report(10, 1);
    report.contestants.truncate(1);
    report.contestants[0].runs[0].series.latency_p99_ms = vec![Some(1.0), None, Some(2.0), Some(3.0), None];
    let page = report.html();
    let figure = page.split("data-field=\"latency_p99_ms\"").nth(1).unwrap();
    let chart = drawings(figure)[0];
    let document = Document::parse(chart).unwrap();
    let path = document
        .descendants()
        .find(|node| node.attribute("class").is_some_and(|class| class.starts_with("line")))
        .and_then(|node| node.attribute("d"))
        .unwrap();
    assert_eq!(path.matches('M').count(), 2, "{path}");
    assert_eq!(path.matches('L').count(), 1, "{path}");
}

#[test]
fn everything_is_escaped() {
    let hostile = "</script><img src=x onerror=alert(1)>\"'&\u{0}\u{1b}";
    let mut report = support::report(30, 1);
    report.scenario = hostile.to_string();
    report.host.postgres = hostile.to_string();
    report.settings.insert(hostile.to_string(), serde_json::json!(hostile));
    report.settings.insert("fs".to_string(), serde_json::json!(hostile));
    for contestant in &mut report.contestants {
        contestant.name.push_str(hostile);
        contestant.description = hostile.to_string();
        contestant.server_settings.insert(hostile.to_string(), hostile.to_string());
        for run in &mut contestant.runs {
            run.module_status.insert(hostile.to_string(), serde_json::json!(hostile));
            for checkpoint in &mut run.checkpoints {
                checkpoint.reason = hostile.to_string();
            }
            for blocked in &mut run.blocked {
                blocked.process = hostile.to_string();
                blocked.stack.push(hostile.to_string());
            }
        }
    }
    let page = report.html();
    assert!(!page.contains("<img"));
    assert_eq!(page.matches("</script>").count(), 2, "those of the page itself");
    for drawing in drawings(&page) {
        Document::parse(drawing).unwrap();
    }
    let svg = svg_tps(&report);
    assert!(!svg.contains("<img"));
    Document::parse(&svg).unwrap();
}

#[test]
fn nothing_measured() {
    let full = support::report(60, 2);
    let mut no_contestants = full.clone();
    no_contestants.contestants.clear();
    check(&no_contestants);

    let mut no_runs = full.clone();
    no_runs.contestants.iter_mut().for_each(|contestant| contestant.runs.clear());
    check(&no_runs);

    let mut one_without_runs = full.clone();
    one_without_runs.contestants[2].runs.clear();
    check(&one_without_runs);

    let mut no_series = full.clone();
    for run in no_series.contestants.iter_mut().flat_map(|contestant| &mut contestant.runs) {
        run.series = Series::default();
        run.checkpoints.clear();
    }
    check(&no_series);

    let mut no_settings = full;
    no_settings.settings.clear();
    check(&no_settings);
}

#[test]
fn numbers_that_are_none() {
    let values = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -1.0, f64::MAX, f64::MIN, f64::MIN_POSITIVE];
    for value in values {
        let mut everywhere = support::report(20, 2);
        for run in everywhere.contestants.iter_mut().flat_map(|contestant| &mut contestant.runs) {
            support::poison(run, value);
        }
        check(&everywhere);
        let mut in_one = support::report(20, 2);
        support::poison(&mut in_one.contestants[0].runs[0], value);
        check(&in_one);
    }
}

#[test]
fn any_subset_of_contestants() {
    let full = support::report(130, 1);
    for chosen in 0..1u32 << full.contestants.len() {
        let mut report = full.clone();
        let mut index = 0;
        report.contestants.retain(|_| {
            index += 1;
            chosen & (1 << (index - 1)) != 0
        });
        check(&report);
    }
}

#[test]
fn series_of_different_lengths() {
    let mut report = support::report(60, 1);
    report.contestants[0].runs[0].series.tps.truncate(1);
    report.contestants[1].runs[0].series.tps.truncate(30);
    report.contestants[1].runs[0].series.dirty_mib.clear();
    check(&report);
}

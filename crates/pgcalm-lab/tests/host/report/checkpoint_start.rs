//! What the first seconds of checkpoints come to.

use pgcalm_lab::contest::report::metric::{
    Metric, START_LATENCY_P99, START_LATENCY_P99_RATIO, START_TPS_BEFORE, START_TPS_MEAN, START_TPS_MIN,
};
use pgcalm_lab::contest::report::{Contestant, Run, checkpoint_start};
use pgcalm_lab::report::Shown;

use super::support;

/// 60 seconds of 100 TPS with a p99 of 2 ms, and checkpoints that start then.
fn contestant(starts: &[f64]) -> Contestant {
    let mut contestant = support::report(150, 1).contestants.remove(0);
    let run = &mut contestant.runs[0];
    let checkpoint = run.checkpoints[0].clone();
    run.tps_median = 100.0;
    run.series.tps = vec![100.0; 60];
    run.series.latency_p99_ms = vec![Some(2.0); 60];
    run.checkpoints = starts
        .iter()
        .map(|start_s| {
            let mut checkpoint = checkpoint.clone();
            checkpoint.start_s = *start_s;
            checkpoint
        })
        .collect();
    contestant
}

fn of(metric: &Metric, contestant: &Contestant) -> Option<f64> {
    metric.median_of(contestant)
}

#[test]
fn the_five_seconds_after_each_start_count_and_no_others() {
    // The first is before the window, the last one's seconds are not all in it.
    let mut contestant = contestant(&[-1.0, 20.4, 40.6, 55.8]);
    let run: &mut Run = &mut contestant.runs[0];
    for (second, tps) in [(3, 1.0), (19, 1.0), (22, 30.0), (25, 1.0), (45, 70.0), (46, 1.0), (57, 1.0)] {
        run.series.tps[second] = tps;
    }
    run.series.latency_p99_ms[10] = Some(99.0);
    run.series.latency_p99_ms[24] = Some(6.0);
    assert_eq!(of(&START_TPS_MIN, &contestant), Some(30.0));
    assert_eq!(of(&START_TPS_MEAN, &contestant), Some(90.0));
    // 430 after 10 seconds with 901 of 1000, 470 after 10 with 1000.
    let before = (430.0 / 5.0 / 90.1 + 470.0 / 5.0 / 100.0) / 2.0 * 100.0;
    assert!((of(&START_TPS_BEFORE, &contestant).unwrap() - before).abs() < 1e-9);
    assert_eq!(of(&START_LATENCY_P99, &contestant), Some(6.0));
    assert_eq!(of(&START_LATENCY_P99_RATIO, &contestant), Some(3.0));
    assert_eq!(
        checkpoint_start::sentence(&[contestant]).as_deref(),
        Some("first 5 s of checkpoints, worst second and mean in % of the median: stock 30 and 90 %")
    );
}

#[test]
fn one_that_is_under_way_at_the_end_counts() {
    let mut contestant = contestant(&[]);
    assert_eq!(of(&START_TPS_MIN, &contestant), None);
    assert_eq!(checkpoint_start::sentence(std::slice::from_ref(&contestant)), None);
    let run = &mut contestant.runs[0];
    run.checkpoint_under_way_s = Some(10.0);
    run.series.tps[49] = 1.0;
    run.series.tps[52] = 0.0;
    assert_eq!(of(&START_TPS_MIN, &contestant), Some(0.0));
    // Nothing at all is not the same as nothing known.
    let mut report = support::report(150, 1);
    report.contestants = vec![contestant];
    let rendered = report.text();
    assert!(rendered.contains("First 5 s of checkpoints"), "{rendered}");
}

#[test]
fn figures_that_are_none_give_none() {
    let mut contestant = contestant(&[20.0]);
    contestant.runs[0].tps_median = 0.0;
    assert_eq!(of(&START_TPS_MIN, &contestant), None);
    for start_s in [f64::NAN, f64::INFINITY, f64::MAX, -f64::MAX] {
        contestant.runs[0].checkpoints[0].start_s = start_s;
        assert_eq!(of(&START_LATENCY_P99, &contestant), None);
    }
}

//! The document: what is written reads back, and what cannot be read is named.

use pgcalm_lab::document::from_json;
use pgcalm_render::json::to_json_pretty;

use super::support;

#[test]
fn reads_back_as_written() {
    let report = support::report(60, 2);
    let document = to_json_pretty(&report).unwrap();
    assert!(document.ends_with("}\n"));
    // Not assert_eq: it would print both.
    assert!(from_json(&document).unwrap() == report);
}

#[test]
fn the_documents_shape_is_as_promised() {
    let document = to_json_pretty(&support::report(60, 1)).unwrap();
    let value: serde_json::Value = serde_json::from_str(&document).unwrap();
    let run = &value["contestants"][0]["runs"][0];
    for pointer in [
        "/tps_mean",
        "/tps_median",
        "/tps_min",
        "/tps_p5",
        "/seconds_below_half_median",
        "/seconds_zero",
        "/latency_ms/p50",
        "/latency_ms/p99",
        "/latency_ms/p999",
        "/latency_ms/max",
        "/data_device/write_ops_per_s",
        "/data_device/write_mib_per_s",
        "/series/tps/59",
    ] {
        assert!(run.pointer(pointer).is_some_and(serde_json::Value::is_number), "{pointer}");
    }
    assert!(run["checkpoints"].is_array());
}

#[test]
fn a_wrong_field_is_named_with_its_path() {
    let document = to_json_pretty(&support::report(5, 1)).unwrap();
    let mut value: serde_json::Value = serde_json::from_str(&document).unwrap();
    value["contestants"][1]["runs"][0]["tps_mean"] = "fast".into();
    let message = from_json(&value.to_string()).unwrap_err().to_string();
    assert!(message.contains("`contestants[1].runs[0].tps_mean`"), "{message}");
    assert!(message.contains("fast"), "{message}");
    assert!(!message.contains('\n'), "{message}");

    let mut value: serde_json::Value = serde_json::from_str(&document).unwrap();
    value["host"].as_object_mut().unwrap().remove("kernel");
    let message = from_json(&value.to_string()).unwrap_err().to_string();
    assert!(message.contains("`host`") && message.contains("`kernel`"), "{message}");
}

#[test]
fn unknown_fields_are_skipped() {
    let report = support::report(5, 1);
    let mut value = serde_json::to_value(&report).unwrap();
    value["of_a_later_version"] = 1.into();
    assert!(from_json(&value.to_string()).unwrap() == report);
}

#[test]
fn what_is_no_json_is_said_to_be_none() {
    for text in ["", "{", "hello", "<html>"] {
        let error = from_json(text).unwrap_err();
        assert!(error.to_string().starts_with("not a JSON document: "), "{text}: {error}");
    }
    let document = to_json_pretty(&support::report(5, 1)).unwrap();
    let refusal = |document: &str| from_json(document).unwrap_err().to_string();
    assert!(refusal(&format!("{document}{document}")).starts_with("not a JSON document: "));
    assert!(refusal("[]").starts_with("not a report of pgcalm: field `.`: "));
}

#[test]
fn a_number_that_is_not_finite_is_not_written() {
    let mut report = support::report(5, 1);
    report.contestants[2].runs[0].latency_ms.as_mut().unwrap().p99 = f64::NAN;
    let message = to_json_pretty(&report).unwrap_err().to_string();
    assert!(message.contains("`contestants[2].runs[0].latency_ms.p99`"), "{message}");
}

#[test]
fn a_document_of_an_earlier_version_is_read_with_what_follows_from_it() {
    let report = support::report(60, 1);
    let mut value = serde_json::to_value(&report).unwrap();
    value.as_object_mut().unwrap().remove("cap");
    let run = value["contestants"][0]["runs"][0].as_object_mut().unwrap();
    for field in ["data_device", "wal_device"] {
        assert!(run.remove(field).is_some(), "{field}");
    }
    run.insert("device_write_ops_per_s".into(), 774.0.into());
    let series = run["series"].as_object_mut().unwrap();
    for field in ["data_read_mib", "data_flush_ops", "wal_read_ops", "wal_read_mib", "wal_flush_ops"] {
        assert!(series.remove(field).is_some(), "{field}");
    }
    assert!(from_json(&value.to_string()).unwrap() == report);
}

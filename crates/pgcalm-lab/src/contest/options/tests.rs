use super::*;
use crate::options::parsed;

fn options(arguments: &[&str]) -> Options {
    parsed(arguments).unwrap()
}

#[test]
fn the_quick_form_is_a_default_that_other_options_override() {
    assert_eq!(options(&[]).rows, 20_000_000);
    let quick = options(&["--quick", "--seconds", "40"]);
    assert_eq!((quick.rows, quick.seconds), (10_000_000, Seconds(40)));
    assert_eq!(quick.checkpoint_timeout, Seconds(30));
}

#[test]
fn what_is_in_force_is_named_as_on_the_command_line() {
    let named = options(&["--set", "wal_compression=lz4"]).named();
    assert_eq!(named["rows"], 20_000_000);
    assert_eq!(named["data-iops"], 800);
    assert_eq!(named["wal-bps"], "none");
    assert_eq!(named["layout"], "two");
    assert_eq!(named["load"], "upsert");
    assert_eq!(named["distribution"], "uniform");
    assert_eq!(named["sysctl"], "default");
    assert_eq!(named["set"], serde_json::json!(["wal_compression=lz4"]));
    assert_eq!(named["contestants"], serde_json::json!(["stock", "stock-tuned", "pg_calm"]));
    assert!(!named.contains_key("dir"), "{named:?}");
}

#[test]
fn a_volume_takes_the_place_of_caps_and_the_module_is_told_its_limits() {
    let options = options(&["--volume", "gp3", "--memory", "4GB", "--shared-buffers", "1GB"]);
    options.check().unwrap();
    let named = options.named();
    assert_eq!(named["volume"], "gp3");
    assert_eq!(named["layout"], "one");
    assert!(!named.contains_key("data-iops"), "{named:?}");
    // A tenth and a fifth of 4096 - 1024 - 300 MiB.
    assert_eq!(named["sysctl"], "default:2772MB");
    let of = |name| options.server_settings(contestant::parse(name).unwrap());
    assert_eq!(of("pg_calm")["pg_calm.iops"], "3000");
    assert!(!of("pg_calm").contains_key("pg_calm.write_iops"));
    assert_eq!(of("pg_calm")["pg_calm.io_size"], "256kB");
    assert!(!of("stock").contains_key("pg_calm.iops"));
    assert!(parsed::<Options>(&["--volume", "gp3", "--data-iops", "500"]).is_err());
}

#[test]
fn twice_the_operations_is_all_that_money_buys() {
    let twice = contestant::parse("stock-twice").unwrap();
    let of = |arguments: &[&str]| options(arguments).of(twice).unwrap();
    let volume = |text| of(&["--volume", text]).common.volume.unwrap();
    assert_eq!(volume("gp3").to_string(), "gp3:iops=6000");
    assert_eq!(volume("gp3:iops=4000").limits(), volume("gp3:iops=4000,depth=128").limits());
    let limits = volume("custom:read_iops=500,write_iops=300,bandwidth=50MB").limits();
    assert_eq!(limits.operations.read.unwrap().sustained, 1000);
    assert_eq!(limits.operations.write.unwrap().sustained, 600);
    assert_eq!(limits.bytes.shared.unwrap().sustained, 50 << 20);
    let capped = of(&["--data-iops", "800", "--wal-iops", "none"]);
    assert_eq!((capped.data_iops, capped.wal_iops), (Limit(Some(1600)), Limit(None)));
    let stock = contestant::parse("stock").unwrap();
    let volume = options(&["--volume", "gp3"]).of(stock).unwrap().common.volume;
    assert_eq!(volume.unwrap().to_string(), "gp3");
}

#[test]
fn a_table_is_as_large_as_asked_for() {
    let upsert = options(&["--table-size", "1250MB"]);
    assert_eq!(upsert.table_rows(), (1250 << 20) / 125);
    let tpcb = options(&["--load", "tpcb", "--rows", "150000"]);
    assert_eq!(tpcb.table_rows(), 200_000);
}

#[test]
fn what_can_not_work_together_is_refused() {
    for arguments in [
        &["--memory", "1GB", "--shared-buffers", "900MB"][..],
        &["--volume", "gp3", "--wal-volume", "gp2"],
        &["--load", "tpcb", "--distribution", "zipfian"],
        &["--contestants", "stock,stock"],
    ] {
        let error = options(arguments).check().unwrap_err();
        assert!(matches!(error, Failure::Usage(_)), "{arguments:?}");
    }
}

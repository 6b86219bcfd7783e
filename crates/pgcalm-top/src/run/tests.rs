use pgcalm_monitor::HistoryLimits;
use pgcalm_monitor::model::{Identity, Unflushed};

use super::*;

fn host(second: u64, names: &[&str]) -> Host {
    let instance = |name: &&str| Instance {
        identity: Identity { name: name.to_string(), ..Identity::default() },
        unflushed: Some(Unflushed { pages: 1, ..Unflushed::default() }),
        ..Instance::default()
    };
    Host { time_ms: second * 1000, instances: names.iter().map(instance).collect(), ..Host::default() }
}

/// Of a record of these samples, from that second on.
fn options(hosts: &[Host], at: Option<u64>) -> Options {
    let samples = History::new(HistoryLimits::default());
    hosts.iter().for_each(|host| samples.push(host).unwrap());
    let record = Record { samples, at_ms: at.map(|second| second * 1000), interval: Duration::from_secs(10) };
    Options { record: Some(Arc::new(record)), ..Options::default() }
}

#[test]
fn between_samples_that_were_thinned_there_is_no_gap() {
    let hosts: Vec<Host> = (0..30).map(|number| host(1000 + number * 10, &["5432"])).collect();
    let mut session = Session::start(options(&hosts, None)).unwrap();
    session.look();
    let mut pieces = Vec::new();
    session.show(|scene| {
        pieces = scene.series(|figures| figures.unflushed_pages).pieces(scene.start(), scene.end(), scene.gap());
    });
    assert_eq!(pieces.len(), 1, "{pieces:?}");
}

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

#[test]
fn an_instance_of_a_record_is_found_at_the_moment_shown_or_at_another() {
    let hosts = [host(1000, &["5432", "5433"]), host(1010, &["5433"])];
    let once = |instance: &str, at| {
        let options = Options { instance: Some(instance.to_string()), ..options(&hosts, Some(at)) };
        once(options, 100, &|| false)
    };
    let text = once("5432", 1000).unwrap().text;
    assert!(text.contains("> 5432"), "{text}");
    // That of another instance is no answer.
    let error = once("5432", 1010).err().unwrap().to_string();
    assert!(error.contains("--instance 5432: was not there at "), "{error}");
    let error = once("5434", 1010).err().unwrap().to_string();
    assert!(error.contains("no such server"), "{error}");
}

#[test]
fn no_key_makes_a_record_live() {
    let hosts: Vec<Host> = (1000..1010).map(|second| host(second, &["5432"])).collect();
    let mut session = Session::start(options(&hosts, Some(1005))).unwrap();
    for command in [Command::Pause, Command::Live, Command::Later(99), Command::MinuteLater] {
        session.apply(command);
        assert_eq!(session.state.moment, Moment::At(1009.0), "{command:?}");
    }
}

#[test]
fn nobody_travels_to_what_history_has_forgotten() {
    let history = History::new(HistoryLimits { bytes: 20_000, ..HistoryLimits::default() });
    assert_eq!(with_samples(vec![1000.0], &history), [1000.0], "none is there yet");
    let mut track = Track::default();
    for second in 1000..1500 {
        let host = host(second, &["5432"]);
        history.push(&host).unwrap();
        track.push(&host);
    }
    let moments = with_samples(track.moments(), &history);
    assert_eq!((moments.len(), moments.last()), (history.len(), Some(&1499.0)));
    assert!(moments.len() < 500);
}

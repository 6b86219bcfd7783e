use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pgcalm_monitor::export::alive::{Stall, StallSource};
use pgcalm_monitor::export::{ExportOptions, Exporter};
use pgcalm_trace::stop::Stop;

use crate::args::export::ExportArgs;
use crate::output;
use pgcalm_monitor::IncidentSource;
use pgcalm_record::detect::Detector;
use pgcalm_record::store::Reader;

/// As postgres_exporter's, which it stands in for.
const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9187);

/// Exports until a signal ends it, which is no error.
pub(crate) fn run(args: ExportArgs) -> anyhow::Result<()> {
    let stop = Stop::install()?;
    let listen = match (args.listen, &args.textfile) {
        (None, None) => Some(LISTEN),
        (listen, _) => listen,
    };
    let textfile = args.textfile.clone();
    let exporter = Exporter::start(ExportOptions {
        listen,
        textfile: args.textfile,
        connect: args.servers.connect,
        interval: args.interval,
        incidents: args.record.map(incidents),
        stalls: Some(stalls(args.interval)),
    })?;
    if let Some(address) = exporter.address() {
        output::say(&format!("pgcalm export: http://{address}/metrics"));
    }
    if let Some(file) = textfile {
        output::say(&format!("pgcalm export: {}", file.display()));
    }
    exporter.run(|| stop.is_set(), |problem| output::say(&format!("pgcalm export: {problem}")))
}

/// Counts the incidents of a record. It is opened at each sample: a recorder may begin it later, or anew, and a connection that stays
/// open would keep the recorder's log from being emptied. Why there is nothing to be counted is said once for each reason.
fn incidents(directory: PathBuf) -> IncidentSource {
    let said = Mutex::new(String::new());
    IncidentSource(Arc::new(move || {
        let counted = Reader::open(&directory).and_then(|reader| reader.counts());
        let problem = counted.as_ref().err().map_or_else(String::new, ToString::to_string);
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        if problem != *said && !problem.is_empty() {
            output::say(&format!("pgcalm export: --record {problem}"));
        }
        *said = problem;
        counted.unwrap_or_default()
    }))
}

/// Judges the samples as the recorder does, whether it runs or not.
fn stalls(interval: Duration) -> StallSource {
    let detector = Mutex::new(Detector::every(interval));
    StallSource(Arc::new(move |host| {
        // Where it stopped half way it begins anew with the next sample.
        let mut detector = detector.lock().unwrap_or_else(PoisonError::into_inner);
        detector.push(host);
        let stall = |incident: pgcalm_record::incident::Incident| Stall {
            server: incident.server,
            started_ms: incident.started_ms,
            cause: incident.cause.name(),
            sentence: incident.sentence,
        };
        detector.going_on().map(stall).collect()
    }))
}

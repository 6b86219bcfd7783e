use std::path::Path;
use std::time::Duration;

use pgcalm_host::Failure;
use pgcalm_monitor::{Monitor, Options};
use pgcalm_record::incident::Incident;
use pgcalm_record::report::list::Incidents;
use pgcalm_record::report::time::with_zone;
use pgcalm_record::report::{card, list};
use pgcalm_record::store::{DIRECTORY, Limits, Reader};
use pgcalm_record::{now, recorder, when};
use pgcalm_render::number::plural;
use pgcalm_render::text::paragraph;
use pgcalm_trace::stop::Stop;

use crate::args::json::JsonArg;
use crate::args::record::{IncidentArgs, IncidentsArgs, RecordArgs};
use crate::output;

/// How long `pgcalm` without arguments waits for servers.
const PATIENCE: Duration = Duration::from_secs(6);

/// Records until a signal ends it, which is no error.
pub(crate) fn run(args: RecordArgs) -> anyhow::Result<()> {
    if let Some(file) = &args.export {
        let reader = open(&args.dir.dir)?;
        return match reader.export(file) {
            Ok(()) => {
                output::say(&format!("pgcalm record: copied into {}", file.display()));
                Ok(())
            }
            Err(error) => Err(Failure::Usage(format!("--export {error}")).into()),
        };
    }
    let bytes = args.max_size.bytes();
    if bytes < Limits::LEAST_BYTES {
        return Err(Failure::Usage("--max-size: hardly an hour would be kept; give at least 16MB".to_string()).into());
    }
    let stop = Stop::install()?;
    let options = recorder::Options {
        directory: args.dir.dir,
        limits: Limits { keep: args.keep, bytes },
        same_device: args.same_device,
        monitor: Options { connect: args.servers.connect, ..Options::default() },
    };
    recorder::run(options, &|| stop.is_set(), output::say)
}

/// Lists incidents.
pub(crate) fn incidents(args: &IncidentsArgs) -> anyhow::Result<()> {
    output::check_writable("--json", args.json.file())?;
    let since_ms = match &args.since {
        Some(text) => Some(when::parse("--since", text, &when::now())?),
        None => None,
    };
    let reader = open(&args.dir.dir)?;
    let incidents = reader.incidents(since_ms.unwrap_or(0))?;
    let list = Incidents { pgcalm: env!("CARGO_PKG_VERSION").to_string(), since_ms, incidents };
    output::present(&args.json, &list, &list::text(&list, reader.silence(recorder::now_ms())?.as_deref()))
}

/// Shows one.
pub(crate) fn incident(args: &IncidentArgs) -> anyhow::Result<()> {
    let dir = &args.dir.dir;
    let found = open(dir)?.incident(args.id)?;
    let Some(incident) = found else {
        anyhow::bail!(Failure::Usage(format!(
            "incident {}: is not in {}; pgcalm incidents lists those that are",
            args.id,
            dir.display()
        )));
    };
    show(&incident, args.html.as_deref(), &args.json)
}

/// Shows what stalled at a moment.
pub(crate) fn at(
    text: &str,
    instance: Option<&str>,
    dir: &Path,
    html: Option<&Path>,
    json: &JsonArg,
) -> anyhow::Result<()> {
    let (first, other) = when::moments("--at", text, &when::now())?;
    let reader = open(dir)?;
    let mut moments = Vec::new();
    let mut is_covered = false;
    for at in [Some(first), other].into_iter().flatten() {
        // A time of day names a minute.
        let mut incidents = reader.around(at)?;
        incidents.retain(|incident| instance.is_none_or(|instance| is_of(incident, instance)));
        if let Some(incident) = incidents.first() {
            if incidents.len() > 1 {
                let others = plural((incidents.len() - 1) as f64, "incident");
                output::say(&format!("--at {text}: {others} more within a minute of it; pgcalm incidents lists all"));
            }
            return show(incident, html, json);
        }
        moments.push(with_zone(at));
        is_covered |= reader.covers(at)?;
    }
    let why = if is_covered { "nothing stalled then" } else { "nothing was recorded then" };
    let moments = moments.join(" and ");
    let of = instance.map_or(String::new(), |instance| {
        format!(" of --instance {instance}, which a record knows by data directory and port")
    });
    Err(Failure::Usage(format!("--at {text}: {why}{of} ({moments}); pgcalm incidents lists what stalled")).into())
}

/// Whether the name, which the port is a part of, or the data directory is meant.
fn is_of(incident: &Incident, instance: &str) -> bool {
    let directory = instance.trim_end_matches('/');
    incident.server == instance
        || incident.server.split(':').any(|part| part == directory)
        || incident.data_directory.as_deref() == Some(directory)
}

fn show(incident: &Incident, html: Option<&Path>, json: &JsonArg) -> anyhow::Result<()> {
    output::check_writable("--json", json.file())?;
    output::check_writable("--html", html)?;
    let document = card::document(incident);
    let presented = output::present(json, incident, &document.text());
    if let Some(file) = html {
        output::write(file, &document.html())?;
        output::say(&format!("HTML: {}", file.display()));
    }
    presented
}

/// Three sentences: now, the last day, what to do first.
pub(crate) fn sentences() -> anyhow::Result<()> {
    let monitor = Monitor::start(Options { history: None, ..Options::default() })?;
    // A server that was just found is asked at once; who does not answer in time is said not to.
    let host = monitor.wait_for(PATIENCE, |host| {
        host.instances.iter().all(|instance| {
            use pgcalm_monitor::model::Reachability::{Connecting, Reachable};
            instance.reachability != Connecting && (instance.reachability != Reachable || instance.activity.is_some())
        })
    });
    let host = host.unwrap_or_else(|| monitor.latest());
    let mut text = String::new();
    now::sentences(&host, Path::new(DIRECTORY)).lines().for_each(|line| paragraph(&mut text, line));
    output::print(&text)
}

/// Opens the record to be read.
pub(crate) fn open(path: &Path) -> anyhow::Result<Reader> {
    Reader::open(path)
}

//! `pgcalm` without arguments: is something stalling now, did something stall in the last day, what to do first.

use std::path::Path;

use pgcalm_host::{Failure, HostRoot};
use pgcalm_monitor::model::{Host, Reachability};
use pgcalm_render::number::{plural, short};

use crate::incident::{Cause, Incident};
use crate::place;
use crate::report::card::words;
use crate::report::time::time;
use crate::store::{Reader, file_of};

/// A day.
const DAY_MS: u64 = 86_400_000;

/// Three sentences, a line each, from a sample with rates and the record, if there is one in `directory`.
pub fn sentences(host: &Host, directory: &Path) -> String {
    let is_root = rustix::process::geteuid().is_root();
    let is_refused = || matches!(place::check(&HostRoot::default(), directory), Err(Failure::Usage(_)));
    told(host, directory, is_root, &is_refused)
}

/// The same for this user, where `is_refused` tells whether the service would not start on the directory.
fn told(host: &Host, directory: &Path, is_root: bool, is_refused: &dyn Fn() -> bool) -> String {
    let (now, stalls) = now(host, is_root);
    let from = host.time_ms.saturating_sub(DAY_MS);
    let read = Reader::open(directory).and_then(|reader| {
        let begins = reader.range()?.map(|(first, _)| first).filter(|first| *first > from);
        Ok((reader.incidents(from)?, begins, reader.silence(host.time_ms)?))
    });
    let (day, worst) = match &read {
        Ok((incidents, begins, silence)) => last_day(incidents, *begins, silence.as_deref()),
        Err(_) if file_of(directory).try_exists().is_ok_and(|there| !there) => {
            let text = format!(
                "Nothing is recorded in {} (elsewhere: pgcalm incidents --dir), so what stalled in the last day is not \
                 known.",
                directory.display()
            );
            (text, None)
        }
        Err(error) => (format!("What stalled in the last day can't be told: {error}."), None),
    };
    let first = match (stalls, worst, &read) {
        (true, ..) => "First: sudo pgcalm trace why shows what holds it up at this moment.".to_string(),
        (_, Some(incident), _) if incident.cause != Cause::Unknown => {
            format!("First: {} ({}).", incident.cure.text.trim_end_matches('.'), incident.cure.command)
        }
        (_, _, Err(_) | Ok((_, _, Some(_)))) => {
            // Looked for only where nothing stalls: it reads servers' files.
            let place = if is_refused() {
                format!(
                    "mount another disk at {}, which is on a server's, or sudo systemctl edit pgcalm-record \
                     ([Service], Environment=PGCALM_RECORD_OPTIONS=\"--same-device\"); then ",
                    directory.display()
                )
            } else {
                String::new()
            };
            format!(
                "First: {place}sudo systemctl enable --now pgcalm-record, so that the next stall explains itself; \
                 sudo pgcalm doctor tells what will stall."
            )
        }
        _ => "First: sudo pgcalm doctor tells what will stall, before it does.".to_string(),
    };
    format!("{now}\n{day}\n{first}\n")
}

/// What stalls at this moment, as far as one look tells without knowing what is usual.
fn now(host: &Host, is_root: bool) -> (String, bool) {
    let mut held: Vec<String> = Vec::new();
    let mut away: Vec<String> = Vec::new();
    let mut way_out = "";
    for instance in &host.instances {
        let name = format!("instance {}", instance.identity.name);
        match &instance.reachability {
            Reachability::Hung { seconds } => held.push(format!("{name} has not answered for {} s", short(*seconds))),
            Reachability::Unreachable { why, closed, denied } => {
                let mut why = why.as_str();
                if !is_root && !closed {
                    way_out = " Run: sudo pgcalm";
                }
                if !is_root && *denied {
                    // What follows is a way out by --connect, which is no option here; root gets in as the server's user.
                    why = why.split(": ").next().unwrap_or(why);
                }
                away.push(format!("{name} can't be looked into ({why})"));
            }
            Reachability::Connecting => away.push(format!("{name} has not answered yet")),
            Reachability::Reachable => {
                let slow = instance.activity.as_ref().map_or(0, |activity| activity.slow_sessions);
                let seconds = instance.activity.as_ref().and_then(|activity| activity.slow_seconds).unwrap_or(0.0);
                if slow >= 3 {
                    held.push(format!("in {name} {slow} statements have run for up to {} s", short(seconds)));
                }
            }
        }
    }
    let seen = host.instances.len() - away.len();
    let names = away.join(", ");
    let away = if away.is_empty() { String::new() } else { format!(", but {names}") };
    match (seen, held.is_empty()) {
        _ if host.instances.is_empty() => ("No PostgreSQL server was found on this host.".to_string(), false),
        (0, _) => (format!("Not known what stalls now: {names}.{way_out}"), false),
        (seen, true) => {
            let active: u64 = host
                .instances
                .iter()
                .filter_map(|instance| instance.activity.as_ref())
                .map(|activity| activity.connections.active)
                .sum();
            let servers = plural(seen as f64, "server");
            let sessions = plural(active as f64, "active session");
            (format!("Nothing stalls now: {servers}, {sessions}{away}.{way_out}"), false)
        }
        _ => (format!("Now: {}{away}.{way_out}", held.join(", ")), true),
    }
}

/// What stalled, and the worst of it, in a record that begins only then, or does not go on.
fn last_day<'a>(
    incidents: &'a [Incident],
    begins: Option<u64>,
    silence: Option<&str>,
) -> (String, Option<&'a Incident>) {
    let Some(worst) = incidents.iter().max_by(|a, b| a.lost_commits.total_cmp(&b.lost_commits)) else {
        let text = match (silence, begins) {
            (Some(silence), _) => format!("What stalled in the last day is not known: {silence}."),
            (None, Some(begins)) => format!("Nothing stalled since {}, when the record begins.", time(begins)),
            (None, None) => "Nothing stalled in the last day.".to_string(),
        };
        return (text, None);
    };
    let id = worst.id.map_or(String::new(), |id| format!(" (pgcalm incident {id})"));
    let text = format!(
        "In the last day: {}; the worst at {}, instance {}, {} s: {}{id}{}.",
        plural(incidents.len() as f64, "stall"),
        time(worst.started_ms),
        worst.server,
        short(worst.seconds),
        words(worst.cause),
        silence.map_or(String::new(), |silence| format!("; {silence}")),
    );
    (text, Some(worst))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::store::tests::{NOW, incident};
    use crate::store::{Item, Limits, Packer, Writer};
    use pgcalm_monitor::model::{Activity, Identity, Instance};

    /// As root is told it, with a disk for the record.
    fn sentences(host: &Host, directory: &Path) -> String {
        told(host, directory, true, &|| false)
    }

    fn identity(name: &str) -> Identity {
        Identity { name: name.to_string(), ..Identity::default() }
    }

    #[test]
    fn there_are_three_sentences_whatever_there_is() {
        let directory = tempfile::tempdir().unwrap();
        let none = sentences(&Host::default(), directory.path());
        assert_eq!(none.lines().count(), 3, "{none}");
        assert!(none.contains("No PostgreSQL server") && none.contains("pgcalm-record"), "{none}");
        let instance = |slow_sessions| Instance {
            identity: identity("5432"),
            reachability: Reachability::Reachable,
            activity: Some(Activity { slow_sessions, slow_seconds: Some(7.0), ..Activity::default() }),
            ..Instance::default()
        };
        let calm = sentences(&Host { instances: vec![instance(0)], ..Host::default() }, directory.path());
        assert!(calm.starts_with("Nothing stalls now: 1 server, 0 active sessions.\n"), "{calm}");
        let stalls = sentences(&Host { instances: vec![instance(9)], ..Host::default() }, directory.path());
        assert!(stalls.starts_with("Now: in instance 5432 9 statements have run for up to 7 s.\n"), "{stalls}");
        assert!(stalls.lines().last().unwrap().contains("trace why"), "{stalls}");
    }

    /// It once said that nothing stalls, and named an option that there is none of.
    #[test]
    fn servers_that_let_nobody_in_are_not_said_to_be_calm() {
        let directory = tempfile::tempdir().unwrap();
        let instance = |name, reachability| Instance { identity: identity(name), reachability, ..Instance::default() };
        let refused = |closed: bool| {
            let why = "role \"dba\" does not exist: name another role with user=".to_string();
            instance("5432", Reachability::Unreachable { why, closed, denied: !closed })
        };
        let first = |instances: &[Instance], is_root| {
            let host = Host { instances: instances.to_vec(), ..Host::default() };
            told(&host, directory.path(), is_root, &|| false).lines().next().unwrap().to_string()
        };
        let unknown = "Not known what stalls now: instance 5432 can't be looked into (role \"dba\" does not exist";
        assert_eq!(first(&[refused(false)], false), format!("{unknown}). Run: sudo pgcalm"));
        assert_eq!(first(&[refused(false)], true), format!("{unknown}: name another role with user=)."));
        // One that starts is no less closed to root.
        assert!(!first(&[refused(true)], false).contains("sudo"), "{}", first(&[refused(true)], false));
        let both = first(&[refused(false), instance("5433", Reachability::Reachable)], false);
        assert!(both.starts_with("Nothing stalls now: 1 server, 0 active sessions, but instance 5432 can't"), "{both}");
        assert!(both.ends_with("does not exist). Run: sudo pgcalm"), "{both}");
    }

    /// Else the unit that it names would end at once.
    #[test]
    fn a_directory_on_a_servers_disk_is_told_with_what_the_unit_needs() {
        let directory = tempfile::tempdir().unwrap();
        let record = directory.path().join("record");
        let path = record.display().to_string();
        let text = |is_refused: bool| told(&Host::default(), &record, true, &|| is_refused);
        assert!(text(false).contains(&format!("\nNothing is recorded in {path} (")), "{}", text(false));
        assert!(text(false).contains("\nFirst: sudo systemctl enable"), "{}", text(false));
        let refused = text(true);
        assert_eq!(refused.lines().count(), 3, "{refused}");
        assert!(refused.contains(&format!("First: mount another disk at {path}")), "{refused}");
        let edit = "sudo systemctl edit pgcalm-record ([Service], Environment=PGCALM_RECORD_OPTIONS=\"--same-device\")";
        assert!(refused.contains(&format!("{edit}; then sudo systemctl enable --now pgcalm-record")), "{refused}");
    }

    #[test]
    fn a_record_that_stopped_says_so() {
        let directory = tempfile::tempdir().unwrap();
        let limits = Limits { keep: Duration::from_secs(86_400), bytes: Limits::LEAST_BYTES };
        let mut writer = Writer::open(directory.path(), limits).unwrap();
        let at = |time_ms| Host { time_ms, ..Host::default() };
        writer.write(&Packer::default().pack(&at(NOW)).unwrap()).unwrap();
        let line = |time_ms| sentences(&at(time_ms), directory.path()).lines().nth(1).unwrap().to_string();
        assert!(line(NOW + 30_000).starts_with("Nothing stalled since"), "{}", line(NOW + 30_000));
        let later = NOW + 2 * DAY_MS;
        assert!(line(later).contains("is not known: nothing is recorded since 20"), "{}", line(later));
        assert!(sentences(&at(later), directory.path()).contains("enable --now pgcalm-record"));
        writer.write(&[Item::Incident(Box::new(incident(NOW - 60_000, Cause::Unknown)))]).unwrap();
        let later = NOW + 3_600_000;
        assert!(
            line(later).contains("1 stall;") && line(later).contains("; nothing is recorded since"),
            "{}",
            line(later)
        );
    }
}

//! What the figures say in words, the same in text and HTML.

use pgcalm_render::number::{printable, short};

use super::{Case, Guard, Heartbeat, Report, Silence, TOLERANCE};

const MIB: f64 = 1048576.0;

/// What is left of the link by the headers of Ethernet, IP and TCP (14 + 20 + 32 of 1514 bytes).
const WAL_SHARE: f64 = 1448.0 / 1514.0;

/// Link and cases, a line each.
pub(super) fn lines(report: &Report) -> Vec<String> {
    std::iter::once(link(report)).chain(report.cases.iter().map(|case| line(report, case))).collect()
}

fn link(report: &Report) -> String {
    let rate = format!("{} Mbit/s", short(report.link.bytes_per_s * 8.0 / 1e6));
    match report.link.generation_bytes_per_s {
        Some(generation) => format!(
            "Link: {rate}, of which the load would fill {} Mbit/s: it made {} MiB of WAL per second with nothing limited.",
            short(generation * 8.0 / 1e6),
            short(generation / MIB)
        ),
        None => format!("Link: {rate}, as given."),
    }
}

fn line(report: &Report, case: &Case) -> String {
    let mut text = format!("{}: ", printable(&case.name));
    text.push_str(&match case.catch_up_s {
        Some(seconds) => format!("caught up {} s after the load", short(seconds)),
        None => format!("had not caught up {} s after the load", short(case.watched_s)),
    });
    if let Some(lag) = case.most_bytes(|sample| sample.replay) {
        text.push_str(&format!(", at most {} MiB behind", short(lag as f64 / MIB)));
    }
    if let Some(place) = place(case) {
        text.push_str(&format!(", under load {place}"));
    }
    text.push('.');
    if case.segments_restored > 0 {
        text.push_str(&format!(" {} segments came from the archive.", case.segments_restored));
    }
    if let Some(error) = &case.receiver_error {
        text.push_str(&format!(
            " The receiver failed {}, first after {} s: {}.",
            match error.count {
                1 => "once".to_string(),
                count => format!("{count} times"),
            },
            short(error.time_s),
            printable(&error.message)
        ));
    }
    if let Some(why) = &case.cut_short {
        text.push_str(&format!(" The load was ended after {} s: {}.", short(case.load_s), printable(why)));
    }
    if let Some(lifted) = case.caps_lifted_s {
        text.push_str(&format!(
            " The caps were lifted after {} s: {}.",
            short(lifted),
            match case.level_s {
                Some(level) => format!("level with the load {} s later", short(level)),
                None => "not level again while the load was at work".to_string(),
            }
        ));
    }
    if let Some(guard) = &case.guard {
        text.push(' ');
        text.push_str(&governed(report, case, guard));
    }
    if let Some(heartbeat) = &case.heartbeat {
        text.push(' ');
        text.push_str(&patience(heartbeat));
    }
    text
}

/// What a failover manager would have done, by each thing that it may look at.
fn patience(heartbeat: &Heartbeat) -> String {
    let timeouts = match (heartbeat.sender_timeouts, heartbeat.receiver_timeouts) {
        (0, 0) => String::new(),
        (sender, receiver) => {
            format!(" wal_sender_timeout ended {sender} connections, wal_receiver_timeout {receiver}.")
        }
    };
    let one = |(what, silence): (&str, Silence)| {
        let longest = format!("{what} {} s at most", short(silence.longest_s));
        match silence.failover_s {
            None => longest,
            Some(time) => format!(
                "{longest}, failover at {} s{}",
                short(time),
                silence.behind_bytes.map_or(String::new(), |bytes| format!(
                    " with the standby {} MiB behind",
                    short(bytes as f64 / MIB)
                ))
            ),
        }
    };
    format!(
        "A failover manager with {} s of patience: {}.{timeouts}",
        short(heartbeat.patience_s),
        heartbeat.silences().map(one).join("; ")
    )
}

/// What the lag did at the limit, and what that cost.
fn governed(report: &Report, case: &Case, guard: &Guard) -> String {
    let limit = short(guard.limit_bytes as f64 / MIB);
    let (Some(reached), Some(mean), Some(least), Some(most)) =
        (guard.reached_s, guard.lag_mean_bytes, guard.lag_min_bytes, guard.lag_max_bytes)
    else {
        return format!("The lag never came near the guard's limit of {limit} MiB.");
    };
    let verdict = match guard.is_held() {
        Some(true) => "held",
        _ => "not held",
    };
    let mut text = format!(
        "Lag {verdict} within {:.0} % of the guard's limit of {limit} MiB: from {} s on {} of {} samples are, mean {} MiB, \
         {} to {} MiB",
        100.0 * TOLERANCE,
        short(reached),
        guard.samples_held,
        guard.samples,
        short(mean / MIB),
        short(least as f64 / MIB),
        short(most as f64 / MIB),
    );
    if let Some(received) = guard.received_bytes_per_s.filter(|_| !case.link_limited) {
        text.push_str(&format!("; {} MiB of WAL per second arrived", short(received / MIB)));
    } else if let Some(received) = guard.received_bytes_per_s {
        text.push_str(&format!(
            "; {:.1} % of the link's rate arrived as WAL, of at most {:.1} %",
            100.0 * received / report.link.bytes_per_s,
            100.0 * WAL_SHARE
        ));
    }
    text.push('.');
    text
}

/// Where WAL was held up most often under load, and in how many of the samples that tell.
fn place(case: &Case) -> Option<String> {
    let places: Vec<&str> = case
        .samples
        .iter()
        .filter(|sample| sample.under_load)
        .filter_map(|sample| sample.bottleneck.as_deref())
        .filter(|place| *place != "unknown")
        .collect();
    let count = |place: &str| places.iter().filter(|other| **other == place).count();
    let most = places.iter().max_by_key(|place| count(place))?;
    let words = match *most {
        "idle" | "generation" => "not held up".to_string(),
        "primary_wal_disk" => "held up by the primary's WAL disk".to_string(),
        "network" => "held up by the network".to_string(),
        "standby_write" => "held up by the standby's writes".to_string(),
        "standby_flush" => "held up by the standby's syncs".to_string(),
        "replay" => "held up by replay".to_string(),
        "disconnected" => "not connected".to_string(),
        other => format!("held up by {}", printable(other)),
    };
    let share = 100.0 * count(most) as f64 / places.len() as f64;
    Some(format!("{words} in {share:.0} % of the samples"))
}

impl Case {
    /// One line, while a run is under way.
    pub fn summary(&self) -> String {
        let behind = |bytes: Option<u64>| {
            bytes.map_or("unknown".to_string(), |bytes| format!("{} MiB", short(bytes as f64 / MIB)))
        };
        format!(
            "{}: {} MiB of WAL per second made, {} received; at most {} behind; {}",
            self.name,
            short(self.wal_bytes_per_s() / MIB),
            short(self.received_bytes_per_s() / MIB),
            behind(self.most_bytes(|sample| sample.replay)),
            match self.catch_up_s {
                Some(seconds) => format!("caught up {} s after the load", short(seconds)),
                None => "did not catch up".to_string(),
            }
        )
    }
}

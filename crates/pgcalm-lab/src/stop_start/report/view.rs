//! Stops and crashes for readers: how right estimates were over all rows and in each, what targets cost, and every round.

use pgcalm_render::document::{Block, Column, Document, Table, figure};
use pgcalm_render::number::{MISSING, short};

use super::{Accuracy, Contestant, Kind, Ready, Report, Round, SMALL_S, WITHIN_S};
use crate::predict::report::median_error;
use crate::report;
use crate::report::{Shown, settings};

/// What the figures are of.
const CONDITIONS: [&str; 6] = [
    "a stop: SIGINT to the postmaster, until it has ended",
    "a crash: SIGKILL to all processes, then the file system is shut down and mounted again, so that page cache and what was not synced are lost, as by a power cut",
    "recovery: from the start to the first connection, under the limits",
    "a range counts by its middle",
    "a difference of 1 s is none",
    "after recovery the page cache is filled without limits",
];

/// Contestants whose rounds are taken together.
struct Group<'a> {
    label: String,
    members: Vec<&'a Contestant>,
}

impl Shown for Report {
    fn document(&self) -> Document {
        let mut document = report::document(&self.scenario, &self.host, settings::options(&self.settings, &[]));
        document.conditions.push(CONDITIONS.map(str::to_string).to_vec());
        let pooled = groups(self, |contestant| contestant.name.clone());
        document.title = Some(match self.title.as_str() {
            "" => "Stops and recoveries: how long they took, and what was told before".to_string(),
            title => title.to_string(),
        });
        document.readings.extend((!self.about.is_empty()).then(|| self.about.clone()));
        document.readings.extend(pooled.iter().flat_map(readings));
        let by_row = groups(self, |contestant| match contestant.row.as_str() {
            "" => contestant.name.clone(),
            row => format!("{row}: {}", contestant.name),
        });
        document.section("Estimates").table(estimates(&pooled));
        document.section("Load").table(loads(self, &pooled));
        if by_row.len() > pooled.len() {
            document.section("Row by row").table(estimates(&by_row)).table(loads(self, &by_row));
        }
        document.section("Rounds").on_page().details("Each round", vec![Block::Table(rounds(&by_row))]);
        document
    }
}

fn groups(report: &Report, label: impl Fn(&Contestant) -> String) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for contestant in &report.contestants {
        let label = label(contestant);
        match groups.iter_mut().find(|group| group.label == label) {
            Some(group) => group.members.push(contestant),
            None => groups.push(Group { label, members: vec![contestant] }),
        }
    }
    groups
}

impl Group<'_> {
    fn rounds(&self) -> impl Iterator<Item = &Round> {
        self.members.iter().flat_map(|member| &member.rounds)
    }

    /// By whom it was told, and how right: by the module, too, where that knew.
    fn accuracies(&self, kind: Kind) -> Vec<(&'static str, Accuracy)> {
        let target = self.members.first().and_then(|first| match kind {
            Kind::Stop => first.stops.target_s,
            Kind::Kill => first.kills.target_s,
        });
        let mut all = vec![("pgcalm alone", Accuracy::of(self.rounds(), kind, Round::without_module, target))];
        if self.rounds().any(|round| round.kind == kind && round.told != round.without_module) {
            all.insert(0, ("pg_calm", Accuracy::of(self.rounds(), kind, Round::told, target)));
        }
        all.retain(|(_, accuracy)| accuracy.rounds > 0);
        all
    }
}

fn readings(group: &Group<'_>) -> Vec<String> {
    let of_kind = |kind: Kind| {
        let (by, accuracy) = group.accuracies(kind).into_iter().next()?;
        let target = accuracy.within_target.zip(accuracy.target_s).map_or(String::new(), |(within, target)| {
            let said = accuracy.beyond_as_said.unwrap_or(0);
            let (rounds, target) = (accuracy.rounds, short(target));
            format!("; {within} of {rounds} took no longer than the target of {target} s, and {said} longer as pg_calm had said")
        });
        Some(format!(
            "{}: {}, told by {by}: median error {} %, {} of {} within 2×{target}",
            group.label,
            kind.name(),
            figure(accuracy.median_error_percent),
            accuracy.within_twice,
            accuracy.rounds,
        ))
    };
    [Kind::Stop, Kind::Kill].into_iter().filter_map(of_kind).collect()
}

fn estimates(groups: &[Group<'_>]) -> Table {
    let mut table = Table::new([
        Column::text("contestant"),
        Column::text("what"),
        Column::text("told by"),
        Column::figures("rounds"),
        Column::figures("took s\nmedian").meaning("How long it took, median."),
        Column::figures("longest"),
        Column::figures("error %\nmedian").meaning("Of the estimate, without sign, in percent of what it took."),
        Column::figures("worst\nratio").meaning("How many times too long or too short, of those more than 1 s off."),
        Column::figures("within\n2×").meaning("Estimates off by no more than two times, or 1 s."),
        Column::figures("target\ns").meaning("pg_calm.stop_target or pg_calm.recovery_target."),
        Column::figures("within\ntarget").meaning("Rounds that took no longer."),
    ]);
    for group in groups {
        for kind in [Kind::Stop, Kind::Kill] {
            let took: Vec<f64> = group.rounds().filter(|round| round.kind == kind).map(|round| round.took_s).collect();
            for (by, accuracy) in group.accuracies(kind) {
                table.row([
                    group.label.clone(),
                    kind.name().to_string(),
                    by.to_string(),
                    accuracy.rounds.to_string(),
                    figure(median(took.clone())),
                    figure(took.iter().copied().reduce(f64::max)),
                    figure(accuracy.median_error_percent),
                    figure(accuracy.worst_ratio),
                    accuracy.within_twice.to_string(),
                    figure(accuracy.target_s),
                    accuracy.within_target.map_or(MISSING.to_string(), |within| within.to_string()),
                ]);
            }
        }
    }
    table
}

fn loads(report: &Report, groups: &[Group<'_>]) -> Table {
    let mut table = Table::new([
        Column::text("contestant"),
        Column::figures("TPS").meaning("Mean of all full seconds under load; over rows their mean."),
        Column::figures("to the same\nwithout")
            .meaning("TPS to that of the contestant without settings; over rows their mean."),
        Column::figures("ready-to-stop:\nready").meaning("How often it said so, of the stops before which it ran."),
        Column::figures("worked s\nmedian"),
        Column::figures("worst second\nto median").meaning("TPS while it works; the lowest of all rounds."),
        Column::figures("stop within\nwhat it said")
            .meaning("How many stops after it took no more than 1 s longer than it said."),
        Column::figures("within\n10 s").meaning("How many of these took no longer than that."),
    ]);
    for group in groups {
        let mean = |values: Vec<f64>| (!values.is_empty()).then(|| crate::guard::report::mean(&values));
        let without = |one: &&Contestant| {
            let (base, _) = one.name.split_once('+')?;
            let base = report.contestants.iter().find(|other| other.row == one.row && other.name == base)?;
            Some(one.tps / base.tps)
        };
        let stops: Vec<(&Ready, f64)> =
            group.rounds().filter_map(|round| Some((round.ready.as_ref()?, round.took_s))).collect();
        let count = |holds: &dyn Fn(&(&Ready, f64)) -> bool| match stops.len() {
            0 => MISSING.to_string(),
            all => format!("{} of {all}", stops.iter().filter(|stop| holds(stop)).count()),
        };
        table.row([
            group.label.clone(),
            figure(mean(group.members.iter().map(|one| one.tps).collect()).map(f64::round)),
            figure(mean(group.members.iter().filter_map(without).collect())),
            count(&|(ready, _)| ready.ready),
            figure(median(stops.iter().map(|(ready, _)| ready.waited_s).collect())),
            figure(stops.iter().filter_map(|(ready, _)| ready.worst()).reduce(f64::min)),
            count(&|(ready, took)| *took <= ready.said_s + SMALL_S),
            count(&|(_, took)| *took <= WITHIN_S),
        ]);
    }
    table
}

fn rounds(groups: &[Group<'_>]) -> Table {
    let figures = ["load s", "told s", "alone s", "took s", "redo s", "start s"].map(Column::figures);
    let texts = ["contestant", "what", "basis"].map(Column::text);
    let mut table = Table::new(texts.into_iter().chain(figures));
    for group in groups {
        for round in group.rounds() {
            let estimates = [round.told(), round.without_module()].map(figure);
            let rest = [Some(round.took_s), round.redo_s, round.start_s].map(figure);
            let basis = round.told.as_ref().map_or(MISSING.to_string(), |told| told.basis.clone());
            let words = [group.label.clone(), round.kind.name().to_string(), basis, short(round.load_s)];
            table.row(words.into_iter().chain(estimates).chain(rest));
        }
    }
    table
}

fn median(values: Vec<f64>) -> Option<f64> {
    // None is negative.
    (!values.is_empty()).then(|| median_error(values))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stop_start::report::tests::report;

    #[test]
    fn estimates_loads_and_rounds_are_shown() {
        let mut report = report();
        let ready = Ready { ready: true, waited_s: 4.0, said_s: 9.5, tps_median: Some(100.0), tps_worst: Some(85.0) };
        report.contestants[1].rounds[0].ready = Some(ready);
        let text = report.text();
        assert!(text.contains("pg_calm: stop, told by pg_calm: median error 75 %, 2 of 3 within 2×; 2 of 3"), "{text}");
        assert!(text.replace('\n', " ").contains("target of 10 s, and 1 longer as pg_calm had said"), "{text}");
        assert!(text.contains("pg_calm: recovery, told by pg_calm: median error 100 %, 1 of 1 within 2×\n"), "{text}");
        let cells = |start: &[&str]| {
            let rows = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
            rows.into_iter().find(|cells| cells.starts_with(start)).unwrap_or_else(|| panic!("{start:?}: {text}"))
        };
        assert_eq!(cells(&["pg_calm", "stop", "pg_calm"])[3..], ["3", "10", "12", "75", "4", "2", "10", "2"], "{text}");
        assert_eq!(cells(&["pg_calm", "recovery", "pgcalm", "alone"])[4..6], ["1", "10"], "{text}");
        let load = cells(&["pg_calm+pg_calm.stop_target=10", "980"]);
        assert_eq!(load[2..].join(" "), "0.98 1 of 1 4 0.85 1 of 1 1 of 1", "{text}");
        assert!(!text.contains("Row by row"), "{text}");
        let suite =
            Report::of_suite("Stops", "Why.", vec![("a".into(), report.clone()), ("b".into(), report)]).unwrap();
        let markdown = suite.document().markdown();
        assert!(markdown.starts_with("# Stops\n\nWhy.\n"), "{markdown}");
        for part in ["## Row by row", "| b: pg_calm | stop | pg_calm | 3 |", "| pg_calm | stop | pg_calm | 6 |"] {
            assert!(markdown.contains(part), "{part}\n{markdown}");
        }
    }
}

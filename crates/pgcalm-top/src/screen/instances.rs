//! The list of instances, a line each.

use pgcalm_monitor::model::{Host, Instance, Reachability};
use pgcalm_render::number;
use pgcalm_render::number::MISSING;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::format;
use crate::palette::Palette;
use crate::row::{cut, field, right};
use crate::section::disks;
use crate::track::Figures;

/// Columns of all but the name.
const FIGURES_WIDTH: usize = 57;
/// Of the heading with numbers.
const LEAST_NAME: usize = 18;

/// A line of headings, and of each instance that fits below it; the chosen one is always among them.
pub(crate) fn lines(host: &Host, chosen: usize, palette: Palette, width: usize, height: usize) -> Vec<Line<'static>> {
    let count = host.instances.len();
    let shown = height.saturating_sub(1).clamp(1, count.max(1));
    // The chosen one in the middle where the list is longer than its place.
    let first = chosen.saturating_sub(shown / 2).min(count.saturating_sub(shown));
    let longest = host.instances.iter().map(|instance| Span::raw(name(instance)).width()).max().unwrap_or(0);
    let room = width.saturating_sub(FIGURES_WIDTH).max(LEAST_NAME);
    let name_width = longest.clamp(LEAST_NAME, room);
    let title = if shown < count { format!("INSTANCE {} of {count}", chosen + 1) } else { "INSTANCE".to_string() };
    let mut lines = vec![cut(
        Line::from(Span::styled(
            format!(
                "  {} {} {} {} {} {} {} {}",
                field(&title, name_width),
                field("VERSION", 7),
                field("ROLE", 7),
                right("TPS", 6),
                right("ACTIVE", 6),
                field("CHECKPOINT", 11),
                right("UNFL.", 6),
                right("CAP", 5),
            ),
            palette.secondary(),
        )),
        width,
    )];
    for (at, instance) in host.instances.iter().enumerate().skip(first).take(shown) {
        lines.push(cut(instance_line(host, instance, at == chosen, name_width, palette), width));
    }
    lines
}

/// What to say where there is no instance.
pub(crate) fn nothing(host: &Host) -> Vec<String> {
    let mut lines = vec!["No PostgreSQL instance was found on this host.".to_string()];
    if host.hidden_processes > 0 {
        lines.push(format!(
            "Server processes that this user may not look at: {}; root sees their instances.",
            host.hidden_processes
        ));
    }
    lines
}

fn instance_line(host: &Host, instance: &Instance, chosen: bool, name_width: usize, palette: Palette) -> Line<'static> {
    let style = if chosen { palette.selected() } else { Style::new() };
    let mark = if chosen { '>' } else { ' ' };
    let version = instance.identity.version.as_deref().unwrap_or(MISSING);
    let mut spans = vec![Span::styled(
        format!("{mark} {} {} ", field(&shortened(&name(instance), name_width), name_width), field(version, 7)),
        style,
    )];
    match &instance.reachability {
        Reachability::Reachable => {
            spans.push(Span::styled(figures(host, instance), style));
        }
        Reachability::Connecting => {
            spans.push(Span::styled("no answer yet", palette.secondary()));
        }
        Reachability::Unreachable { why, .. } => {
            spans.push(Span::styled(format!("unreachable: {why}"), palette.alarm()));
        }
        Reachability::Hung { seconds } => spans
            .push(Span::styled(format!("has not answered for {}", format::whole_seconds(*seconds)), palette.alarm())),
    }
    Line::from(spans)
}

fn name(instance: &Instance) -> String {
    let identity = &instance.identity;
    match (&identity.cluster_name, &identity.data_directory) {
        (Some(cluster), _) => format!("{} {cluster}", identity.name),
        (None, Some(directory)) if !identity.name.contains(directory.as_str()) => {
            format!("{} {directory}", identity.name)
        }
        _ => identity.name.clone(),
    }
}

/// A long name without its middle: it begins with the port, and paths differ at their ends.
fn shortened(name: &str, width: usize) -> String {
    let length = name.chars().count();
    if length <= width {
        return name.to_string();
    }
    let head = name.chars().position(|c| matches!(c, ' ' | ':')).map_or(0, |at| at + 1).min(width / 2);
    let head: String = name.chars().take(head).collect();
    let tail = width.saturating_sub(head.chars().count() + 1);
    let tail: String = name.chars().skip(length - tail).collect();
    format!("{head}…{tail}")
}

fn figures(host: &Host, instance: &Instance) -> String {
    let known = |value: Option<String>| value.unwrap_or_else(|| MISSING.to_string());
    let figures = Figures::of(instance);
    let transactions = figures.transactions.map(|rate| format::rate(rate).trim_end_matches("/s").to_string());
    let active = instance.activity.as_ref().map(|activity| activity.connections.active.to_string());
    let unflushed = figures.unflushed_pages.map(|pages| format::count(pages as u64));
    let share = disks::greatest_share(host, instance).map(number::percent);
    format!(
        "{} {} {} {} {} {}",
        field(instance.role.map_or(MISSING, |role| role.name()), 7),
        right(&known(transactions), 6),
        right(&known(active), 6),
        field(&known(phase(instance)), 11),
        right(&known(unflushed), 6),
        right(&known(share), 5),
    )
}

fn phase(instance: &Instance) -> Option<String> {
    let checkpoint = instance.checkpoint.as_ref()?;
    Some(checkpoint.phase.name().to_string())
}

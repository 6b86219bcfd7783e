//! What the instance's disks do, against what is allowed on them.

use pgcalm_host::instance::Role;
use pgcalm_monitor::model::{Cap, Caps, DeviceRates, Host, Instance, Volume};
use pgcalm_render::number;
use ratatui::text::Span;

use crate::row::{LABEL_WIDTH, Row, field, right};
use crate::scene::Scene;
use crate::section::{Context, listed};
use crate::series::{Series, Worst};
use crate::{bar, format};

const NAME_WIDTH: usize = 8;
const FIGURE_WIDTH: usize = 20;
const GAUGE_WIDTH: usize = 10;
const PERCENT_WIDTH: usize = 6;

/// Something that a disk does, and that may be capped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meter {
    /// Write operations per second.
    WriteOperations,
    /// Bytes written per second.
    WriteBytes,
    /// Read operations per second.
    ReadOperations,
    /// Bytes read per second.
    ReadBytes,
}

pgcalm_host::names! {
    pub fn name(Meter), ALL:
        WriteOperations "writes", WriteBytes "written", ReadOperations "reads", ReadBytes "read"
}

impl Meter {
    /// How much of it there is.
    pub fn of(self, rates: &DeviceRates) -> f64 {
        match self {
            Self::WriteOperations => rates.write_operations_per_second,
            Self::WriteBytes => rates.write_bytes_per_second,
            Self::ReadOperations => rates.read_operations_per_second,
            Self::ReadBytes => rates.read_bytes_per_second,
        }
    }

    /// How much is allowed.
    pub fn cap(self, caps: &Caps) -> Option<&Cap> {
        match self {
            Self::WriteOperations => caps.write_operations.as_ref(),
            Self::WriteBytes => caps.write_bytes.as_ref(),
            Self::ReadOperations => caps.read_operations.as_ref(),
            Self::ReadBytes => caps.read_bytes.as_ref(),
        }
    }

    /// As text.
    pub fn format(self, value: f64) -> String {
        match self {
            Self::WriteOperations | Self::ReadOperations => format::rate(value),
            Self::WriteBytes | Self::ReadBytes => format::byte_rate(value),
        }
    }

    /// It over time, of the disk of that name.
    pub fn series(self, scene: &Scene, disk: &str) -> Series {
        scene.track.of_disk(disk, |rates| self.of(rates))
    }
}

/// The greatest part of any cap of an instance that is in use, 0 to 1 and more; `None` if nothing is capped.
pub fn greatest_share(host: &Host, instance: &Instance) -> Option<f64> {
    let parts = instance.volumes.iter().flat_map(|volume| host.used_parts(volume));
    parts.map(|(_, part)| part).reduce(f64::max)
}

/// For each volume writes and bytes written, reads where they are capped, and a row of details.
pub fn rows(context: &Context) -> Vec<Row> {
    // Volumes may share a disk: two tablespaces, or a log beside the data.
    let mut shown: Vec<&str> = Vec::new();
    let mut rows = Vec::new();
    for volume in &context.instance.volumes {
        let Some(disk) = volume.disk.as_deref() else { continue };
        if shown.contains(&disk) {
            continue;
        }
        // Others give way to data and WAL.
        let essential = [Role::Data, Role::Wal];
        let less = if volume.roles.iter().any(|role| essential.contains(role)) { 0 } else { 4 };
        shown.push(disk);
        rows.extend(volume_rows(context, volume, disk, less));
    }
    rows
}

fn volume_rows(context: &Context, volume: &Volume, disk: &str, less: u8) -> Vec<Row> {
    let section = label(volume);
    let rates = context.host.device(volume).and_then(|device| device.rates.as_ref());
    let Some(rates) = rates else { return Vec::new() };
    let volume = &Volume { caps: context.host.caps_of_all(volume), ..volume.clone() };
    let mut rows = Vec::new();
    for meter in Meter::ALL {
        let cap = meter.cap(&volume.caps);
        let rank = match meter {
            Meter::WriteOperations => less,
            Meter::WriteBytes => less + 1,
            Meter::ReadOperations | Meter::ReadBytes if cap.is_some() => less + 2,
            Meter::ReadOperations | Meter::ReadBytes => continue,
        };
        let note = match meter {
            Meter::WriteBytes => disk,
            _ => "",
        };
        let reading = Reading { disk, meter, value: meter.of(rates), cap: cap.filter(|cap| cap.per_second > 0) };
        rows.push(Row::new(&section, rank, reading.spans(context)).with_note(note));
    }
    rows.push(Row::text(&section, less + 4, details(context, volume, rates), context.palette().secondary()));
    rows
}

/// `data`, `wal`, `data+wal`.
pub fn section(volume: &Volume) -> String {
    volume.roles.iter().map(|role| role.name()).collect::<Vec<_>>().join("+")
}

/// As many of these roles as have room before the rows.
fn label(volume: &Volume) -> String {
    let mut roles: Vec<&str> = volume.roles.iter().map(|role| role.name()).collect();
    while roles.len() > 1 && roles.join("+").len() >= LABEL_WIDTH {
        roles.pop();
    }
    roles.join("+")
}

/// What a disk does, against what is allowed: on it, or to the control group of the instance by what that does.
struct Reading<'a> {
    disk: &'a str,
    meter: Meter,
    value: f64,
    cap: Option<&'a Cap>,
}

impl Reading<'_> {
    fn spans(&self, context: &Context) -> Vec<Span<'static>> {
        let palette = context.palette();
        // A limit, and what is used of it.
        let cap = self.cap.and_then(|cap| Some((cap, cap.per_second as f64, cap.used(self.value)?)));
        let figure = match cap {
            Some((_, limit, used)) => {
                format!("{} of {}", self.meter.format(used).trim_end_matches("/s"), self.meter.format(limit))
            }
            None => self.meter.format(self.value),
        };
        let mut spans = vec![Span::raw(field(self.meter.name(), NAME_WIDTH)), Span::raw(field(&figure, FIGURE_WIDTH))];
        let series = self.meter.series(context.scene, self.disk);
        let highest = series.highest(context.scene.start(), context.scene.end()).unwrap_or(0.0);
        let top = match cap {
            Some((cap, limit, used)) => {
                let share = used / limit;
                let style = palette.of_share(share);
                spans.push(Span::styled(bar::gauge(share, GAUGE_WIDTH), style));
                spans.push(Span::raw(right(&number::percent(share), PERCENT_WIDTH)));
                // What goes beyond it is cut off: the top of a curve against a cap is that cap. But that of a group is none for
                // the disk, whose curve it is.
                if cap.is_of_group() { highest.max(limit) } else { limit }
            }
            None => {
                let columns = GAUGE_WIDTH + PERCENT_WIDTH;
                let why = if self.cap.is_some() { "whole disk" } else { "no cap known" };
                spans.push(Span::styled(field(why, columns), palette.secondary()));
                highest
            }
        };
        let used = NAME_WIDTH + FIGURE_WIDTH + GAUGE_WIDTH + PERCENT_WIDTH + 1;
        let columns = context.content_width().saturating_sub(used);
        spans.push(Span::raw(" "));
        spans.push(Span::styled(context.curve(&series, columns, top, Worst::Highest), palette.bar()));
        spans
    }
}

fn details(context: &Context, volume: &Volume, rates: &DeviceRates) -> String {
    let capped_reads = volume.caps.read_operations.is_some() || volume.caps.read_bytes.is_some();
    let reads = (!capped_reads).then(|| {
        format!(
            "reads {}, {}",
            format::rate(rates.read_operations_per_second),
            format::byte_rate(rates.read_bytes_per_second)
        )
    });
    let of_group = Meter::ALL.iter().any(|meter| meter.cap(&volume.caps).is_some_and(Cap::is_of_group));
    let all = of_group.then(|| {
        let (operations, bytes) = (rates.write_operations_per_second, rates.write_bytes_per_second);
        format!("whole disk writes {}, {}", format::rate(operations), format::byte_rate(bytes))
    });
    let in_flight = context.host.device(volume).map(|device| format!("{} in flight", format::count(device.in_flight)));
    let mut sources: Vec<&str> =
        Meter::ALL.iter().filter_map(|meter| meter.cap(&volume.caps)).map(|cap| cap.source.as_str()).collect();
    sources.dedup();
    let sources = (!sources.is_empty()).then(|| format!("caps by {}", sources.join(", ")));
    let roles = Some(section(volume)).filter(|roles| *roles != label(volume));
    listed([
        roles,
        all,
        reads,
        rates.busy.map(|busy| format!("busy {}", number::percent(busy))),
        in_flight,
        Some(format!("{} on {} at {}", volume.file_system, volume.disk.as_deref().unwrap_or("no disk"), volume.path)),
        sources,
    ])
}

//! What pg_calm has before it, and does: pages written and not flushed, and its writeback.

use pgcalm_monitor::model::Module;
use pgcalm_monitor::model::ShareMember;
use pgcalm_monitor::model::Unflushed;
use pgcalm_monitor::model::WalFlushes;

use crate::format;
use crate::row::Row;
use crate::section::Context;
use crate::section::listed;
use crate::series::Worst;

/// Unflushed pages; the module's writeback; who else shares its device.
pub fn rows(context: &Context) -> Vec<Row> {
    let mut rows = Vec::new();
    if let Some(unflushed) = &context.instance.unflushed {
        let series = context.scene.series(|figures| figures.unflushed_pages);
        rows.push(context.figure_row("Unflushed", 0, &figure(unflushed), &series, Worst::Highest));
    }
    if let Some(module) = &context.instance.module {
        if let Some(degraded) = &module.degraded {
            rows.push(Row::text(
                "pg_calm",
                1,
                format!("{}, degraded: {degraded}", module.mode),
                context.palette().alarm(),
            ));
        }
        rows.push(Row::text("pg_calm", 4, writeback(module), context.palette().secondary()));
    }
    if let Some(text) = context.instance.wal.as_ref().and_then(flushes) {
        rows.push(Row::text("WAL flushes", 4, text, context.palette().secondary()));
    }
    rows.extend(shared(context));
    rows
}

fn figure(unflushed: &Unflushed) -> String {
    let pages = unflushed.old_pages + unflushed.new_pages;
    format!("{} pages, {}", format::count(pages), format::byte_count(pages.saturating_mul(unflushed.page_bytes)))
}

fn writeback(module: &Module) -> String {
    let rates = module.rates.map(|rates| {
        listed([
            Some(format::rate_of(rates.flushed_pages_per_second, "flushed pages")),
            Some(format::rate_of(rates.bridged_pages_per_second, "bridged")),
            Some(format::rate_of(rates.device_operations_per_second, "operations")),
            Some(format::byte_rate(rates.written_bytes_per_second)),
        ])
    });
    let idle = (!module.worker_running).then(|| "no writeback worker".to_string());
    let errors = (module.errors > 0).then(|| format!("{} writeback errors", format::count(module.errors)));
    let full = (module.full_files > 0 || module.full_regions > 0)
        .then(|| "page map was full (pg_calm.page_map_memory)".to_string());
    listed([Some(module.mode.clone()), idle, errors, full, rates])
}

/// What commits do before they flush WAL; nothing where nobody asked for that.
fn flushes(wal: &WalFlushes) -> Option<String> {
    if wal.state == "off" {
        return None;
    }
    let microseconds = |seconds: f64| format!("{:.0} us", seconds * 1e6);
    let delay = (wal.delay_seconds > 0.0).then(|| format!("commits wait {}", microseconds(wal.delay_seconds)));
    let proposed = wal
        .proposed_delay_seconds
        .filter(|_| delay.is_none())
        .map(|seconds| format!("{} would bring more", microseconds(seconds)));
    let fullness = wal.commits_per_flush.map(|commits| format!("{commits:.1} commits in each"));
    let rate = wal.flushes_per_second.map(|rate| format!("{} per second", format::rate(rate)));
    Some(listed([rate, fullness, delay, proposed]))
}

fn shared(context: &Context) -> Option<Row> {
    let members = &context.instance.share;
    let own = members.iter().find(|member| member.own)?;
    let text = listed([
        Some(format!("one of {} instances", members.len())),
        share(own),
        Some(format!("{} want to write", members.iter().filter(|member| member.wants).count())),
    ]);
    Some(Row::text("Share", 4, text, context.palette().secondary()))
}

fn share(member: &ShareMember) -> Option<String> {
    let share = listed([
        member.write_operations_per_second.map(|operations| format!("{} operations", format::rate(operations as f64))),
        member.write_bytes_per_second.map(|bytes| format::byte_rate(bytes as f64)),
    ]);
    (!share.is_empty()).then(|| format!("share {share}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flushes_say_what_commits_wait_or_would() {
        let mut wal = WalFlushes {
            state: "waiting".into(),
            delay_seconds: 0.0004,
            proposed_delay_seconds: Some(0.0005),
            commits_per_flush: Some(7.96),
            ..WalFlushes::default()
        };
        let text = flushes(&wal).unwrap();
        assert!(text.contains("8.0 commits in each"), "{text}");
        assert!(text.contains("commits wait 400 us"), "{text}");
        assert!(!text.contains("would"), "{text}");
        wal.delay_seconds = 0.0;
        wal.state = "watching".into();
        let text = flushes(&wal).unwrap();
        assert!(text.contains("500 us would bring more"), "{text}");
        wal.state = "off".into();
        assert_eq!(flushes(&wal), None);
    }
}

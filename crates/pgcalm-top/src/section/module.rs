//! What pg_calm has before it, and does: pages written and not flushed, and its writeback.

use pgcalm_monitor::model::{Module, ShareMember, Unflushed};

use crate::format;
use crate::row::Row;
use crate::section::{Context, listed};
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
    rows.extend(shared(context));
    rows
}

fn figure(unflushed: &Unflushed) -> String {
    let pages = unflushed.pages;
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
    let full = (module.map_full > 0).then(|| "page map was full (pg_calm.page_map_memory)".to_string());
    listed([Some(module.mode.clone()), idle, errors, full, rates])
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

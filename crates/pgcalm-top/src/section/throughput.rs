//! What the server gets done: transactions, and the WAL that they make.

use crate::format;
use crate::row::Row;
use crate::section::{Context, listed};
use crate::series::Worst;

/// Transactions per second, those rolled back included, as pgbench counts them too; WAL.
pub fn rows(context: &Context) -> Vec<Row> {
    let mut rows = Vec::new();
    if let Some(rates) = context.instance.rates {
        let rollbacks =
            (rates.rollbacks_per_second >= 0.05).then(|| format::rate_of(rates.rollbacks_per_second, "rolled back"));
        let all = rates.commits_per_second + rates.rollbacks_per_second;
        let figure = listed([Some(format::rate(all)), rollbacks]);
        let series = context.scene.series(|figures| figures.transactions);
        rows.push(context.figure_row("TPS", 0, &figure, &series, Worst::Lowest));
        let images = (rates.wal_full_page_images_per_second >= 0.5)
            .then(|| format::rate_of(rates.wal_full_page_images_per_second, "images"));
        let figure = listed([Some(format::byte_rate(rates.wal_bytes_per_second)), images]);
        let series = context.scene.series(|figures| figures.wal_bytes);
        rows.push(context.figure_row("WAL", 2, &figure, &series, Worst::Highest));
    }
    rows
}

//! Tables that are written to, of the database that we are connected to.

use std::collections::HashMap;

use anyhow::Context;
use pgcalm_connect::Client;

/// Bytes of a region.
const REGION: f64 = 8388608.0;

/// Bytes of a segment file (`--with-segsize` of the server's build may differ, which is rare).
const SEGMENT: f64 = 1073741824.0;

/// Rows that were inserted, updated or deleted in each table, by its OID.
pub(super) fn changes(client: &mut Client) -> anyhow::Result<HashMap<u32, i64>> {
    let rows = client
        .query("select relid, n_tup_ins + n_tup_upd + n_tup_del from pg_stat_user_tables", &[])
        .context("read pg_stat_user_tables")?;
    Ok(rows.into_iter().map(|row| (row.get(0), row.get::<_, Option<i64>>(1).unwrap_or(0))).collect())
}

/// What is written to of tables and their indexes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Extent {
    pub regions: f64,
    /// Segment files.
    pub files: f64,
}

/// Extent of the tables in which rows were changed since `before`, and of their indexes.
pub(super) fn extent(client: &mut Client, before: &HashMap<u32, i64>) -> anyhow::Result<Extent> {
    let changed: Vec<u32> = changes(client)?
        .into_iter()
        .filter(|(table, rows)| before.get(table) != Some(rows))
        .map(|(table, _)| table)
        .collect();
    let row = client
        .query_one(
            "select coalesce(sum(ceil(bytes / $2::float8)), 0)::float8, coalesce(sum(ceil(bytes / $3::float8)), 0)::float8 from
               (select pg_relation_size(relation)::float8 as bytes from
                 (select oid as relation from pg_class where oid = any($1)
                  union all
                  select indexrelid from pg_index where indrelid = any($1)) written) sizes",
            &[&changed, &REGION, &SEGMENT],
        )
        .context("read the sizes of tables")?;
    Ok(Extent { regions: row.get(0), files: row.get(1) })
}

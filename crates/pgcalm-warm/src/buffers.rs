//! What shared buffers hold, by the extension `pg_buffercache`.

use std::collections::HashMap;

use anyhow::Context;
use pgcalm_host::Unknown;
use pgcalm_postgres::{Client, Settings, extension_schema};

use crate::relation_file::FORKS;
use crate::runs::{BLOCK, heat_of_buffer};

/// Blocks of 8 KiB in shared buffers with their heat, by file.
pub type Buffers = HashMap<String, Vec<(u64, u8)>>;

/// Reads it; what is not there to be asked is said.
pub fn read(client: &mut Client) -> anyhow::Result<Result<Buffers, Unknown>> {
    let schema = format!("SELECT {}", extension_schema("pg_buffercache"));
    let schema: Option<String> = client.query_one(&schema, &[]).context("look for pg_buffercache")?.try_get(0)?;
    let Some(schema) = schema else {
        return Ok(Err(Unknown::new(
            "what shared buffers hold: this database has no pg_buffercache; CREATE EXTENSION pg_buffercache",
        )));
    };
    // In no literal: a schema's name may have quotes, and its owner renames it.
    let allowed = client
        .query_one("SELECT has_table_privilege($1::text, 'SELECT')", &[&format!("{schema}.pg_buffercache")])
        .context("look at pg_buffercache")?;
    if !allowed.try_get::<_, bool>(0)? {
        return Ok(Err(Unknown::new("what shared buffers hold: this role is no member of pg_monitor")));
    }
    let settings = Settings::read(client, &["block_size", "segment_size"]).context("read the server's settings")?;
    let size = |name: &str, usual: u64| settings.number(name).map_or(usual, |value| value as u64);
    let layout = Layout { block: size("block_size", BLOCK), segment: size("segment_size", 1 << 30) };
    let directory = "SELECT 'PG_' || current_setting('server_version_num')::int / 10000 || '_' || catalog_version_no \
        FROM pg_control_system()";
    let version: String = client.query_one(directory, &[]).context("read the catalog's version")?.try_get(0)?;
    // A number for each buffer: there are millions of them.
    let rows = client
        .query(
            &format!(
                "SELECT reltablespace::int8, reldatabase::int8, relfilenode::int8, relforknumber::int4, \
                 array_agg(relblocknumber * 8 + usagecount) FROM {schema}.pg_buffercache \
                 WHERE relfilenode IS NOT NULL GROUP BY 1, 2, 3, 4"
            ),
            &[],
        )
        .context("read pg_buffercache")?;
    let mut buffers = Buffers::new();
    for row in rows {
        let fork = FORKS.get(row.try_get::<_, i32>(3)? as usize);
        let Some(fork) = fork else { continue };
        let relation = path(row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, &version);
        for packed in row.try_get::<_, Vec<i64>>(4)? {
            layout.add(&mut buffers, &format!("{relation}{fork}"), packed as u64 >> 3, (packed & 7) as u8);
        }
    }
    Ok(Ok(buffers))
}

/// The tablespaces that are no links: `pg_default` and `pg_global`.
const DEFAULT: i64 = 1663;
const GLOBAL: i64 = 1664;

fn path(space: i64, database: i64, relation: i64, version: &str) -> String {
    match space {
        DEFAULT => format!("base/{database}/{relation}"),
        GLOBAL => format!("global/{relation}"),
        space => format!("pg_tblspc/{space}/{version}/{database}/{relation}"),
    }
}

/// As the server was built.
struct Layout {
    block: u64,
    segment: u64,
}

impl Layout {
    fn add(&self, buffers: &mut Buffers, relation: &str, block: u64, usage_count: u8) {
        let (segment, offset) = (block * self.block / self.segment, block * self.block % self.segment);
        let file = if segment == 0 { relation.to_string() } else { format!("{relation}.{segment}") };
        let ours = offset / BLOCK..(offset + self.block).div_ceil(BLOCK);
        buffers.entry(file).or_default().extend(ours.map(|block| (block, heat_of_buffer(usage_count))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relation_file::is_path;

    #[test]
    fn a_buffer_is_found_in_its_file() {
        for space in [DEFAULT, GLOBAL, 16_500] {
            let path = path(space, 5, 16_384, "PG_15_202209061");
            assert!(is_path(&path), "{path}");
        }
        let mut buffers = Buffers::new();
        Layout { block: 8192, segment: 1 << 30 }.add(&mut buffers, "base/5/1", 131_072 + 3, 5);
        assert_eq!(buffers["base/5/1.1"], [(3, 7)]);
        Layout { block: 32_768, segment: 1 << 30 }.add(&mut buffers, "base/5/2", 1, 0);
        assert_eq!(buffers["base/5/2"], [(4, 2), (5, 2), (6, 2), (7, 2)]);
    }
}

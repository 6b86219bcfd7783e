use std::fs;

use anyhow::Context;

use crate::trouble::play::Play;
use crate::trouble::program::{ByProgram, Start};

/// A few in each transaction: each lock takes a place in shared memory.
const CREATE: &str = "do $$ begin for i in 1 .. 1000 loop \
      execute format('create table pgcalm_trouble_%s (id int primary key, value int)', i); \
      execute format('insert into pgcalm_trouble_%s select n, 0 from generate_series(1, 100) n', i); \
      if i % 50 = 0 then commit; end if; \
    end loop; end $$";

const SCRIPT: &str = "\\set table random(1, 1000)\n\\set id random(1, 100)\n\
    update pgcalm_trouble_:table set value = value + 1 where id = :id;\n";

pub(crate) fn make() -> Box<dyn Play> {
    Box::new(ByProgram {
        prepare: |ground| {
            ground.server.sql(CREATE, ground.stage.interrupt)?;
            Ok(true)
        },
        ..ByProgram::new(
            "small-tables",
            |ground, left| {
                let script = ground.directory.join("small-tables.sql");
                fs::write(&script, SCRIPT).with_context(|| format!("write {}", script.display()))?;
                let mut command = ground.server.client("pgbench");
                command
                    .args(["-n", "-M", "simple", "-c", "1", "--rate=200"])
                    .args(["-T", &(left.as_secs() + 1).to_string()])
                    .arg("-f")
                    .arg(script)
                    .arg("postgres");
                Ok(Start::of(command))
            },
            |_bytes, _line| None,
        )
    })
}

use crate::trouble::play::Play;
use crate::trouble::program::{ByProgram, Start, statement};

pub(crate) fn make() -> Box<dyn Play> {
    Box::new(ByProgram {
        prepare: |ground| {
            let sql = format!("create table pgcalm_trouble_large as table {}", ground.table.name);
            ground.server.sql(&sql, ground.stage.interrupt)?;
            Ok(true)
        },
        ..ByProgram::new(
            "drop-large-table",
            |ground, _left| {
                let sql = "drop table pgcalm_trouble_large";
                Ok(Start::of(statement(ground, sql)))
            },
            |_bytes, _line| None,
        )
    })
}

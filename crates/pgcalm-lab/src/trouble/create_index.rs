use crate::trouble::play::Play;
use crate::trouble::program::{ByProgram, Start, statement};

pub(crate) fn make() -> Box<dyn Play> {
    Box::new(ByProgram::new(
        "create-index",
        |ground, _left| {
            // Concurrently: any other would hold a load that writes to the table, whatever the volume does.
            let sql =
                format!("create index concurrently pgcalm_trouble on {} ({})", ground.table.name, ground.table.column);
            Ok(Start::of(statement(ground, &sql)))
        },
        |_bytes, _line| None,
    ))
}

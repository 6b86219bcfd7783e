use crate::trouble::play::Play;
use crate::trouble::program::{ByProgram, Start, statement};

pub(crate) fn make() -> Box<dyn Play> {
    Box::new(ByProgram::new(
        "vacuum-freeze",
        |ground, _left| {
            // Pages that the load has not touched are frozen since they were loaded; they are read all the same, as those of
            // a table would be that has never been frozen.
            let sql = format!("vacuum (freeze, disable_page_skipping) {}", ground.table.name);
            Ok(Start::of(statement(ground, &sql)))
        },
        |_bytes, _line| None,
    ))
}

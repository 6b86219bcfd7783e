use crate::trouble::Ground;
use crate::trouble::play::Play;
use crate::trouble::program::{ByProgram, Start, statement};

pub(crate) fn make() -> Box<dyn Play> {
    Box::new(ByProgram::new(
        "big-delete",
        |ground, _left| Ok(Start::of(statement(ground, &sql(ground)))),
        |_bytes, _line| None,
    ))
}

/// By places: a table of any load has them, and neighbours are deleted together, as old rows are. One transaction would hold
/// all rows that the load wants until its end, whatever the volume does.
fn sql(ground: &Ground<'_>) -> String {
    let table = &ground.table;
    format!(
        "do $$ begin for block in 0 .. {} by 1000 loop \
           delete from {} where ctid >= format('(%s,0)', block)::tid and ctid < format('(%s,0)', block + 1000)::tid; \
           commit; \
         end loop; end $$",
        (table.blocks / 2).saturating_sub(1),
        table.name,
    )
}

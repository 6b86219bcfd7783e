use crate::trouble::play::Play;
use crate::trouble::program::{ByProgram, Start, amount};

pub(crate) fn make() -> Box<dyn Play> {
    Box::new(ByProgram::new(
        "pg-dump",
        |ground, _left| {
            let mut command = ground.server.client("pg_dump");
            command.args(["-d", "postgres"]);
            Ok(Start::of(command))
        },
        |bytes, _line| Some(amount("dumped", bytes)),
    ))
}

//! Where variables of the server's program are in the memory of its processes.

use std::fs;

use anyhow::{Context, bail};
use object::{Object, ObjectSegment, ObjectSymbol};

use crate::target::Target;

/// The address of a variable that the program exports, the same in all processes: they are forks of the postmaster.
pub fn address_of(target: &Target, variable: &str) -> anyhow::Result<u64> {
    let program = target.program();
    let data = fs::read(&program).with_context(|| format!("read {}", program.display()))?;
    let elf = object::File::parse(&*data).with_context(|| format!("read {}", program.display()))?;
    let symbol = elf
        .dynamic_symbols()
        .chain(elf.symbols())
        .find(|symbol| symbol.name() == Ok(variable) && symbol.is_definition())
        .with_context(|| format!("the server has no variable {variable}"))?;
    // The first segment's address in the file; where it lies in memory is the first mapping of the program.
    let first = elf.segments().map(|segment| segment.address()).min();
    let Some(first) = first else { bail!("{} has no segments", program.display()) };
    let maps = target.root.read(format!("proc/{}/maps", target.pid())).context("memory of the postmaster")?;
    let path = fs::read_link(&program).with_context(|| format!("read {}", program.display()))?;
    let base = base_of(&maps, &path.to_string_lossy())
        .with_context(|| format!("{} is not mapped by the postmaster", path.display()))?;
    Ok(symbol.address() - (first & !0xfff) + base)
}

/// The lowest mapping of a file in /proc/PID/maps.
fn base_of(maps: &str, path: &str) -> Option<u64> {
    maps.lines()
        .filter(|line| line.ends_with(path))
        .filter_map(|line| u64::from_str_radix(line.split('-').next()?, 16).ok())
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_mapping_of_the_program_counts() {
        let maps = "7f0000000000-7f0000001000 r--p 00000000 fe:00 1  /lib/libc.so.6\n\
                    55d000003000-55d000004000 r-xp 00003000 fe:00 2  /usr/bin/postgres\n\
                    55d000000000-55d000003000 r--p 00000000 fe:00 2  /usr/bin/postgres\n";
        assert_eq!(base_of(maps, "/usr/bin/postgres"), Some(0x55d0_0000_0000));
        assert_eq!(base_of(maps, "/usr/bin/other"), None);
    }
}

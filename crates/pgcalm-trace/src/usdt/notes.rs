//! The probes that a program declares: `.note.stapsdt`, as systemtap's sys/sdt.h writes it.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, bail};
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, ReadCache, ReadRef};

/// A place in the program where a probe stands; a probe may have several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// E.g. `postgresql`.
    pub provider: String,
    /// E.g. `checkpoint__start`.
    pub name: String,
    /// Arguments in the assembler's notation, separated by spaces.
    pub arguments: String,
    /// Virtual address, as in the file.
    pub address: u64,
    /// Where in the file.
    pub offset: u64,
    /// Where in the file the semaphore is, 0 if the probe has none.
    pub semaphore_offset: u64,
}

/// The probes of a program.
#[derive(Debug, Clone, Default)]
pub struct Notes {
    /// All of them.
    pub sites: Vec<Site>,
    /// Exported variables and functions, with their virtual addresses; those that an argument may name.
    pub symbols: std::collections::HashMap<String, u64>,
}

impl Notes {
    /// Reads a program; one without probes has none.
    pub fn read(program: &Path) -> anyhow::Result<Self> {
        let file = File::open(program).with_context(|| format!("open {}", program.display()))?;
        let cache = ReadCache::new(file);
        let elf = object::File::parse(&cache).with_context(|| format!("read {} as ELF", program.display()))?;
        parse(&elf).with_context(|| format!("read the probes of {}", program.display()))
    }

    /// The sites of one probe of PostgreSQL's.
    pub fn sites(&self, name: &str) -> impl Iterator<Item = &Site> {
        self.sites.iter().filter(move |site| site.provider == super::PROVIDER && site.name == name)
    }
}

fn parse<'data, R: ReadRef<'data>>(elf: &object::File<'data, R>) -> anyhow::Result<Notes> {
    let Some(section) = elf.section_by_name(".note.stapsdt") else { return Ok(Notes::default()) };
    if !elf.is_64() || !elf.is_little_endian() {
        bail!("only 64-bit little-endian programs are known");
    }
    let data = section.data()?;
    // prelink may have moved the program after the notes were written; this section moves along.
    let base = elf.section_by_name(".stapsdt.base").map(|s| s.address());
    let segments: Vec<(u64, u64, u64)> = elf.segments().map(|s| (s.address(), s.size(), s.file_range().0)).collect();
    let offset_of = |address: u64| {
        segments
            .iter()
            .find(|(start, size, _)| (*start..start + size).contains(&address))
            .map(|(start, _, offset)| address - start + offset)
    };
    let mut sites = Vec::new();
    let mut rest = data;
    while rest.len() >= 12 {
        let word = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().unwrap()) as usize;
        let (name_size, description_size, kind) = (word(0), word(4), word(8));
        let description_at = 12 + name_size.next_multiple_of(4);
        let end = description_at + description_size.next_multiple_of(4);
        let Some(description) = rest.get(description_at..description_at + description_size) else {
            bail!(".note.stapsdt is cut short");
        };
        // 3: NT_STAPSDT
        if kind == 3 {
            sites.extend(site(description, base, &offset_of)?);
        }
        rest = rest.get(end..).unwrap_or_default();
    }
    let symbols = elf
        .dynamic_symbols()
        .chain(elf.symbols())
        .filter(object::ObjectSymbol::is_definition)
        .filter_map(|symbol| Some((symbol.name().ok()?.to_string(), symbol.address())))
        .collect();
    Ok(Notes { sites, symbols })
}

fn site(
    description: &[u8],
    base: Option<u64>,
    offset_of: &impl Fn(u64) -> Option<u64>,
) -> anyhow::Result<Option<Site>> {
    let Some((numbers, texts)) = description.split_at_checked(24) else {
        bail!("a note of .note.stapsdt is cut short");
    };
    let number = |at: usize| u64::from_le_bytes(numbers[at..at + 8].try_into().unwrap());
    let moved = base.map_or(0, |base| base.wrapping_sub(number(8)));
    let address = number(0).wrapping_add(moved);
    let semaphore = match number(16) {
        0 => 0,
        semaphore => offset_of(semaphore.wrapping_add(moved)).unwrap_or(0),
    };
    let mut texts = texts.split(|byte| *byte == 0).map(|text| String::from_utf8_lossy(text).into_owned());
    let (Some(provider), Some(name)) = (texts.next(), texts.next()) else { return Ok(None) };
    Ok(offset_of(address).map(|offset| Site {
        provider,
        name,
        arguments: texts.next().unwrap_or_default(),
        address,
        offset,
        semaphore_offset: semaphore,
    }))
}

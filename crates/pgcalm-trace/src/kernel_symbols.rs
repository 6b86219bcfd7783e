//! Names of the kernel's functions.

use std::collections::HashMap;

use anyhow::Context;
use pgcalm_host::HostRoot;

use pgcalm_host::Failure;

/// /proc/kallsyms, in the order of addresses.
#[derive(Debug, Default)]
pub struct KernelSymbols {
    symbols: Vec<(u64, String)>,
}

impl KernelSymbols {
    /// Reads them; [`Failure::Host`] if the kernel hides the addresses, as it does for those without CAP_SYSLOG, and
    /// for all with kernel.kptr_restrict = 2.
    pub fn read(root: &HostRoot) -> anyhow::Result<Self> {
        let text = root.read("proc/kallsyms").context("names of the kernel's functions")?;
        Self::parse(&text).ok_or_else(|| {
            Failure::Host(
                "the kernel hides its addresses (/proc/kallsyms): set kernel.kptr_restrict to 1 or 0".to_string(),
            )
            .into()
        })
    }

    fn parse(text: &str) -> Option<Self> {
        let mut symbols: Vec<(u64, String)> = text
            .lines()
            .filter_map(|line| {
                let mut words = line.split_whitespace();
                let address = u64::from_str_radix(words.next()?, 16).ok()?;
                let kind = words.next()?;
                let name = words.next()?;
                // Compilers split functions: NAME.cold, NAME.isra.0, NAME.constprop.0
                let name = name.split('.').next()?;
                (address != 0 && matches!(kind, "t" | "T" | "w" | "W")).then(|| (address, name.to_string()))
            })
            .collect();
        symbols.sort_by_key(|(address, _)| *address);
        (!symbols.is_empty()).then_some(Self { symbols })
    }

    /// The function that holds an address.
    pub fn name(&self, address: u64) -> Option<&str> {
        let after = self.symbols.partition_point(|(start, _)| *start <= address);
        Some(&self.symbols.get(after.checked_sub(1)?)?.1)
    }

    /// The address of a function.
    pub fn address(&self, name: &str) -> Option<u64> {
        self.symbols.iter().find(|(_, symbol)| symbol == name).map(|(address, _)| *address)
    }
}

/// Stacks by the ids that the kernel gives them.
#[derive(Debug, Default)]
pub struct Stacks {
    known: HashMap<u32, Vec<String>>,
}

impl Stacks {
    /// The names of the frames of a stack, innermost first, without those of the scheduler itself.
    pub fn frames(&mut self, id: u32, symbols: &KernelSymbols, read: impl FnOnce(u32) -> Option<Vec<u8>>) -> &[String] {
        self.known.entry(id).or_insert_with(|| {
            let bytes = read(id).unwrap_or_default();
            let mut frames: Vec<String> = bytes
                .chunks_exact(8)
                .map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()))
                .take_while(|address| *address != 0)
                .filter_map(|address| symbols.name(address))
                .map(str::to_string)
                .collect();
            let inner = frames.iter().take(SCHEDULER_FRAMES).rposition(|name| SCHEDULER.contains(&name.as_str()));
            frames.drain(..inner.map_or(0, |inner| inner + 1));
            frames
        })
    }
}

/// What every sleep goes through, kernel/sched/core.c; above it are the frames of the program that took the stack.
const SCHEDULER: [&str; 2] = ["__schedule", "schedule"];
/// How far in these are looked for.
const SCHEDULER_FRAMES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_within_a_function_has_its_name_without_the_compilers_suffix() {
        let symbols = KernelSymbols::parse(
            "ffffffff00000010 T schedule\nffffffff00000100 t do_fsync.isra.0\nffffffff00000200 d data\n",
        )
        .unwrap();
        assert_eq!(symbols.name(0xffff_ffff_0000_0110), Some("do_fsync"));
        assert_eq!(symbols.name(0xffff_ffff_0000_0010), Some("schedule"));
        assert_eq!(symbols.name(0x10), None);
        assert_eq!(symbols.address("do_fsync"), Some(0xffff_ffff_0000_0100));
    }

    #[test]
    fn hidden_addresses_are_no_symbols() {
        assert!(KernelSymbols::parse("0000000000000000 T schedule\n").is_none());
    }

    #[test]
    fn a_stack_is_read_once_and_begins_below_the_scheduler() {
        let symbols = KernelSymbols::parse(
            "500 T bpf_trace_run4\n1000 T __schedule\n2000 T schedule\n3000 T io_schedule\n4000 T do_fsync\n",
        )
        .unwrap();
        let mut stacks = Stacks::default();
        let bytes: Vec<u8> =
            [0x508u64, 0x1008, 0x2008, 0x3008, 0x4008, 0, 0x3000].into_iter().flat_map(u64::to_ne_bytes).collect();
        assert_eq!(stacks.frames(7, &symbols, |_| Some(bytes)), ["io_schedule", "do_fsync"]);
        assert_eq!(stacks.frames(7, &symbols, |_| panic!()), ["io_schedule", "do_fsync"]);
    }
}

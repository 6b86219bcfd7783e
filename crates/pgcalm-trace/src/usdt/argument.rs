//! The assembler's notation for where a probe's argument is.

use std::collections::HashMap;

use anyhow::{Context, bail};

/// As many as bpf/usdt_argument.bpf.h has room for.
pub const MAX_ARGUMENTS: usize = 8;

/// Where an argument is; the numbers of `enum usdt_argument_kind` in bpf/usdt_argument.bpf.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// The offset is the value.
    Constant = 0,
    /// In a register.
    Register = 1,
    /// In memory at register + offset.
    Memory = 2,
    /// In memory at the probe's address + offset.
    Relative = 3,
}

/// `struct usdt_argument` of bpf/usdt_argument.bpf.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Argument {
    /// The constant, or what is added to the address.
    pub offset: i64,
    /// Of the register within struct pt_regs.
    pub register_offset: u16,
    /// One of [`Kind`].
    pub kind: u8,
    /// Bytes: 1, 2, 4 or 8.
    pub size: u8,
    /// 1 if the sign is to be extended.
    pub is_signed: u8,
    unused: [u8; 3],
}

// SAFETY: integers only, the padding is a member, every bit pattern valid.
unsafe impl plain::Plain for Argument {}

impl Default for Argument {
    fn default() -> Self {
        Self { offset: 0, register_offset: 0, kind: Kind::Constant as u8, size: 8, is_signed: 0, unused: [0; 3] }
    }
}

/// Reads all arguments of a site at `address`, e.g. `-4@40+CheckpointStats(%rip) 8@%rax`.
pub fn parse(arguments: &str, address: u64, symbols: &HashMap<String, u64>) -> anyhow::Result<Vec<Argument>> {
    arguments
        .split_whitespace()
        .map(|text| parse_one(text, address, symbols).with_context(|| format!("argument {text:?}")))
        .collect()
}

/// Whether libbpf's parser refuses it: a symbol relative to the instruction pointer.
pub fn has_symbol(arguments: &str) -> bool {
    arguments.contains("(%rip)")
}

fn parse_one(text: &str, address: u64, symbols: &HashMap<String, u64>) -> anyhow::Result<Argument> {
    let (size, place) = text.split_once('@').context("has no size")?;
    let size: i8 = size.parse().context("has no size")?;
    let mut argument = Argument { size: size.unsigned_abs(), is_signed: u8::from(size < 0), ..Argument::default() };
    if !matches!(argument.size, 1 | 2 | 4 | 8) {
        bail!("has an unknown size");
    }
    if let Some(constant) = place.strip_prefix('$') {
        argument.offset = constant.parse().context("is no number")?;
    } else if let Some(register) = place.strip_prefix('%') {
        argument.kind = Kind::Register as u8;
        argument.register_offset = register_offset(register).context("unknown register")?;
    } else {
        let (offset, register) = place
            .strip_suffix(')')
            .and_then(|place| place.split_once("(%"))
            .context("is in a notation that is not known")?;
        if register == "rip" {
            argument.kind = Kind::Relative as u8;
            argument.offset = symbol_address(offset, symbols)?.wrapping_sub(address) as i64;
        } else {
            argument.kind = Kind::Memory as u8;
            argument.register_offset = register_offset(register).context("unknown register")?;
            argument.offset = match offset {
                "" => 0,
                offset => offset.parse().context("has an offset that is no number")?,
            };
        }
    }
    Ok(argument)
}

/// `SYMBOL`, `40+SYMBOL` or `SYMBOL+40`.
fn symbol_address(text: &str, symbols: &HashMap<String, u64>) -> anyhow::Result<u64> {
    let mut address = None;
    let mut offset = 0i64;
    for part in text.split('+') {
        match part.parse::<i64>() {
            Ok(number) => offset += number,
            Err(_) => {
                let symbol = symbols
                    .get(part)
                    .with_context(|| format!("the program does not export {part}, which it refers to"))?;
                address = Some(*symbol);
            }
        }
    }
    Ok(address.context("names no symbol")?.wrapping_add_signed(offset))
}

/// Offset of a register, whatever part of it is named, in struct pt_regs of x86_64 (asm/ptrace.h).
fn register_offset(name: &str) -> Option<u16> {
    const REGISTERS: [(&[&str], u16); 16] = [
        (&["r15", "r15d", "r15w", "r15b"], 0),
        (&["r14", "r14d", "r14w", "r14b"], 8),
        (&["r13", "r13d", "r13w", "r13b"], 16),
        (&["r12", "r12d", "r12w", "r12b"], 24),
        (&["rbp", "ebp", "bp", "bpl"], 32),
        (&["rbx", "ebx", "bx", "bl"], 40),
        (&["r11", "r11d", "r11w", "r11b"], 48),
        (&["r10", "r10d", "r10w", "r10b"], 56),
        (&["r9", "r9d", "r9w", "r9b"], 64),
        (&["r8", "r8d", "r8w", "r8b"], 72),
        (&["rax", "eax", "ax", "al"], 80),
        (&["rcx", "ecx", "cx", "cl"], 88),
        (&["rdx", "edx", "dx", "dl"], 96),
        (&["rsi", "esi", "si", "sil"], 104),
        (&["rdi", "edi", "di", "dil"], 112),
        (&["rsp", "esp", "sp", "spl"], 152),
    ];
    REGISTERS.iter().find(|(names, _)| names.contains(&name)).map(|(_, offset)| *offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_gcc_writes_into_postgresql() {
        let symbols = HashMap::from([("CheckpointStats".to_string(), 0x2000), ("NBuffers".to_string(), 0x1000)]);
        let text = "-4@40+CheckpointStats(%rip) -4@NBuffers(%rip) 4@60(%rax) 1@%dil -4@$7 2@(%r12)";
        let arguments = parse(text, 0x1800, &symbols).unwrap();
        let expected = [
            (0x2028 - 0x1800, 0, Kind::Relative, 4, 1),
            (0x1000 - 0x1800, 0, Kind::Relative, 4, 1),
            (60, 80, Kind::Memory, 4, 0),
            (0, 112, Kind::Register, 1, 0),
            (7, 0, Kind::Constant, 4, 1),
            (0, 24, Kind::Memory, 2, 0),
        ];
        assert_eq!(arguments.len(), expected.len());
        for (argument, (offset, register_offset, kind, size, is_signed)) in arguments.into_iter().zip(expected) {
            assert_eq!(
                argument,
                Argument { offset, register_offset, kind: kind as u8, size, is_signed, unused: [0; 3] }
            );
        }
        assert!(has_symbol(text));
        assert!(!has_symbol("4@60(%rax)"));
    }

    #[test]
    fn what_is_not_known_is_an_error_not_a_guess() {
        for text in ["4@hidden(%rip)", "3@%eax", "4@%ah", "4@(%rax,%rbx,4)", "4"] {
            assert!(parse(text, 0, &HashMap::new()).is_err(), "{text}");
        }
    }
}

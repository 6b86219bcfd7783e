//! LZ4 files as the program `lz4` reads them: frames one after another, as `cat a.lz4 b.lz4` makes them, skippable frames, and
//! the legacy frames of `lz4 -l`, which have neither checksums nor an end mark.
//!
//! The library decodes frames. It takes the end of the file in the place of a block for the end of the frame, and never
//! misses the end mark and the checksum then; but at a true end of the frame it has not met the end of the file yet. Its
//! legacy frames know no end at all, and refuse blocks that did not get smaller, so only their blocks are left to it.

use std::fs::File;
use std::io;
use std::io::{BufReader, Read};

use lz4_flex::frame::FrameDecoder;

const MAGIC: u32 = 0x184D_2204;
const LEGACY_MAGIC: u32 = 0x184C_2102;

/// Skippable frames have any of these sixteen.
const SKIPPABLE_MAGIC: u32 = 0x184D_2A50;

/// A block of a legacy frame holds so much, but for the last.
const LEGACY_BLOCK: usize = 8 << 20;

/// What a block may have grown to (`LZ4_compressBound`).
const LEGACY_COMPRESSED: usize = LEGACY_BLOCK + LEGACY_BLOCK / 255 + 16;

/// Reads the content of all frames.
pub(crate) struct Lz4 {
    decoder: FrameDecoder<Input>,
    at: At,
    /// The block of a legacy frame that is being handed out, and how much of it was.
    block: Vec<u8>,
    handed_out: usize,
    has_checksum: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    /// Nothing was read yet.
    Beginning,
    /// Between frames.
    Between,
    Frame,
    Legacy,
    End,
}

/// A file of which the next bytes can be looked at, and that knows whether somebody has read up against its end.
struct Input {
    file: BufReader<File>,
    ahead: Vec<u8>,
    met_end: bool,
}

impl Lz4 {
    /// Reads from the beginning of `file`.
    pub(crate) fn new(file: BufReader<File>) -> Self {
        let input = Input { file, ahead: Vec::new(), met_end: false };
        Self {
            decoder: FrameDecoder::new(input),
            at: At::Beginning,
            block: Vec::new(),
            handed_out: 0,
            has_checksum: true,
        }
    }

    /// Whether all frames that were read so far carry a checksum of their content.
    pub(crate) fn has_checksum(&self) -> bool {
        self.has_checksum
    }

    /// Finds out what follows, and begins with it.
    fn next_frame(&mut self) -> io::Result<()> {
        let is_empty = self.at == At::Beginning;
        let input = self.decoder.get_mut();
        // The magic number, and the flags of a frame that has some.
        let start = input.look_ahead(5)?;
        let Some(magic) = start.first_chunk().map(|magic| u32::from_le_bytes(*magic)) else {
            if start.is_empty() && !is_empty {
                self.at = At::End;
                return Ok(());
            }
            return Err(cut_off());
        };
        let flags = start.get(4).copied().unwrap_or(0);
        match magic {
            LEGACY_MAGIC => {
                input.skip(4)?;
                self.has_checksum = false;
                self.at = At::Legacy;
            }
            magic if is_skippable(magic) => {
                input.skip(4)?;
                let mut length = [0; 4];
                input.read_exact(&mut length)?;
                input.skip(u64::from(u32::from_le_bytes(length)))?;
                self.at = At::Between;
            }
            // What is none is refused by the decoder.
            _ => {
                self.has_checksum &= flags & 0x04 != 0;
                self.at = At::Frame;
            }
        }
        Ok(())
    }

    fn read_frame(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.decoder.read(buffer)?;
        if length == 0 {
            if self.decoder.get_ref().met_end {
                return Err(cut_off());
            }
            self.at = At::Between;
        }
        Ok(length)
    }

    /// Hands out of the block at hand, or reads the next one. The frame ends with the file, or where another one begins:
    /// no block is as long as their magic numbers.
    fn read_legacy(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.handed_out == self.block.len() {
            let input = self.decoder.get_mut();
            let start = input.look_ahead(4)?;
            let word = match start.first_chunk() {
                Some(word) => u32::from_le_bytes(*word),
                None if start.is_empty() => {
                    self.at = At::End;
                    return Ok(0);
                }
                None => return Err(cut_off()),
            };
            if matches!(word, MAGIC | LEGACY_MAGIC) || is_skippable(word) {
                self.at = At::Between;
                return Ok(0);
            }
            if word as usize > LEGACY_COMPRESSED {
                return Err(damaged("a block is too long"));
            }
            input.skip(4)?;
            let mut compressed = vec![0; word as usize];
            input.read_exact(&mut compressed)?;
            self.block.resize(LEGACY_BLOCK, 0);
            let length = lz4_flex::block::decompress_into(&compressed, &mut self.block)
                .map_err(|error| damaged(&error.to_string()))?;
            self.block.truncate(length);
            self.handed_out = 0;
        }
        let rest = &self.block[self.handed_out..];
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        self.handed_out += length;
        Ok(length)
    }
}

impl Read for Lz4 {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            let length = match self.at {
                At::End => return Ok(0),
                At::Beginning | At::Between => {
                    self.next_frame()?;
                    0
                }
                At::Frame => self.read_frame(buffer)?,
                At::Legacy => self.read_legacy(buffer)?,
            };
            if length > 0 {
                return Ok(length);
            }
        }
    }
}

impl Input {
    /// The next bytes, at most `length`, which are read again later.
    fn look_ahead(&mut self, length: usize) -> io::Result<&[u8]> {
        let missing = length.saturating_sub(self.ahead.len());
        let file = &mut self.file;
        file.take(missing as u64).read_to_end(&mut self.ahead)?;
        Ok(&self.ahead)
    }

    fn skip(&mut self, length: u64) -> io::Result<()> {
        let skipped = io::copy(&mut self.take(length), &mut io::sink())?;
        if skipped < length {
            return Err(cut_off());
        }
        Ok(())
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.ahead.is_empty() {
            let length = self.ahead.len().min(buffer.len());
            buffer[..length].copy_from_slice(&self.ahead[..length]);
            self.ahead.drain(..length);
            return Ok(length);
        }
        let length = self.file.read(buffer)?;
        self.met_end |= length == 0 && !buffer.is_empty();
        Ok(length)
    }
}

fn is_skippable(magic: u32) -> bool {
    magic & !0xF == SKIPPABLE_MAGIC
}

fn cut_off() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the frame is cut off")
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

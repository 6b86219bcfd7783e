//! A file of an archive, read as what was archived.

use std::fs::File;
use std::io;
use std::io::BufReader;
use std::io::Read;
use std::path::Path;

use crate::Form;

/// Size of reads.
const BUFFER: usize = 256 << 10;

/// Reads a stored file from its beginning to its end, decompressed. Reading fails where a frame is cut off, does not
/// decompress, or does not match its checksum, and where something follows the last frame.
pub struct Stored {
    decoder: Decoder,
    has_checksum: bool,
}

enum Decoder {
    Plain(BufReader<File>),
    Zstd(zstd::stream::read::Decoder<'static, BufReader<File>>),
    Lz4(Box<Lz4>),
}

/// One frame. lz4_flex takes the end of the file in the place of a block for the end of the frame, and never misses the
/// end mark and the checksum then; but at a true end of the frame it has not met the end of the file yet.
struct Lz4 {
    decoder: lz4_flex::frame::FrameDecoder<NotingEnd>,
    ended: bool,
}

/// A file that knows whether somebody has read up against its end.
struct NotingEnd {
    file: BufReader<File>,
    met: bool,
}

impl Read for NotingEnd {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.file.read(buffer)?;
        self.met |= length == 0 && !buffer.is_empty();
        Ok(length)
    }
}

impl Stored {
    /// Opens a file by the form that its name tells.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let form = Form::of(path);
        let has_checksum = has_checksum(form, &mut file)?;
        let file = File::open(path).map(|file| BufReader::with_capacity(BUFFER, file))?;
        let decoder = match form {
            Form::Plain => Decoder::Plain(file),
            Form::Zstd => Decoder::Zstd(zstd::stream::read::Decoder::with_buffer(file)?),
            Form::Lz4 => Decoder::Lz4(Box::new(Lz4 {
                decoder: lz4_flex::frame::FrameDecoder::new(NotingEnd { file, met: false }),
                ended: false,
            })),
        };
        Ok(Self {
            decoder,
            has_checksum,
        })
    }

    /// Whether its (first) frame carries a checksum of its content. `zstd` and `lz4` write one unless told otherwise, and
    /// pg_calm always does.
    pub fn has_checksum(&self) -> bool {
        self.has_checksum
    }
}

impl Read for Stored {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.decoder {
            Decoder::Plain(file) => file.read(buffer),
            Decoder::Zstd(decoder) => decoder.read(buffer),
            Decoder::Lz4(lz4) => lz4.read(buffer),
        }
    }
}

impl Lz4 {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.ended || buffer.is_empty() {
            return Ok(0);
        }
        let length = self.decoder.read(buffer)?;
        if length == 0 {
            self.ended = true;
            if self.decoder.get_ref().met {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the frame is cut off",
                ));
            }
            let mut rest = [0; 1];
            if self.decoder.get_mut().read(&mut rest)? != 0 {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "something follows the frame",
                ));
            }
        }
        Ok(length)
    }
}

/// Reads the flags of the first frame's header: bit 2 of the byte after the magic number, in both formats.
fn has_checksum(form: Form, file: &mut File) -> io::Result<bool> {
    if form == Form::Plain {
        return Ok(false);
    }
    let mut start = [0; 5];
    match file.read_exact(&mut start) {
        Ok(()) => Ok(start[4] & 0x04 != 0),
        // The decoder says what is wrong with it.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(true),
        Err(error) => Err(error),
    }
}

//! A file of an archive, read as what was archived.

use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::Path;
use std::{fs, io};

use flate2::bufread::MultiGzDecoder;
use pgcalm_host::replacement;

use crate::Form;
use crate::lz4::Lz4;

/// Size of reads.
const BUFFER: usize = 256 << 10;

/// Reads a stored file from its beginning to its end, decompressed. Of several frames that follow one another all are read.
/// Reading fails where a frame is cut off, does not decompress, or does not match its checksum, and where something else
/// follows the last frame.
pub struct Stored {
    decoder: Decoder,
}

enum Decoder {
    Plain(BufReader<File>),
    Zstd { decoder: zstd::stream::read::Decoder<'static, BufReader<File>>, has_checksum: bool },
    Lz4(Box<Lz4>),
    Gzip(Box<MultiGzDecoder<BufReader<File>>>),
}

impl Stored {
    /// Opens a file by the form that its name tells. What is no regular file is refused, and not waited for as a FIFO would
    /// be: the error's kind is `InvalidInput`.
    pub fn open(path: &Path) -> io::Result<Self> {
        // Looked at before it is opened: with O_NONBLOCK a file on slow storage may be refused until it has been fetched.
        let kind = fs::metadata(path)?.file_type();
        if !kind.is_file() {
            return Err(replacement::not_a_file(kind));
        }
        let mut file = File::open(path)?;
        let form = Form::of(path);
        let has_checksum = form != Form::Zstd || zstd_has_checksum(&mut file)?;
        let file = BufReader::with_capacity(BUFFER, file);
        let decoder = match form {
            Form::Plain => Decoder::Plain(file),
            Form::Zstd => Decoder::Zstd { decoder: zstd::stream::read::Decoder::with_buffer(file)?, has_checksum },
            Form::Lz4 => Decoder::Lz4(Box::new(Lz4::new(file))),
            Form::Gzip => Decoder::Gzip(Box::new(MultiGzDecoder::new(file))),
        };
        Ok(Self { decoder })
    }

    /// Whether it is compressed, but without a checksum of its content, as far as it was read. `zstd` and `lz4` write one
    /// unless told otherwise, `pg_receivewal` with `lz4` writes none, and pg_calm always does.
    pub fn lacks_checksum(&self) -> bool {
        match &self.decoder {
            Decoder::Plain(_) | Decoder::Gzip(_) => false,
            Decoder::Zstd { has_checksum, .. } => !has_checksum,
            Decoder::Lz4(lz4) => !lz4.has_checksum(),
        }
    }
}

impl Read for Stored {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.decoder {
            Decoder::Plain(file) => file.read(buffer),
            Decoder::Zstd { decoder, .. } => decoder.read(buffer),
            Decoder::Lz4(lz4) => lz4.read(buffer),
            Decoder::Gzip(gzip) => gzip.read(buffer),
        }
    }
}

/// Reads the flags of the first frame's header: bit 2 of the byte after the magic number.
fn zstd_has_checksum(file: &mut File) -> io::Result<bool> {
    let mut start = [0; 5];
    match file.read_exact(&mut start) {
        Ok(()) => {
            file.rewind()?;
            Ok(start[4] & 0x04 != 0)
        }
        // The decoder says what is wrong with it.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            file.rewind()?;
            Ok(true)
        }
        Err(error) => Err(error),
    }
}

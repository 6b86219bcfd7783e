use std::path::{Path, PathBuf};

/// How a file is stored in an archive, told by what follows its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Byte for byte.
    Plain,
    /// `.zst`: frames of Zstandard (RFC 8878).
    Zstd,
    /// `.lz4`: frames of LZ4.
    Lz4,
    /// `.gz`: members of gzip (RFC 1952).
    Gzip,
}

pgcalm_host::names! { pub fn suffix(Form), ALL: Plain "", Zstd ".zst", Lz4 ".lz4", Gzip ".gz" }

impl Form {
    /// The form of a file by its name; whatever has none of the suffixes is taken as it is.
    pub fn of(path: &Path) -> Self {
        match path.extension().and_then(|suffix| suffix.to_str()) {
            Some("zst") => Self::Zstd,
            Some("lz4") => Self::Lz4,
            Some("gz") => Self::Gzip,
            _ => Self::Plain,
        }
    }

    /// Where `file` is in `archive` in this form, if it is there.
    pub fn place(self, archive: &Path, file: &str) -> PathBuf {
        archive.join(format!("{file}{}", self.suffix()))
    }
}

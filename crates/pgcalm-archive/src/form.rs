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

impl Form {
    /// All of them, in the order in which they are looked for.
    pub const ALL: [Self; 4] = [Self::Plain, Self::Zstd, Self::Lz4, Self::Gzip];

    /// What follows the name, with its dot.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Zstd => ".zst",
            Self::Lz4 => ".lz4",
            Self::Gzip => ".gz",
        }
    }

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

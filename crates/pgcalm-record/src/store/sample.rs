//! Whole samples of the host as compressed JSON, of which each second differs little from an earlier one.

use anyhow::Context;
use pgcalm_monitor::model::Host;

use super::Item;

/// A new dictionary is begun after this time: by then servers may have come and gone.
const DICTIONARY_MS: u64 = 3_600_000;

/// And for a sample that is so many times as long as it: the first ones lack what servers have not answered yet.
const LONGER: f64 = 1.2;

const LEVEL: i32 = 3;

/// The longest sample that is believed to be one.
const LONGEST: usize = 256 << 20;

/// Compresses samples with an earlier one as the dictionary, which makes them a fifth of what they are alone.
#[derive(Default)]
pub struct Packer {
    dictionary: Option<Dictionary>,
}

struct Dictionary {
    id: u64,
    length: usize,
    compressor: zstd::bulk::Compressor<'static>,
}

impl Packer {
    /// What is to be written of a sample: first the dictionary, if it is a new one.
    pub fn pack(&mut self, host: &Host) -> anyhow::Result<Vec<Item>> {
        let json = serde_json::to_vec(host)?;
        let mut items = Vec::new();
        let is_current = |dictionary: &Dictionary| {
            host.time_ms >= dictionary.id
                && host.time_ms - dictionary.id < DICTIONARY_MS
                && (json.len() as f64) < LONGER * dictionary.length as f64
        };
        let current = self.dictionary.take().filter(is_current);
        let dictionary = match current {
            Some(dictionary) => self.dictionary.insert(dictionary),
            None => {
                items.push(Item::Dictionary { id: host.time_ms, json: zstd::bulk::compress(&json, LEVEL)? });
                self.dictionary.insert(Dictionary {
                    id: host.time_ms,
                    length: json.len(),
                    compressor: zstd::bulk::Compressor::with_dictionary(LEVEL, &json)?,
                })
            }
        };
        let packed = dictionary.compressor.compress(&json)?;
        items.push(Item::Sample { time_ms: host.time_ms, dictionary: dictionary.id, length: json.len(), packed });
        Ok(items)
    }
}

/// The JSON of a dictionary.
pub(super) fn unpack_dictionary(packed: &[u8]) -> anyhow::Result<Vec<u8>> {
    Ok(zstd::stream::decode_all(packed)?)
}

/// A sample.
pub(super) fn unpack(packed: &[u8], length: usize, dictionary: &[u8]) -> anyhow::Result<Host> {
    anyhow::ensure!(length <= LONGEST, "a sample of {length} bytes");
    let json = zstd::bulk::Decompressor::with_dictionary(dictionary)?.decompress(packed, length)?;
    serde_json::from_slice(&json).context("a sample")
}

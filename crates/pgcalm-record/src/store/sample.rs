//! Whole samples of the host as compressed JSON, of which each second differs little from an earlier one.

use anyhow::Context;
use pgcalm_monitor::model::Host;

use super::Item;

/// A new dictionary is begun after this time: by then servers may have come and gone.
const DICTIONARY_MS: u64 = 3_600_000;

const LEVEL: i32 = 3;

/// The longest sample that is believed to be one.
const LONGEST: usize = 256 << 20;

/// Compresses samples with an earlier one as the dictionary, which makes them a fifth of what they are alone.
#[derive(Default)]
pub struct Packer {
    dictionary: Option<(u64, zstd::bulk::Compressor<'static>)>,
}

impl Packer {
    /// What is to be written of a sample: first the dictionary, if it is a new one.
    pub fn pack(&mut self, host: &Host) -> anyhow::Result<Vec<Item>> {
        let json = serde_json::to_vec(host)?;
        let mut items = Vec::new();
        let is_current = |began: u64| host.time_ms >= began && host.time_ms - began < DICTIONARY_MS;
        if !self.dictionary.as_ref().is_some_and(|(began, _)| is_current(*began)) {
            let compressor = zstd::bulk::Compressor::with_dictionary(LEVEL, &json)?;
            self.dictionary = Some((host.time_ms, compressor));
            items.push(Item::Dictionary { id: host.time_ms, json: zstd::bulk::compress(&json, LEVEL)? });
        }
        if let Some((id, compressor)) = &mut self.dictionary {
            let packed = compressor.compress(&json)?;
            items.push(Item::Sample { time_ms: host.time_ms, dictionary: *id, length: json.len(), packed });
        }
        Ok(items)
    }
}

/// The JSON of a dictionary.
pub fn unpack_dictionary(packed: &[u8]) -> anyhow::Result<Vec<u8>> {
    Ok(zstd::stream::decode_all(packed)?)
}

/// A sample.
pub fn unpack(packed: &[u8], length: usize, dictionary: &[u8]) -> anyhow::Result<Host> {
    anyhow::ensure!(length <= LONGEST, "a sample of {length} bytes");
    let json = zstd::bulk::Decompressor::with_dictionary(dictionary)?.decompress(packed, length)?;
    serde_json::from_slice(&json).context("a sample")
}

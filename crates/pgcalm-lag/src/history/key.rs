//! What a standby is across its connections.

use std::collections::BTreeMap;

use super::Seen;
use crate::reading::{Reading, Sender};

/// A standby across its connections.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub application_name: String,
    pub client_address: Option<String>,
    pub slot: Option<String>,
    /// Of those that are alike in all of it: kept as long as one is connected, so that none is taken for another when that goes.
    pub number: usize,
}

/// The walsenders of an answer, by what they are across connections. `seen` is what they were before, `previous` when that was.
pub(super) fn keyed<'a>(
    reading: &'a Reading,
    seen: &BTreeMap<Key, Seen>,
    previous: Option<f64>,
) -> Vec<(Key, &'a Sender)> {
    let before = |sender: &Sender| {
        let same = |seen: &Seen| seen.sender.pid == sender.pid && Some(seen.time) == previous;
        seen.iter().find(|(_, seen)| same(seen)).map(|(key, _)| key)
    };
    let mut senders: Vec<&Sender> = reading.senders.iter().collect();
    // New ones get what is free, by port.
    senders.sort_by_key(|sender| (before(sender).is_none(), sender.client_port, sender.pid));
    let mut keyed: Vec<(Key, &Sender)> = Vec::new();
    for sender in senders {
        let slot = reading.slots.iter().find(|slot| slot.active_pid == Some(sender.pid));
        let mut key = Key {
            application_name: sender.application_name.clone(),
            client_address: sender.client_address.clone(),
            slot: slot.map(|slot| slot.name.clone()),
            number: 0,
        };
        if let Some(before) = before(sender).filter(|before| Key { number: 0, ..(*before).clone() } == key) {
            key.number = before.number;
        }
        while keyed.iter().any(|(other, _)| *other == key) {
            key.number += 1;
        }
        keyed.push((key, sender));
    }
    keyed
}

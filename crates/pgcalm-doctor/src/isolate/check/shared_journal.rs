use std::collections::BTreeMap;

use super::{described, write_limits};
use crate::isolate::report::{Hazard, Instance, Place};

/// Instances that write through one journal while one of them is limited on its disk.
///
/// Two ways lead from the one to the others (fs/jbd2 in the kernel). A commit of ext4 with `data=ordered` waits for
/// data in newly allocated blocks, in the queue of the limited instance if that is where it is
/// (`journal_finish_inode_data_buffers`). And a transaction or a journal that the limited instance has filled holds up
/// whoever wants to begin a transaction (`add_transaction_credits`, `__jbd2_log_wait_for_space`), whatever `data=` is.
/// XFS has neither; that its log is written under the limit of who forces it is `journal-device-capped`.
pub(super) fn find(instances: &[Instance]) -> Vec<Hazard> {
    let mut journals: BTreeMap<&str, Vec<(&Instance, &Place)>> = BTreeMap::new();
    for instance in instances {
        for place in &instance.places {
            if place.journal.there().is_some() && place.fs != "xfs" {
                journals.entry(place.device_number.as_str()).or_default().push((instance, place));
            }
        }
    }
    journals.into_values().filter_map(|users| hazard(&users)).collect()
}

fn hazard(users: &[(&Instance, &Place)]) -> Option<Hazard> {
    let mut names: Vec<String> = users.iter().map(|(instance, _)| instance.data_directory.clone()).collect();
    names.dedup();
    let (_, place) = users.first()?;
    let journal = place.journal.there()?;
    let mut limits: Vec<String> = users
        .iter()
        .flat_map(|(instance, place)| {
            let disks = place.disks().chain(journal.disks());
            disks.flat_map(|disk| {
                write_limits(instance, disk).map(|limit| format!("{}: {}", instance.data_directory, described(limit)))
            })
        })
        .collect();
    limits.sort();
    limits.dedup();
    if names.len() < 2 || limits.is_empty() {
        return None;
    }
    let device = place.device.as_deref().unwrap_or(&place.device_number);
    let mut evidence = vec![format!(
        "{} on {device} ({}), used by {} instances",
        place.mountpoint,
        match (&journal.data_mode, journal.waits_for_data) {
            (Some(mode), true) => format!("{} with data={mode}, whose commits wait for data", place.fs),
            (Some(mode), false) => format!("{} with data={mode}", place.fs),
            (None, _) => place.fs.clone(),
        },
        names.len()
    )];
    evidence.extend(limits);
    Some(Hazard {
        name: "shared-journal".to_string(),
        instances: names,
        evidence,
        cure: "give each instance a file system of its own, or take the limit off; a journal on another disk does not help, and \
               data=writeback,nodelalloc can damage tables in a crash"
            .to_string(),
    })
}

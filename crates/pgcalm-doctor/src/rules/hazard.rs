//! What `pgcalm isolate check` finds.

use crate::isolate::report::Hazard;

use crate::facts::Facts;
use crate::rules::found::{Answer, Found, Unknown};
use crate::rules::read;

/// A hazard of the instance by its name in docs/guides/isolate.md.
pub(super) fn named(facts: &Facts, name: &str) -> Answer {
    let Some(hazard) = find(facts, name)? else { return Ok(None) };
    let mut found = Found::default();
    for evidence in &hazard.evidence {
        found = found.and(evidence.clone());
    }
    Ok(Some(found.run("pgcalm isolate check")))
}

pub(super) fn is_there(facts: &Facts, name: &str) -> Result<bool, Unknown> {
    Ok(find(facts, name)?.is_some())
}

fn find<'a>(facts: &'a Facts, name: &str) -> Result<Option<&'a Hazard>, Unknown> {
    let instance = read::instance(facts)?;
    let mut hazards = read::host(facts)?.hazards.iter();
    let found = hazards.find(|hazard| hazard.name == name);
    match (found, &instance.not_known()[..]) {
        // One that is not found may be where nothing is known.
        (None, [first, ..]) => Err((*first).clone()),
        (found, _) => Ok(found),
    }
}

//! What kernel and server offer to pg_calm and to pgcalm.

use crate::facts::{Facts, KernelFeatures};
use crate::rules::found::{Answer, Found, Unknown, when};
use crate::rules::read;

pub(super) fn no_cachestat(facts: &Facts) -> Answer {
    lacks(facts, "cachestat", |features| features.cachestat)
}

pub(super) fn no_populate_write(facts: &Facts) -> Answer {
    lacks(facts, "MADV_POPULATE_WRITE", |features| features.populate_write)
}

pub(super) fn no_btf(facts: &Facts) -> Answer {
    lacks(facts, "/sys/kernel/btf/vmlinux", |features| features.btf)
}

pub(super) fn no_usdt(facts: &Facts) -> Answer {
    read::instance(facts)?;
    let Some(probes) = read::host(facts)?.usdt_probes else {
        return Err("the server's program could not be read: run as root".into());
    };
    when(probes == 0, || Found::new("the server's program has no probe of provider postgresql"))
}

fn lacks(facts: &Facts, name: &str, feature: fn(&KernelFeatures) -> Option<bool>) -> Answer {
    let host = read::host(facts)?;
    let Some(has) = feature(&host.kernel_features) else {
        return Err(Unknown::new(format!("whether the kernel has {name} could not be told")));
    };
    let release = host.kernel_release.as_deref().unwrap_or("unknown");
    when(!has, || Found::new(format!("Linux {release} has no {name}, or does not grant it here")))
}

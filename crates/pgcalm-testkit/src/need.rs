//! What a test needs of the machine, and what it says where that is not there.

use std::path::Path;
use std::process::Command;

use pgcalm_host::cgroup::{Hierarchy, Version};
use pgcalm_host::{HostRoot, postgres};
use pgcalm_lab::cap::Capper;
use pgcalm_lab::journal::Journal;
use pgcalm_trace::usdt::notes::Notes;

use crate::programs::bindir;
use crate::{libpq, module_directory};

/// Something that not every machine has.
pub struct Need {
    /// As in "needs ...".
    what: &'static str,
    is_met: fn() -> bool,
}

/// For loop devices, mounts, namespaces, eBPF, and to run servers as another user.
pub const ROOT: Need = Need { what: "root", is_met: || rustix::process::geteuid().is_root() };

/// Programs of a server of any version.
pub const ANY_SERVER: Need =
    Need { what: "an installed PostgreSQL server", is_met: || !postgres::bindirs(&HostRoot::default()).is_empty() };

/// Those of [`bindir`].
pub const SERVER: Need = Need { what: "PostgreSQL 15, or PG_CONFIG that names another", is_met: || bindir().is_some() };

/// Those of [`bindir`], with probes.
pub const SERVER_PROBES: Need = Need {
    what: "a PostgreSQL built with --enable-dtrace",
    is_met: || {
        bindir().is_some_and(|bindir| Notes::read(&bindir.join("postgres")).is_ok_and(|notes| !notes.sites.is_empty()))
    },
};

/// The client library, of any version.
pub const LIBPQ: Need = Need { what: "libpq.so.5", is_met: libpq::is_there };

/// The module, built.
pub const MODULE: Need =
    Need { what: "pg_calm, make build", is_met: || module_directory().join("pg_calm.so").exists() };

/// For eBPF programs that read what the kernel knows.
pub const KERNEL_TYPES: Need =
    Need { what: "a kernel with BTF", is_met: || Path::new("/sys/kernel/btf/vmlinux").exists() };

/// For `pgcalm lab volume`.
pub const FUSE: Need = Need { what: "/dev/fuse", is_met: || Path::new("/dev/fuse").exists() };

/// What loads a device.
pub const FIO: Need = Need { what: "fio, make deps", is_met: || Command::new("fio").arg("--version").output().is_ok() };

/// Caps of devices that hold for all.
pub const ROOT_GROUP_CAPS: Need = Need {
    what: "a block cgroup of version 1 whose root group caps devices",
    is_met: || {
        let journal = Journal::open(HostRoot::default(), Path::new("/nonexistent/pgcalm-journal.json"));
        journal.is_ok_and(|journal| matches!(Capper::of_root_group(&journal), Ok(Some(_))))
    },
};

/// Caps of single groups, by version 1 of control groups.
pub const BLOCK_CGROUP: Need = Need {
    what: "the blkio controller of cgroup v1",
    is_met: || {
        Hierarchy::of_block_io(&HostRoot::default())
            .is_ok_and(|hierarchy| hierarchy.is_some_and(|it| it.version == Version::V1))
    },
};

/// Whether all of it is there. If not, says what tests are skipped and why, and `make test` repeats that at its end.
///
/// # Panics
///
/// If something is not there and `PGCALM_NO_SKIPS` is set, as CI sets it: there nothing may be skipped unseen.
pub fn met(tests: &str, needs: &[Need]) -> bool {
    let Some(lack) = needs.iter().find(|need| !(need.is_met)()) else { return true };
    assert!(
        std::env::var_os("PGCALM_NO_SKIPS").is_none(),
        "{tests}: needs {}; unset PGCALM_NO_SKIPS to skip it",
        lack.what
    );
    eprintln!("skipped: {tests}: needs {}", lack.what);
    false
}

//! Options that more than one scenario has: what each is, its value and its check are declared here. A scenario's `Options` has it as
//! a field with its default there, and with a comment if there is more to say.

use std::convert::identity;
use std::sync::LazyLock;

use clap::Arg;

use crate::options::{count, rows};

struct Declared {
    name: &'static str,
    value: &'static str,
    help: &'static str,
    check: fn(Arg) -> Arg,
}

const fn option(name: &'static str, value: &'static str, help: &'static str, check: fn(Arg) -> Arg) -> Declared {
    Declared { name, value, help, check }
}

const OPTIONS: [Declared; 24] = [
    option("cases", "LIST", "What is run, separated by commas; `pgcalm lab list` tells what there is", |arg| {
        arg.value_delimiter(',')
    }),
    option("contestants", "LIST", "Who takes part, separated by commas", |arg| arg.value_delimiter(',')),
    option("rows", "N", "Rows of the table, about 125 bytes each with its index", |arg| arg.value_parser(rows::<u64>)),
    option("shared-buffers", "SIZE", "shared_buffers of all servers", identity),
    option("data-iops", "N|none", "Write operations per second that the data device takes, or none", identity),
    option("data-bps", "SIZE|none", "Bytes per second that the data device takes, or none", identity),
    option("data-read-iops", "N|none", "Read operations per second that the data device gives, or none", identity),
    option("wal-iops", "N|none", "Write operations per second that the WAL device takes, or none", identity),
    option("wal-bps", "SIZE|none", "Bytes per second that the WAL device takes, or none", identity),
    option("wal-size", "SIZE", "Size of the WAL device, which has no caps without --volume", identity),
    option("max-wal-size", "SIZE", "max_wal_size of all servers", identity),
    option("size", "SIZE", "Size of the device of each file system", identity),
    option("fs", "FS", "File system of all devices", identity),
    option(
        "mount-options",
        "LIST",
        "Options that all file systems are mounted with, beside noatime: e.g. nodelalloc,data=writeback or \
         barrier=0, which some hosts have; a crash may cost data then",
        identity,
    ),
    option(
        "sysctl",
        "PROFILE",
        "Writeback sysctls during the runs: default is the kernel's, default:SIZE what its ratios come to on a \
         host with SIZE of memory (small: 4 GB), roomy gives dirty pages room and time, early has the flusher \
         look each second for more than 102.4 MB; former values come back",
        identity,
    ),
    option("clients", "N", "Connections of the load", |arg| arg.value_parser(count::<u32>)),
    option(
        "rate",
        "N|none",
        "Transactions per second that clients begin, at random intervals, or none for as fast as they go; latency \
         counts from when one should have begun",
        identity,
    ),
    option("lead", "S", "Time under load before the server is looked at", identity),
    option("seconds", "S", "Duration of the load", identity),
    option("repeat", "N", "Runs of each contestant, interleaved", |arg| arg.value_parser(count::<u32>)),
    option("checkpoint-timeout", "S", "checkpoint_timeout, at least 30", identity),
    option("set-contestant", "CONTESTANT:NAME=VALUE", "A server setting for one contestant; may be repeated", identity),
    option("cycles", "N", "Crashes", |arg| arg.value_parser(count::<u32>)),
    option("seed", "N", "Seed of all random choices; the report tells which it was [default: a random one]", |arg| {
        arg.value_parser(count::<u64>).default_value(SEED.as_str()).hide_default_value(true).required(false)
    }),
];

static SEED: LazyLock<String> = LazyLock::new(|| fastrand::u64(..1 << 32).to_string());

/// Completes an option of a scenario with what is declared here. One that has a declaration of its own is left as it is.
pub(crate) fn declared(arg: Arg) -> Arg {
    // The field's name in capitals is there if nothing else was said.
    let names = arg.get_value_names().unwrap_or_default();
    let is_own = names.iter().any(|name| name.as_str() != arg.get_id().as_str().to_uppercase());
    let Some(option) = OPTIONS.iter().find(|option| Some(option.name) == arg.get_long() && !is_own) else { return arg };
    let arg = match arg.get_help() {
        Some(_) => arg,
        None => arg.help(option.help),
    };
    (option.check)(arg.value_name(option.value))
}

/// The same where the caps of control groups and those of a volume exclude each other.
pub(crate) fn declared_without_volume(arg: Arg) -> Arg {
    let arg = declared(arg);
    match arg.get_id().as_str() {
        "data_iops" | "data_bps" | "data_read_iops" | "wal_iops" | "wal_bps" => arg.conflicts_with("volume"),
        _ => arg,
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args, Command};

    use super::*;

    macro_rules! all_options {
        ($($scenario:ident($module:ident),)*) => {
            [$((stringify!($scenario), crate::$module::Options::augment_args(Command::new("lab"))),)*]
        };
    }

    #[test]
    fn each_option_has_a_name_and_a_help() {
        let mut named = 0;
        for (scenario, command) in crate::scenarios!(all_options) {
            command.clone().debug_assert();
            for arg in command.get_arguments() {
                assert!(arg.get_long().is_some() && arg.get_help().is_some(), "{scenario}: {}", arg.get_id());
                named += usize::from(OPTIONS.iter().any(|option| Some(option.name) == arg.get_long()));
            }
        }
        // Or one scenario alone has it.
        assert!(named >= 2 * OPTIONS.len(), "{named}");
    }
}

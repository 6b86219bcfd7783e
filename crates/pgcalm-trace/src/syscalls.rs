//! System calls by number: what they do, and their names.

use crate::io::report::Operation;

/// MAX_SYSCALLS of bpf/syscall_table.bpf.h.
pub const MAX_SYSCALLS: usize = 512;

/// NO_SYSCALL of bpf/waits.bpf.h.
pub const NO_SYSCALL: u16 = 0xffff;

/// The calls that PostgreSQL makes on files, directories and sockets; all others are [`Operation::Other`].
const CALLS: &[(libc::c_long, &str, Operation)] = &[
    (libc::SYS_read, "read", Operation::Read),
    (libc::SYS_pread64, "pread64", Operation::Read),
    (libc::SYS_readv, "readv", Operation::Read),
    (libc::SYS_preadv, "preadv", Operation::Read),
    (libc::SYS_preadv2, "preadv2", Operation::Read),
    (libc::SYS_recvfrom, "recvfrom", Operation::Read),
    (libc::SYS_recvmsg, "recvmsg", Operation::Read),
    (libc::SYS_getdents64, "getdents64", Operation::Read),
    (libc::SYS_write, "write", Operation::Write),
    (libc::SYS_pwrite64, "pwrite64", Operation::Write),
    (libc::SYS_writev, "writev", Operation::Write),
    (libc::SYS_pwritev, "pwritev", Operation::Write),
    (libc::SYS_pwritev2, "pwritev2", Operation::Write),
    (libc::SYS_sendto, "sendto", Operation::Write),
    (libc::SYS_sendmsg, "sendmsg", Operation::Write),
    (libc::SYS_fsync, "fsync", Operation::Sync),
    (libc::SYS_fdatasync, "fdatasync", Operation::Sync),
    (libc::SYS_sync_file_range, "sync_file_range", Operation::SyncRange),
    (libc::SYS_syncfs, "syncfs", Operation::Sync),
    (libc::SYS_openat, "openat", Operation::Open),
    (libc::SYS_close, "close", Operation::Close),
    (libc::SYS_fallocate, "fallocate", Operation::Allocate),
    (libc::SYS_ftruncate, "ftruncate", Operation::Allocate),
    (libc::SYS_renameat, "renameat", Operation::Name),
    (libc::SYS_renameat2, "renameat2", Operation::Name),
    (libc::SYS_unlinkat, "unlinkat", Operation::Name),
    (libc::SYS_linkat, "linkat", Operation::Name),
    (libc::SYS_mkdirat, "mkdirat", Operation::Name),
    (libc::SYS_futex, "futex", Operation::Other),
    (libc::SYS_epoll_pwait, "epoll_pwait", Operation::Other),
    (libc::SYS_clock_nanosleep, "clock_nanosleep", Operation::Other),
    (libc::SYS_pselect6, "pselect6", Operation::Other),
    (libc::SYS_exit_group, "exit_group", Operation::Other),
    (libc::SYS_mmap, "mmap", Operation::Other),
    (libc::SYS_munmap, "munmap", Operation::Other),
    (libc::SYS_brk, "brk", Operation::Other),
    (libc::SYS_fstat, "fstat", Operation::Other),
    (libc::SYS_newfstatat, "newfstatat", Operation::Other),
    (libc::SYS_lseek, "lseek", Operation::Other),
    (libc::SYS_wait4, "wait4", Operation::Other),
    (libc::SYS_fadvise64, "fadvise64", Operation::Other),
];

/// Calls that newer machines such as aarch64 do without.
#[cfg(target_arch = "x86_64")]
const OLD_CALLS: &[(libc::c_long, &str, Operation)] = &[
    (libc::SYS_open, "open", Operation::Open),
    (libc::SYS_creat, "creat", Operation::Open),
    (libc::SYS_rename, "rename", Operation::Name),
    (libc::SYS_unlink, "unlink", Operation::Name),
    (libc::SYS_link, "link", Operation::Name),
    (libc::SYS_mkdir, "mkdir", Operation::Name),
    (libc::SYS_rmdir, "rmdir", Operation::Name),
    (libc::SYS_epoll_wait, "epoll_wait", Operation::Other),
    (libc::SYS_select, "select", Operation::Other),
    (libc::SYS_poll, "poll", Operation::Other),
    (libc::SYS_stat, "stat", Operation::Other),
];
#[cfg(not(target_arch = "x86_64"))]
const OLD_CALLS: &[(libc::c_long, &str, Operation)] = &[];

/// The table `operation_of_syscall` of the programs.
pub fn operations() -> [u8; MAX_SYSCALLS] {
    let mut table = [Operation::Other as u8; MAX_SYSCALLS];
    for (number, _, operation) in CALLS.iter().chain(OLD_CALLS) {
        if let Some(place) = table.get_mut(*number as usize) {
            *place = *operation as u8;
        }
    }
    table
}

/// The table `path_argument_of_syscall` of the programs: of calls that open or name a file, which argument is its path,
/// counted from 1. Those relative to a directory have its descriptor before it.
pub fn path_arguments() -> [u8; MAX_SYSCALLS] {
    let mut table = [0; MAX_SYSCALLS];
    for (number, name, operation) in CALLS.iter().chain(OLD_CALLS) {
        let has_path = matches!(operation, Operation::Open | Operation::Name);
        if let Some(place) = table.get_mut(*number as usize).filter(|_| has_path) {
            let relative = *name != "creat" && name.trim_end_matches('2').ends_with("at");
            *place = if relative { 2 } else { 1 };
        }
    }
    table
}

/// The name of a system call; none for [`NO_SYSCALL`].
pub fn name(number: u16) -> Option<String> {
    if number == NO_SYSCALL {
        return None;
    }
    let known = CALLS.iter().chain(OLD_CALLS).find(|(call, _, _)| *call == libc::c_long::from(number));
    Some(known.map_or_else(|| format!("system call {number}"), |(_, name, _)| (*name).to_string()))
}

/// What a system call does.
pub fn operation(number: u16) -> Operation {
    CALLS
        .iter()
        .chain(OLD_CALLS)
        .find(|(call, _, _)| *call == libc::c_long::from(number))
        .map_or(Operation::Other, |(_, _, operation)| *operation)
}

/// Whether a system call waits for events, those of sockets among them.
pub fn polls(number: u16) -> bool {
    name(number)
        .is_some_and(|name| ["epoll_wait", "epoll_pwait", "poll", "select", "pselect6"].contains(&name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_and_the_names_agree() {
        assert_eq!(operations()[libc::SYS_fdatasync as usize], Operation::Sync as u8);
        assert_eq!(name(libc::SYS_fdatasync as u16).as_deref(), Some("fdatasync"));
        assert_eq!(operation(libc::SYS_pwrite64 as u16), Operation::Write);
        for (number, argument) in [(libc::SYS_openat, 2), (libc::SYS_renameat2, 2), (libc::SYS_fsync, 0)] {
            assert_eq!(path_arguments()[number as usize], argument, "{number}");
        }
        #[cfg(target_arch = "x86_64")]
        assert_eq!((path_arguments()[libc::SYS_rename as usize], path_arguments()[libc::SYS_creat as usize]), (1, 1));
        assert_eq!(name(500).as_deref(), Some("system call 500"));
        assert_eq!(name(NO_SYSCALL), None);
    }
}

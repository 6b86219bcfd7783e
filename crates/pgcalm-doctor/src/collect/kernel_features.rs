use std::path::Path;

use pgcalm_host::{HostRoot, kernel_release};

use crate::facts::KernelFeatures;

/// The number of cachestat, the same on all architectures (include/uapi/asm-generic/unistd.h).
const SYS_CACHESTAT: libc::c_long = 451;

/// What the kernel offers. On this host it is asked: an old container runtime may refuse a system call that the kernel
/// has. The server may run in another container, of which this says nothing.
pub(super) fn read(root: &HostRoot, release: Option<&str>) -> KernelFeatures {
    let btf = root.path("sys/kernel/btf/vmlinux").exists();
    if root.path("/") == Path::new("/") {
        return KernelFeatures {
            cachestat: Some(has_cachestat()),
            populate_write: Some(has_populate_write()),
            btf: Some(btf),
        };
    }
    let version = release.and_then(kernel_release::version);
    KernelFeatures {
        cachestat: version.map(|version| version >= (6, 5)),
        populate_write: version.map(|version| version >= (5, 14)),
        btf: Some(btf),
    }
}

fn has_cachestat() -> bool {
    let none = std::ptr::null::<libc::c_void>();
    let (descriptor, flags): (libc::c_long, libc::c_long) = (-1, 0);
    // SAFETY: the descriptor is invalid, so the kernel neither reads from nor writes to the null pointers; if it did, it
    // would return EFAULT.
    let result = unsafe { libc::syscall(SYS_CACHESTAT, descriptor, none, none, flags) };
    // EBADF says that it is there; ENOSYS and a container's EPERM, that it isn't.
    result == -1 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EBADF)
}

fn has_populate_write() -> bool {
    let advice = rustix::mm::Advice::LinuxPopulateWrite;
    // SAFETY: a range of no length touches no memory; the kernel returns 0 for it exactly if it knows the advice
    // (madvise(2), NOTES).
    unsafe { rustix::mm::madvise(std::ptr::null_mut(), 0, advice) }.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_answers_agrees_with_its_version() {
        let root = HostRoot::default();
        let release = kernel_release::read(&root).unwrap();
        let (asked, version) = (read(&root, Some(&release)), kernel_release::version(&release).unwrap());
        // A container's filter may take away, nothing may add.
        assert!(asked.cachestat != Some(true) || version >= (6, 5));
        assert_eq!(asked.populate_write, Some(version >= (5, 14)));
    }
}

//! The package's unit without systemd: its settings by the same means of the kernel, as far as they take something away from
//! the program. SystemCallFilter=, whose groups are systemd's, and what concerns devices and modules are left out.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::{fs, io};

/// What is hidden by ProtectHome=.
const HOMES: &[&str] = &["/home", "/root", "/run/user"];

/// Nodes that PrivateDevices= leaves.
const NODES: &str = "null zero full random urandom tty";

/// The settings of its section `[Service]`.
pub(super) struct Unit(BTreeMap<String, String>);

impl Unit {
    /// That of the package.
    pub(super) fn of_package() -> Self {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../debian/pgcalm.pgcalm-exporter.service");
        let text = fs::read_to_string(file).unwrap();
        let (_, service) = text.split_once("[Service]").unwrap();
        let service = service.split("\n[").next().unwrap();
        let settings = service.lines().filter(|line| !line.starts_with('#'));
        let settings = settings.filter_map(|line| line.split_once('='));
        Self(settings.map(|(name, value)| (name.to_string(), value.to_string())).collect())
    }

    /// As a drop-in sets it.
    pub(super) fn set(&mut self, name: &str, value: &str) {
        self.0.insert(name.to_string(), value.to_string());
    }

    fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    fn is_on(&self, name: &str) -> bool {
        self.get(name) == "yes"
    }

    fn words(&self, name: &str) -> impl Iterator<Item = &str> {
        self.get(name).split_whitespace()
    }

    /// `program` as the service would run it; `directory` is one that it sees.
    pub(super) fn command(&self, directory: &Path, program: &Path) -> Command {
        let mut script = vec!["set -e".to_string()];
        let mut run = |line: String| script.push(line);
        let read_only = |path: &str| format!("mount --rbind {path} {path} && mount -o remount,bind,ro {path}");
        if self.get("ProtectSystem") == "strict" {
            run("mount -o remount,bind,ro /".to_string());
            // What is mounted elsewhere, but for what the kernel makes up.
            run(
                "for t in $(awk '$5 !~ \"^/(proc|sys|dev)(/|$)\" && $5 != \"/\" {print $5}' /proc/self/mountinfo); do \
                 mount -o remount,bind,ro $t 2>/dev/null || true; done"
                    .to_string(),
            );
        }
        if self.is_on("ProtectControlGroups") {
            run(format!("[ ! -d /sys/fs/cgroup ] || {{ {}; }}", read_only("/sys/fs/cgroup")));
        }
        if self.is_on("ProtectKernelTunables") {
            run(read_only("/proc/sys"));
        }
        if self.is_on("PrivateDevices") {
            let keep = directory.join("dev");
            fs::create_dir_all(&keep).unwrap();
            let keep = keep.display();
            run(format!(
                "mount --rbind /dev {keep}; mount -t tmpfs -o mode=755 tmpfs /dev; for n in {NODES}; do touch /dev/$n; \
                 mount --bind {keep}/$n /dev/$n; done; umount -l {keep}"
            ));
        }
        for home in HOMES {
            let line = match self.get("ProtectHome") {
                "yes" | "tmpfs" => format!("mount -t tmpfs -o mode=000 tmpfs {home}"),
                "read-only" => read_only(home),
                _ => continue,
            };
            run(format!("[ ! -d {home} ] || {{ {line}; }}"));
        }
        // Whoever has a user that is made up has a /tmp of their own (systemd.exec(5), DynamicUser=), unless that of the host is
        // bound there (the order of `MountMode` in systemd's src/core/namespace.c).
        if self.is_on("PrivateTmp") || self.is_on("DynamicUser") {
            for path in ["/tmp", "/var/tmp"] {
                run(match self.words("BindReadOnlyPaths").any(|bound| bound == path) {
                    true => read_only(path),
                    false => format!("mount -t tmpfs tmpfs {path}"),
                });
            }
        }
        for path in self.words("ReadWritePaths") {
            run(format!("mount --bind {path} {path}; mount -o remount,bind,rw {path}"));
        }
        if !self.get("UMask").is_empty() {
            run(format!("umask {}", self.get("UMask")));
        }
        run("cd /; exec setpriv --reuid 65534 --regid 65534 --clear-groups --no-new-privs --bounding-set=-all \"$@\""
            .to_string());
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--propagation", "private", "sh", "-c"])
            .arg(script.join("\n"))
            .arg("sh")
            .arg(program)
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        let families: Vec<u32> = self.words("RestrictAddressFamilies").map(family).collect();
        if !families.is_empty() {
            let filter = filter(&families);
            // SAFETY: the closure allocates nothing and makes two system calls, which are async-signal-safe.
            unsafe { command.pre_exec(move || apply(&filter)) };
        }
        command
    }
}

fn family(name: &str) -> u32 {
    let number = match name {
        "AF_UNIX" => libc::AF_UNIX,
        "AF_INET" => libc::AF_INET,
        "AF_INET6" => libc::AF_INET6,
        "AF_NETLINK" => libc::AF_NETLINK,
        _ => panic!("RestrictAddressFamilies={name}: not known to this test"),
    };
    number as u32
}

/// socket() of another family fails with EAFNOSUPPORT, as under systemd.
fn filter(families: &[u32]) -> Vec<libc::sock_filter> {
    let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let load = |offset: u32| statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset);
    let unless = |k: u32, skip: usize| libc::sock_filter {
        jf: skip as u8,
        ..statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, k)
    };
    let answer = |value: u32| statement(libc::BPF_RET | libc::BPF_K, value);
    // The number of the call at 0, the lower half of its first argument at 16 (struct seccomp_data).
    let mut filter = vec![load(0), unless(libc::SYS_socket as u32, 1 + 2 * families.len() + 1), load(16)];
    for family in families {
        filter.extend([unless(*family, 1), answer(libc::SECCOMP_RET_ALLOW)]);
    }
    filter.push(answer(libc::SECCOMP_RET_ERRNO | libc::EAFNOSUPPORT as u32));
    filter.push(answer(libc::SECCOMP_RET_ALLOW));
    filter
}

fn apply(filter: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    // SAFETY: the kernel copies the filter, which outlives the call; root needs no PR_SET_NO_NEW_PRIVS for it.
    let result =
        unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER as libc::c_ulong, &raw const program) };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

//! A real server in a plain chroot: no mount namespace of its own, and no mount at its root directory. Needs root; says so
//! and passes otherwise.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use pgcalm_host::instance::{Instance, Role};
use pgcalm_host::{HostRoot, instance, mounts, postgres, process};
use pgcalm_testkit::need;
use rustix::mount::{MountFlags, UnmountFlags};

fn host() -> HostRoot {
    HostRoot::default()
}

/// A directory with what PostgreSQL needs of a system, mounted from this one.
struct Chroot {
    path: PathBuf,
    mounted: Vec<PathBuf>,
}

impl Chroot {
    fn new() -> Self {
        let path = PathBuf::from(format!("/var/tmp/pgcalm-chroot-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        let mut chroot = Self { path, mounted: Vec::new() };
        for name in ["bin", "dev", "etc", "lib", "lib64", "usr"] {
            let (original, inside) = (Path::new("/").join(name), chroot.path.join(name));
            match fs::read_link(&original) {
                Ok(target) => symlink(target, inside).unwrap(),
                Err(_) if original.is_dir() => {
                    fs::create_dir(&inside).unwrap();
                    rustix::mount::mount(&original, &inside, "", MountFlags::BIND, None).unwrap();
                    chroot.mounted.push(inside);
                }
                Err(_) => {}
            }
        }
        chroot
    }
}

impl Drop for Chroot {
    fn drop(&mut self) {
        for directory in self.mounted.drain(..).rev() {
            // Nothing is removed below: while it is mounted, that would be the host's.
            if rustix::mount::unmount(&directory, UnmountFlags::DETACH).is_err() {
                return;
            }
        }
        let _ = fs::remove_dir_all(&self.path);
    }
}

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.0);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::QUIT);
        let _ = self.0.wait();
    }
}

fn id(option: &str) -> u32 {
    let output = Command::new("id").args([option, "postgres"]).output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    text.trim().parse().unwrap()
}

fn found(pid: i32) -> Option<Instance> {
    let table = process::table(&host()).unwrap();
    let found = instance::find(&host(), &table).unwrap();
    found.instances.into_iter().find(|instance| instance.postmaster.pid == pid)
}

#[test]
fn a_server_in_a_chroot_is_found_with_all_its_places() {
    if !need::met("a server in a chroot", &[need::ROOT, need::ANY_SERVER]) {
        return;
    }
    let bindir = postgres::bindirs(&host()).remove(0);
    let chroot = Chroot::new();
    let (uid, gid) = (id("-u"), id("-g"));
    for directory in ["srv", "tmp", "srv/wal", "srv/log"] {
        let directory = chroot.path.join(directory);
        fs::create_dir(&directory).unwrap();
        std::os::unix::fs::chown(&directory, Some(uid), Some(gid)).unwrap();
    }
    let inside = |program: &str| {
        let mut command = Command::new("chroot");
        command
            .arg(format!("--userspec={uid}:{gid}"))
            .arg(&chroot.path)
            .arg(bindir.join(program))
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        command
    };
    let initdb = inside("initdb")
        .args(["--no-sync", "--auth=trust", "--username=postgres"])
        .args(["--waldir=/srv/wal/pg", "-D", "/srv/pg"])
        .output()
        .unwrap();
    assert!(initdb.status.success(), "{initdb:?}");
    let log = chroot.path.join("srv/log/pg.log");
    let mut postgres = inside("postgres");
    postgres.args(["-D", "/srv/pg", "-k", "/tmp", "-c", "listen_addresses="]).stderr(fs::File::create(&log).unwrap());
    // chroot(1) becomes the server.
    let server = Server(postgres.spawn().unwrap());
    let end = Instant::now() + Duration::from_secs(60);
    let instance = loop {
        if let Some(instance) = found(server.0.id() as i32) {
            break instance;
        }
        let log = fs::read_to_string(&log).unwrap();
        assert!(Instant::now() < end, "not found: {log}");
        thread::sleep(Duration::from_millis(50));
    };
    assert_eq!(instance.data_directory, Path::new("/srv/pg"));
    assert!(instance.version.is_some());
    let places: Vec<(Role, &Path)> = instance.places.iter().map(|place| (place.role, place.path.as_path())).collect();
    assert_eq!(
        places,
        [
            (Role::Data, Path::new("/srv/pg")),
            (Role::Wal, Path::new("/srv/wal/pg")),
            (Role::Log, Path::new("/srv/log/pg.log")),
        ]
    );
    // The mount of this very directory, which the server's own list does not have.
    let all = mounts::read(&host()).unwrap();
    let expected = mounts::containing(&all, &chroot.path).unwrap();
    assert_eq!(instance.places[0].mount, *expected);
}

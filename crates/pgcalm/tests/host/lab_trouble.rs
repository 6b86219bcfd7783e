//! Trouble in runs of the lab, on tiny tables, for real: whether what is asked for happens to servers and devices. Needs root,
//! some of it a built module; says so and passes otherwise.

use crate::lab_run;

use std::path::Path;
use std::time::Duration;
use std::{fs, thread};

use pgcalm_host::block_device;
use pgcalm_host::cgroup::Hierarchy;
use pgcalm_host::throttle::Kind;
use pgcalm_lab::contest::report::{Run, TroubleRun};
use pgcalm_testkit::{module_directory, need};

use lab_run::{Dir, Running, can_run, host, lab, leftovers, words};

/// Above what this load needs; half of it is still.
const CAP: u64 = 20_000;

fn run(dir: &Path, more: &[&str]) -> Running {
    let fixed = format!(
        "run checkpoint --rows 200000 --wal-size 1GB --clients 2 --drain none --data-iops {CAP} \
     --data-bps none --wal-iops none --json {}",
        dir.join("report.json").display()
    );
    let mut arguments = words(&fixed);
    arguments.extend(more);
    Running::start(lab(&arguments, dir))
}

fn runs(dir: &Path) -> Vec<Run> {
    let text = fs::read_to_string(dir.join("report.json")).unwrap();
    let report = pgcalm_lab::document::from_json(&text).unwrap();
    let contestants = report.contestants.into_iter();
    contestants.flat_map(|contestant| contestant.runs).collect()
}

fn of<'a>(run: &'a Run, name: &str) -> &'a TroubleRun {
    let mut all = run.troubles.iter();
    all.find(|trouble| trouble.name == name).unwrap_or_else(|| panic!("no {name}: {:?}", run.troubles))
}

/// The first number in what a trouble says that it did.
fn amount(trouble: &TroubleRun) -> u64 {
    let done = trouble.done.as_deref().unwrap_or_default();
    done.split_whitespace().find_map(|word| word.parse().ok()).unwrap_or_else(|| panic!("{trouble:?}"))
}

/// The write cap of the data device of a lab in `dir`, where the root group of cgroup v1 has it.
fn cap(dir: &Path) -> Option<u64> {
    let root = host();
    let hierarchy = Hierarchy::of_block_io(&root).unwrap()?;
    let file = hierarchy.mountpoint.join(Kind::WriteIops.v1_file());
    let image = dir.join("pgcalm-data.img");
    let device = block_device::loop_devices(&root).unwrap().into_iter().find(|device| device.backing_file == image)?;
    let number = block_device::number(&root, &device.name).unwrap();
    let text = root.read(file).ok()?;
    text.lines().find_map(|line| line.strip_prefix(&format!("{number} "))?.parse().ok())
}

#[test]
fn what_is_asked_for_happens_and_the_run_goes_on() {
    if !can_run() || !need::met("caps that halve", &[need::ROOT_GROUP_CAPS]) {
        return;
    }
    let dir = Dir::with_tables("trouble");
    let mut running = run(
        &dir.0,
        &words(
            "--seconds 12 --contestants stock --trouble base-backup-fast@1 --trouble caps-halve@2 \
         --trouble neighbour-syncs@1 --trouble cpu-quota@3 --trouble restart-in-mid-load@5",
        ),
    );
    running.wait_for("measuring");
    let mut caps = Vec::new();
    while running.child.try_wait().unwrap().is_none() {
        caps.extend(cap(&dir.0));
        thread::sleep(Duration::from_millis(50));
    }
    let (status, last) = running.end();
    assert_eq!(status.code(), Some(0), "{last}");
    assert_eq!(leftovers(&dir.0), Vec::<String>::new());

    let run = runs(&dir.0).remove(0);
    assert!(run.troubles.iter().all(|one| one.failure.is_none()), "{:?}", run.troubles);
    // All of a table of 25 MB.
    let backup = of(&run, "base-backup-fast");
    assert!(amount(backup) > 20, "{backup:?}");
    assert!(backup.until_s > backup.from_s, "{backup:?}");
    let fast = run.checkpoints.iter();
    assert!(fast.map(|one| &one.reason).any(|r| r.contains("immediate") || r.contains("fast")));
    // Whole, half, and whole again before it is lifted.
    caps.dedup();
    assert!(caps.starts_with(&[CAP, CAP / 2]), "{caps:?}");
    assert!(caps[2..].iter().all(|cap| *cap == CAP), "{caps:?}");
    assert_eq!(of(&run, "caps-halve").until_s, None);
    assert!(amount(of(&run, "neighbour-syncs")) > 0);
    assert_eq!(of(&run, "cpu-quota").until_s, None);
    // A server that has begun anew, and clients that have come back to it.
    let restart = of(&run, "restart-in-mid-load");
    let done = restart.done.as_deref().unwrap();
    assert!(done.contains("came after it"), "{done}");
    let back = restart.until_s.unwrap().ceil() as usize;
    // On a busy machine it may be back only when the run is over.
    let after: f64 = run.series.tps.iter().skip(back).sum();
    assert!(after > 0.0 || back >= run.series.tps.len(), "{back}: {:?}", run.series.tps);
    assert!(run.checkpoints.iter().any(|one| one.reason.contains("shutdown")), "{:?}", run.checkpoints);
}

#[test]
fn the_modules_process_is_stopped_and_stock_runs_undisturbed() {
    if !can_run() || !need::met("trouble of the module", &[need::MODULE]) {
        return;
    }
    let dir = Dir::with_tables("trouble-module");
    let running = run(
        &dir.0,
        &words(&format!(
            "--seconds 8 --contestants stock,pg_calm --module-dir {} --trouble worker-stopped@1 \
         --trouble caps-told-half --trouble idle-then-burst@2",
            module_directory().display()
        )),
    );
    let (status, last) = running.end();
    assert_eq!(status.code(), Some(0), "{last}");
    let [stock, module] = &runs(&dir.0)[..] else { panic!("two runs") };
    for name in ["worker-stopped", "caps-told-half"] {
        let undisturbed = of(stock, name).undisturbed.as_deref();
        assert_eq!(undisturbed, Some("it has no module"), "{name}");
    }
    let stopped = of(module, "worker-stopped");
    assert_eq!(stopped.failure, None);
    let done = stopped.done.as_deref().unwrap_or_default();
    assert!(done.ends_with("in state T"), "{stopped:?}");
    assert!(stopped.until_s > stopped.from_s, "{stopped:?}");
    // What the module itself says that it works with.
    assert_eq!(module.module_status["write_iops"], CAP / 2);
    for run in [stock, module] {
        let idle = of(run, "idle-then-burst");
        let (from, until) = (idle.from_s.unwrap(), idle.until_s.unwrap());
        assert!(until > from, "{idle:?}");
        // Of the three seconds of rest one at least is whole.
        let rest = &run.series.tps[from.ceil() as usize + 1..until.floor() as usize];
        assert!(rest.contains(&0.0), "{idle:?} {:?}", run.series.tps);
        let after: f64 = run.series.tps[until.ceil() as usize..].iter().sum();
        assert!(after > 0.0, "{idle:?} {:?}", run.series.tps);
    }
    assert_eq!(leftovers(&dir.0), Vec::<String>::new());
}

#[test]
fn what_can_not_have_trouble_says_so_in_one_line() {
    let dir = Dir::new("trouble-refused");
    for (scenario, more, part) in [
        ("tenants", &["--trouble", "pg-dump"][..], "only lab run checkpoint has it"),
        ("guard", &["--trouble", "pg-dump"], "only lab run checkpoint has it"),
        ("torture", &["--trouble", "pg-dump"], "only lab run checkpoint has it"),
        ("checkpoint", &["--trouble", "memory-halves"], "give --memory"),
        ("checkpoint", &["--trouble", "pgdump"], "no trouble"),
    ] {
        let mut arguments = vec!["run", scenario];
        arguments.extend(more);
        let output = lab(&arguments, &dir.0).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{scenario}: {output:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains(part), "{scenario}: {text}");
    }
}

//! What the packages say of themselves: one version everywhere, PGXN's required keys, a man page for each verb.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use pgcalm_record::store::{Limits, Writer};
use pgcalm_testkit::need;
use serde_json::Value;

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(path: &str) -> String {
    let path = project().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn meta() -> Value {
    serde_json::from_str(&text("extension/pg_calm/META.json")).unwrap()
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

#[test]
fn the_version_is_the_same_everywhere() {
    let meta = meta();
    assert_eq!(meta["version"], VERSION);
    let debian = text("debian/changelog");
    assert_eq!(debian.split_once(')').unwrap().0, format!("pgcalm ({VERSION}"), "debian/changelog");
    let changelog = text("CHANGELOG.md");
    let newest = changelog.lines().find_map(|line| line.strip_prefix("## "));
    assert!(
        newest.is_some_and(|heading| heading.split(' ').next() == Some(VERSION)),
        "CHANGELOG.md: {newest:?} is not about {VERSION}"
    );
    // The SQL objects' version has no patch level: an update of the library alone needs no ALTER EXTENSION.
    let (sql_version, _patch) = VERSION.rsplit_once('.').unwrap();
    for (extension, provided) in meta["provides"].as_object().unwrap() {
        assert_eq!(provided["version"], VERSION);
        let control = text(&format!("extension/pg_calm/{extension}.control"));
        assert!(control.contains(&format!("default_version = '{sql_version}'")), "{extension}.control: {control}");
        let script = format!("{extension}--{sql_version}.sql");
        assert_eq!(provided["file"], script.as_str());
        text(&format!("extension/pg_calm/{script}"));
    }
}

/// "Required fields" of the PGXN Meta Spec 1.0.0, and the types that it gives them.
#[test]
fn meta_json_has_what_pgxn_requires() {
    let meta = meta();
    for key in ["name", "abstract", "maintainer", "license"] {
        let value = meta[key].as_str().unwrap_or_default();
        assert!(!value.is_empty(), "{key}");
    }
    let name = meta["name"].as_str().unwrap();
    assert!(name.len() >= 2 && !name.contains(|c: char| c.is_control() || "/\\:. ".contains(c)), "a Term: {name}");
    assert_eq!(meta["license"], "postgresql");
    assert_eq!(meta["meta-spec"]["version"], "1.0.0");
    assert!(meta["meta-spec"]["url"].is_string());
    let provides = meta["provides"].as_object().unwrap();
    assert!(!provides.is_empty());
    for (extension, value) in provides {
        assert!(value["file"].is_string(), "{extension}: file");
        for version in [&value["version"], &meta["version"]] {
            let parts: Vec<&str> = version.as_str().unwrap().split('.').collect();
            assert_eq!(parts.len(), 3, "{extension}: {version} is no semantic version");
            assert!(parts.iter().all(|part| part.parse::<u32>().is_ok()));
        }
    }
}

/// A recipe of the Makefile, with its head.
fn recipe(makefile: &str, target: &str) -> String {
    let head = format!("{target}:");
    let mut lines = makefile.lines().skip_while(|line| !line.starts_with(&head));
    let head = lines.next().unwrap_or_else(|| panic!("the Makefile has no {target}"));
    let rest = lines.take_while(|line| line.starts_with('\t'));
    std::iter::once(head).chain(rest).collect::<Vec<_>>().join("\n")
}

/// What .ci/run says it leaves out for each change has to be run by somebody.
#[test]
fn the_weekly_run_has_the_long_tests() {
    let weekly = text(".github/workflows/weekly.yml");
    let (_, list) = weekly.split_once("        target:\n").unwrap();
    let targets: Vec<&str> = list.lines().map_while(|line| line.strip_prefix("          - ")).collect();
    let makefile = text("Makefile");
    let recipes: String = targets.iter().map(|target| recipe(&makefile, target)).collect();
    for long in ["test-long", "test-integrations", "test-kubernetes", "test-versions", "test-images"] {
        assert!(recipes.contains(long), "{targets:?} have no {long}");
    }
    assert!(weekly.contains("make ${{ matrix.target }}"), "{weekly}");
}

/// What a release fills in: the variable, what stands for it, and files that have it.
const FILLED_IN: [(&str, &str, &[&str]); 4] = [
    ("RELEASE_URL", "RELEASE_URL", &["docs/start/install.md"]),
    ("TRACKER_URL", "TRACKER_URL", &["SUPPORT.md"]),
    ("SECURITY_CONTACT", "SECURITY_CONTACT", &["SECURITY.md"]),
    (
        "MAINTAINER_ADDRESS",
        "maintainers@pgcalm.example",
        &[
            "MAINTAINERS.md",
            "bench/lib/pgcalm.spec",
            "debian/changelog",
            "debian/control.in",
            "extension/pg_calm/META.json",
        ],
    ),
];

/// A value as hostile to sed and to the shell as an address may be.
fn value(variable: &str) -> String {
    format!("https://a|b&c.example/$1/{}", variable.to_lowercase())
}

/// A staged tree whose bench/lib/release.env has values but for one variable, and how bench/lib/fill-release ended.
fn filled(but: Option<&str>, key: &str) -> (tempfile::TempDir, std::process::Output) {
    let dir = tempfile::tempdir().unwrap();
    let env = text("bench/lib/release.env");
    let mut values = env.clone();
    for (variable, _, files) in FILLED_IN {
        assert_eq!(env.lines().filter(|line| line.starts_with(&format!("{variable}="))).count(), 1, "{variable}");
        let value = if but == Some(variable) { String::new() } else { value(variable) };
        values.push_str(&format!("{variable}='{value}'\n"));
        for file in files {
            fs::create_dir_all(dir.path().join(file).parent().unwrap()).unwrap();
            fs::write(dir.path().join(file), text(file)).unwrap();
        }
    }
    fs::create_dir_all(dir.path().join("bench/lib")).unwrap();
    fs::write(dir.path().join("bench/lib/release.env"), values).unwrap();
    let script = project().join("bench/lib/fill-release");
    let output = Command::new("bash").arg(script).arg(dir.path()).env("RELEASE_KEY", key).output().unwrap();
    (dir, output)
}

#[test]
fn what_a_release_says_of_itself_is_filled_in() {
    let (dir, output) = filled(None, "a-key");
    assert!(output.status.success(), "{output:?}");
    for (variable, stands, files) in FILLED_IN {
        for file in files {
            let before = text(file);
            assert!(before.contains(stands), "{file} has no {stands}");
            let after = fs::read_to_string(dir.path().join(file)).unwrap();
            assert!(after.contains(&value(variable)) && !after.contains(stands), "{file}: {after}");
        }
    }
}

#[test]
fn a_release_with_a_key_names_the_empty_variable() {
    for (variable, stands, files) in FILLED_IN {
        let (_dir, output) = filled(Some(variable), "a-key");
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(variable), "{said}");
        let (dir, output) = filled(Some(variable), "");
        assert!(output.status.success(), "{output:?}");
        let after = fs::read_to_string(dir.path().join(files[0])).unwrap();
        assert!(after.contains(stands), "{}: {after}", files[0]);
    }
}

/// Verbs below `verb`, from its --help, as man pages name them.
fn verbs(verb: &[&str], found: &mut BTreeSet<String>) {
    let mut arguments = verb.to_vec();
    arguments.push("--help");
    let output = Command::new(env!("CARGO_BIN_EXE_pgcalm")).args(&arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}");
    let mut name = vec!["pgcalm"];
    name.extend(verb);
    found.insert(name.join("-"));
    let help = String::from_utf8(output.stdout).unwrap();
    let Some((_, list)) = help.split_once("\nCommands:\n") else { return };
    let list = list.split_once("\n\n").map_or(list, |(list, _)| list);
    for line in list.lines() {
        let Some(name) = line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')) else { continue };
        let name = name.split_whitespace().next().unwrap();
        if name != "help" {
            let mut verb = verb.to_vec();
            verb.push(name);
            verbs(&verb, found);
        }
    }
}

#[test]
fn every_verb_has_a_man_page_and_completions() {
    let dir = tempfile::tempdir().unwrap();
    let man = dir.path().join("man");
    let completions = dir.path().join("completions");
    let output = Command::new(env!("CARGO_BIN_EXE_pgcalm"))
        .arg("generate")
        .arg("--man")
        .arg(&man)
        .arg("--completions")
        .arg(&completions)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let mut expected = BTreeSet::new();
    verbs(&[], &mut expected);
    assert!(expected.len() > 10, "{expected:?}");
    let pages: BTreeSet<String> = fs::read_dir(&man)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .map(|file| file.strip_suffix(".1").unwrap().to_string())
        .collect();
    assert_eq!(pages, expected);
    for page in &pages {
        let text = fs::read_to_string(man.join(format!("{page}.1"))).unwrap();
        assert!(text.contains("\n.SH EXAMPLES\n\\fB"), "{page}");
        assert!(text.contains("\n.SH \"EXIT STATUS\"\n.TP\n\\fB0\\fR\n"), "{page}");
        assert!(!text.contains("EXTRA") && text.matches(".ie ").count() == 1, "{page}");
    }
    let text = |page: &str| fs::read_to_string(man.join(page)).unwrap();
    assert!(text("pgcalm.1").contains("Without a command it says"));
    assert!(text("pgcalm-top.1").contains("\n.SH KEYS\n"));
    assert!(text("pgcalm-wal-restore.1").contains("\n.SH \"IN POSTGRESQL.CONF\"\n.PP\n"));
    for file in ["pgcalm.bash", "_pgcalm", "pgcalm.fish"] {
        let text = fs::read_to_string(completions.join(file)).unwrap();
        for page in &expected {
            let verb = page.rsplit('-').next().unwrap();
            assert!(text.contains(verb), "{file} lacks {verb}");
        }
        assert!(text.contains("--instance") || text.contains("-l instance"), "{file}");
    }
}

/// The demo's script beside programs that only say how they were called.
#[test]
fn the_demo_installs_nothing_and_cleans_up_whatever_comes_of_it() {
    if !need::met("the demo", &[need::ROOT]) {
        return;
    }
    for (failure, caller) in [("", ""), ("build", ""), ("run", ""), ("", "nobody")] {
        let dir = tempfile::tempdir().unwrap();
        // The caller builds there.
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let script = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        };
        let demo = text("bench/demo").replace("/var/lib/pgcalm-demo", &dir.path().join("lab").display().to_string());
        script("bench/demo", &demo);
        script("bench/install-deps", "#!/bin/sh\n");
        let said = |what: &str| format!("#!/bin/sh\necho {what} \"$@\" >>calls\nmkdir -p lab\n");
        script("bin/make", &format!("{}[ '{failure}' != build ]\n", said("$(id -un) makes")));
        script("bin/pg_config", "#!/bin/sh\necho /server$1\n");
        script("target/release/pgcalm", &format!("{}[ \"$2\" != run ] || [ '{failure}' != run ]\n", said("pgcalm")));
        let path = format!("{}:{}", dir.path().join("bin").display(), std::env::var("PATH").unwrap());
        let mut demo = Command::new(dir.path().join("bench/demo"));
        demo.env("PATH", path).env("PG_CONFIG", "pg_config").env("SUDO_USER", caller);
        let output = demo.output().unwrap();
        assert_eq!(output.status.success(), failure.is_empty(), "{output:?}");
        let calls = fs::read_to_string(dir.path().join("calls")).unwrap();
        assert!(!calls.contains("install"), "{calls}");
        let builder = if caller.is_empty() { "root" } else { caller };
        assert!(calls.starts_with(&format!("{builder} makes --silent build PG_CONFIG=pg_config\n")), "{calls}");
        let runs: Vec<&str> = calls.lines().filter(|line| line.contains("lab run")).collect();
        assert_eq!(runs.len(), usize::from(failure != "build"), "{calls}");
        let options = "--pg-bindir /server--bindir --module-dir extension/pg_calm";
        assert!(runs.iter().all(|run| run.contains(options)), "{calls}");
        let last = calls.lines().last().unwrap();
        assert!(last.starts_with("pgcalm lab clean --dir ") && last.ends_with("--templates"), "{calls}");
    }
}

/// With and without what others have in the directories, which may be mounted there.
#[test]
fn a_purge_takes_what_the_units_have_written_and_nothing_else() {
    let others = [
        "doctor/undo",
        "record/000000010000000000000001",
        "record/data/record.sqlite",
        "record/record.sqlite-copy",
        "warm/000000010000000000000001",
        "warm/notes",
    ];
    for others in [&others[..], &[]] {
        let dir = tempfile::tempdir().unwrap();
        let kept = dir.path().join("pgcalm");
        let limits = Limits { keep: Duration::from_secs(60), bytes: Limits::LEAST_BYTES };
        // As long as it has the record, all of its files are there.
        let _writer = Writer::open(&kept.join("record"), limits).unwrap();
        for name in ["", ".rest", ".pgcalm-unfinished.17"].map(|end| format!("warm/7456123456789012345{end}")) {
            fs::create_dir_all(kept.join("warm")).unwrap();
            fs::write(kept.join(name), "").unwrap();
        }
        for name in others {
            let path = kept.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let script = text("debian/pgcalm.postrm").replace("/var/lib/pgcalm", kept.to_str().unwrap());
        for (action, has_record) in [("remove", true), ("purge", false)] {
            let output = Command::new("sh").args(["-c", &script, "postrm", action]).output().unwrap();
            assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
            assert_eq!(kept.join("record/record.sqlite").exists(), has_record, "{action}");
        }
        let left = Command::new("find").arg(dir.path()).args(["-type", "f", "-printf", "%P\n"]).output().unwrap();
        let left = String::from_utf8(left.stdout).unwrap();
        let left: BTreeSet<&str> = left.lines().map(|path| path.strip_prefix("pgcalm/").unwrap()).collect();
        assert_eq!(left, others.iter().copied().collect::<BTreeSet<_>>());
        assert_eq!(kept.exists(), !others.is_empty());
    }
}

/// The rpm's script beside a systemctl of this test; the Debian package's is tried by make test-packages.
#[test]
fn a_removal_of_the_rpm_names_the_servers_that_call_it() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    write("bin/systemctl", "#!/bin/sh\necho \"$@\"\n");
    write("data/postgresql.auto.conf", "restore_command = 'pgcalm wal-restore --archive /a %f %p'\n");
    write("15/data/postgresql.conf", "  archive_command = '/usr/bin/pgcalm archive %p'\n");
    write("16/data/postgresql.conf", "#restore_command = 'pgcalm wal-restore --archive /a %f %p'\n");
    let spec = text("bench/lib/pgcalm.spec");
    let (_, script) = spec.split_once("\n%preun\n").unwrap();
    let (script, _) = script.split_once("\n%postun\n").unwrap();
    let script = script.replace("/var/lib/pgsql", dir.path().to_str().unwrap());
    let path = format!("{}:{}", dir.path().join("bin").display(), std::env::var("PATH").unwrap());
    for (left, stops, named) in
        [("0", true, vec!["data/postgresql.auto.conf", "15/data/postgresql.conf"]), ("1", false, vec![])]
    {
        let output = Command::new("sh").args(["-c", &script, "preun", left]).env("PATH", &path).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(String::from_utf8(output.stdout).unwrap().contains("disable --now"), stops, "{left} left");
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(said.lines().count(), named.len(), "{said}");
        for (line, name) in said.lines().zip(named) {
            assert!(line.contains(&format!("/{name} still calls it")), "{said}");
        }
    }
}

#[test]
fn the_exporters_role_is_its_user() {
    let unit = text("debian/pgcalm.pgcalm-exporter.service");
    let value = |name: &str| unit.lines().find_map(|line| line.strip_prefix(name));
    assert!(value("User=").is_some());
    assert_eq!(value("Environment=PGUSER="), value("User="));
}

#[test]
fn a_directory_that_cant_be_made_is_one_line() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pgcalm"));
    let stderr = pgcalm_testkit::programs::refused(command.args(["generate", "--man", "/proc/no/such"]), 1);
    assert!(stderr.contains("/proc/no/such"), "{stderr}");
}

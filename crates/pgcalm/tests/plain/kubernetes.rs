//! docs/kubernetes: that its parts fit each other, the program and the docs. What Kubernetes thinks of them says
//! bench/test-kubernetes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(path: &str) -> String {
    fs::read_to_string(project().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn manifest(name: &str) -> String {
    text(&format!("docs/kubernetes/{name}.yaml"))
}

#[test]
fn the_alert_rules_are_those_of_the_dashboards() {
    let rules = text("docs/dashboards/alerts.yml");
    let (_, rules) = rules.split_once("\ngroups:\n").unwrap();
    let mut made = "# Made from docs/dashboards/alerts.yml: UPDATE_DOCS=1 cargo test -p pgcalm --test plain kubernetes\n\
                    apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata:\n  name: pgcalm\nspec:\n  groups:\n"
        .to_string();
    for line in rules.lines() {
        let indent = if line.is_empty() { "" } else { "  " };
        let for_pods = line.split_once(" critical # for pods, which an operator moves:");
        let line = for_pods.map_or_else(|| line.to_string(), |(key, severity)| format!("{key}{severity}"));
        made.push_str(&format!("{indent}{line}\n"));
    }
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(project().join("docs/kubernetes/prometheusrule.yaml"), &made).unwrap();
    }
    assert!(manifest("prometheusrule") == made, "{}", made.lines().next().unwrap());
}

/// Without its extension a module that runs has no views, and the exporter no metrics of it.
#[test]
fn the_cluster_makes_the_extensions_that_it_loads() {
    let (cluster, page) = (manifest("cluster"), text("docs/operate/kubernetes.md"));
    let items = |key: &str| -> Vec<&str> {
        let (_, list) = cluster.split_once(&format!(" {key}:\n")).unwrap_or_else(|| panic!("{key}"));
        list.lines().map_while(|line| line.trim().strip_prefix("- ")).collect()
    };
    let (libraries, made) = (items("shared_preload_libraries"), items("postInitSQL"));
    assert!(!libraries.is_empty(), "{cluster}");
    for library in libraries {
        let query = format!("CREATE EXTENSION {library}");
        assert!(made.contains(&query.as_str()), "{query}: {made:?}");
        // A cluster that is there runs no postInitSQL any more.
        assert!(page.contains(&format!("kubectl cnpg psql db -- -c '{query}'")), "{query}");
    }
}

#[test]
fn the_pod_monitor_finds_the_exporter() {
    let (node, monitor) = (manifest("node"), manifest("podmonitor"));
    let (_, labels) = monitor.split_once("matchLabels:\n").unwrap();
    let label = labels.lines().next().unwrap().trim();
    let exporter = daemon_set(&node, "exporter");
    // Of the DaemonSet, of those that it looks for, and of its pods.
    assert_eq!(exporter.matches(label).count(), 3, "{label}");
    assert_eq!(node.matches(label).count(), 3, "{label}: another DaemonSet has it, too");
    assert!(monitor.contains("- port: metrics\n") && exporter.contains("- name: metrics\n"));
}

/// Of whatever pod: its address tells nobody which node an alert is about, and each upgrade changes it.
#[test]
fn the_pod_monitor_names_the_node() {
    let monitor = manifest("podmonitor");
    assert!(monitor.contains("- sourceLabels: [__meta_kubernetes_pod_node_name]\n          targetLabel: instance\n"));
    assert!(text("docs/dashboards/alerts.yml").contains("{{ $labels.instance }}"));
}

/// The one with a container of this name.
fn daemon_set<'a>(node: &'a str, container: &str) -> &'a str {
    let name = format!("- name: {container}\n");
    let mut found = node.split("\n---\n").filter(|document| document.contains(&name));
    let document = found.next().unwrap_or_else(|| panic!("{container}"));
    assert!(document.contains("kind: DaemonSet\n") && found.next().is_none(), "{container}");
    document
}

/// In mode shadow no node is labelled yet, and there are metrics.
#[test]
fn only_kernel_settings_wait_for_a_label_of_the_node() {
    let node = manifest("node");
    assert!(daemon_set(&node, "kernel").contains("nodeSelector:\n        pgcalm: database\n"));
    assert!(!daemon_set(&node, "exporter").contains("nodeSelector"));
}

/// CloudNativePG recommends a taint for nodes of databases, which keeps other pods away without a word.
#[test]
fn all_of_node_yaml_comes_onto_nodes_with_taints() {
    let node = manifest("node");
    for container in ["exporter", "kernel"] {
        let pods = daemon_set(&node, container);
        assert!(pods.contains("      tolerations:\n        - operator: Exists\n"), "{container}");
    }
}

/// Of an image for another operator.
#[test]
fn the_package_of_the_dockerfile_is_named_as_it_is_built() {
    let page = text("docs/operate/kubernetes.md");
    let (_, dockerfile) = page.split_once("```dockerfile\n").unwrap();
    let (dockerfile, _) = dockerfile.split_once("```").unwrap();
    let copied = dockerfile.lines().find_map(|line| line.strip_prefix("COPY ")?.strip_suffix(" /tmp/")).unwrap();
    let (before, after) = copied.split_once('*').unwrap_or_else(|| panic!("{copied}: of one version only"));
    let control = text("debian/control.in");
    let packages = control.lines().filter_map(|line| line.strip_prefix("Package: "));
    // What dpkg-buildpackage in bench/lib/build-packages makes of them
    let files = packages.map(|package| {
        let package = package.replace("PGVERSION", "17");
        format!("{package}_{}_amd64.deb", env!("CARGO_PKG_VERSION"))
    });
    let fits = |file: &String| file.starts_with(before) && file.ends_with(after);
    assert_eq!(files.filter(fits).count(), 1, "{copied}");
    assert!(dockerfile.contains("apt-get install -y /tmp/*.deb\n"), "{dockerfile}");
}

/// The arguments of pgcalm in a manifest, an item a line or all in one.
fn arguments(manifest: &str) -> Vec<String> {
    let item = |line: &str| line.trim().strip_prefix("- ").map(str::to_string);
    let lists = manifest.split("args:\n").skip(1).flat_map(|list| list.lines().map_while(item).collect::<Vec<_>>());
    let command =
        manifest.split("command: [/pgcalm/usr/bin/pgcalm, ").skip(1).filter_map(|rest| rest.split(']').next());
    lists.chain(command.flat_map(|list| list.split(", ").map(str::to_string).collect::<Vec<_>>())).collect()
}

#[test]
fn verbs_and_options_are_there() {
    for (name, expected) in [("node", 1), ("statefulset", 2)] {
        let arguments = arguments(&manifest(name));
        let mut help = String::new();
        let mut verbs = 0;
        for argument in &arguments {
            let Some(option) = argument.strip_prefix("--") else {
                if ["export", "ready-to-stop"].contains(&argument.as_str()) {
                    let output =
                        Command::new(env!("CARGO_BIN_EXE_pgcalm")).args([argument, "--help"]).output().unwrap();
                    assert!(output.status.success(), "{argument}");
                    help = String::from_utf8(output.stdout).unwrap();
                    verbs += 1;
                }
                continue;
            };
            let option = option.split('=').next().unwrap();
            assert!(help.contains(&format!("--{option} ")), "{name}: --{option} in {arguments:?}");
        }
        assert_eq!(verbs, expected, "{arguments:?}");
    }
}

/// A pod may have an address of IPv6 alone, at which its probes ask, too.
#[test]
fn the_exporter_listens_at_addresses_of_either_kind() {
    for name in ["node", "statefulset"] {
        let arguments = arguments(&manifest(name));
        assert!(arguments.iter().any(|argument| argument == "--listen=[::]:9187"), "{name}: {arguments:?}");
    }
}

#[test]
fn the_grace_period_is_longer_than_both_times_of_ready_to_stop() {
    let text = manifest("statefulset");
    let seconds = text.split("terminationGracePeriodSeconds: ").nth(1).and_then(|rest| rest.lines().next()).unwrap();
    assert!(text.contains("--within, 10s, --timeout, 10min"));
    assert!(seconds.parse::<u32>().unwrap() > 10 * 60 + 10, "{seconds}");
}

/// The official image makes no cluster without a password, and nobody makes the Secrets.
#[test]
fn passwords_are_given_and_their_secrets_named() {
    let text = manifest("statefulset");
    assert!(text.contains("- name: POSTGRES_PASSWORD\n"));
    let comments: String = text.lines().filter(|line| line.starts_with('#')).collect();
    let secrets: Vec<&str> = text
        .split("secretKeyRef:\n")
        .skip(1)
        .map(|secret| secret.lines().next().unwrap().trim().strip_prefix("name: ").unwrap())
        .collect();
    assert_eq!(secrets.len(), 2, "{secrets:?}");
    for secret in secrets {
        assert!(comments.contains(secret), "{secret}: {comments}");
    }
}

/// pg_isready takes a server that recovers for a dead one, however long that takes.
#[test]
fn probes_that_end_a_server_ask_the_exporter() {
    let text = manifest("statefulset");
    for probe in ["startupProbe", "livenessProbe"] {
        let (_, probe) = text.split_once(&format!("{probe}:\n")).unwrap();
        assert!(probe.trim_start().starts_with("httpGet:\n              path: /alive\n"), "{probe}");
    }
}

#[test]
fn the_node_s_settings_are_those_of_the_docs() {
    let sysctls = "vm.dirty_background_ratio=40 vm.dirty_ratio=60 vm.dirty_expire_centisecs=30000";
    assert!(text("docs/operate/kernel.md").contains(sysctls));
    assert!(manifest("node").contains(sysctls));
}

/// On a host of files: two volumes of pods, one of them mounted twice, and a disk that is none.
#[test]
fn volumes_of_pods_share_half_of_the_dirty_limits() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().display();
    let mounts = "36 1 8:16 / /var/lib/kubelet/pods/a/volumes/kubernetes.io~csi/data/mount rw - ext4 /dev/sdb rw\n\
                  37 1 8:16 / /var/lib/kubelet/pods/b/volumes/kubernetes.io~csi/data/mount rw - ext4 /dev/sdb rw\n\
                  38 1 8:32 / /var/lib/kubelet/pods/c/volumes/kubernetes.io~csi/wal/mount rw - ext4 /dev/sdc rw\n\
                  39 1 8:0 / / rw - ext4 /dev/sda rw\n";
    fs::create_dir_all(dir.path().join("proc/1")).unwrap();
    fs::write(dir.path().join("proc/1/mountinfo"), mounts).unwrap();
    for disk in ["8:0", "8:16", "8:32"] {
        fs::create_dir_all(dir.path().join("sys/class/bdi").join(disk)).unwrap();
    }
    let node = manifest("node");
    let (_, script) = node.split_once("            - |\n").unwrap();
    let script: Vec<&str> = script.lines().map_while(|line| line.strip_prefix("              ")).collect();
    let script = script.join("\n");
    assert!(script.starts_with("sysctl -w vm.") && script.ends_with("done"), "{script}");
    let script = script
        .replace("sysctl -w", ":")
        .replace("/proc/1", &format!("{root}/proc/1"))
        .replace("/sys/", &format!("{root}/sys/"))
        .replace("sleep 60", "exit");
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let ratio = |disk: &str| fs::read_to_string(dir.path().join("sys/class/bdi").join(disk).join("min_ratio")).ok();
    assert_eq!(ratio("8:16").as_deref(), Some("25\n"));
    assert_eq!(ratio("8:32").as_deref(), Some("25\n"));
    assert_eq!(ratio("8:0"), None);
}

//! Compiles each probe group's `mod.bpf.c` and generates the Rust types and handles for it.

use std::path::{Path, PathBuf};
use std::{env, fs};

use libbpf_cargo::SkeletonBuilder;
use libbpf_rs::libbpf_sys::API_HEADERS;

/// Folders of src/probes.
const GROUPS: [&str; 6] = ["server_processes", "checkpoint", "connect", "io", "locks", "why"];

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let arch = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets CARGO_CFG_TARGET_ARCH");
    let here = env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let headers = libbpf_headers(&out);
    for group in GROUPS {
        SkeletonBuilder::new()
            .source(format!("src/probes/{group}/mod.bpf.c"))
            .clang_args([
                "-Wall".to_string(),
                "-Wextra".to_string(),
                // BPF_PROG of libbpf declares a context that not every program uses
                "-Wno-unused-parameter".to_string(),
                // and its usdt.bpf.h compares signed with unsigned
                "-Wno-sign-compare".to_string(),
                "-Werror".to_string(),
                // atomic exchange, Linux 5.12
                "-mcpu=v3".to_string(),
                // asm/types.h lies in Debian's multiarch folder, which clang knows for its own target only
                format!("-idirafter/usr/include/{arch}-linux-gnu"),
                "-Isrc/bpf".to_string(),
                format!("-I{}", headers.display()),
                // BTF names the source files: the same program has to come from any folder
                format!("-ffile-prefix-map={here}=pgcalm-trace"),
                format!("-ffile-prefix-map={}=libbpf", headers.display()),
            ])
            .build_and_generate(out.join(format!("{group}.skel.rs")))
            .unwrap_or_else(|error| {
                panic!("compile src/probes/{group}/mod.bpf.c (needs clang and linux-libc-dev; make deps): {error:?}")
            });
        println!("cargo::rerun-if-changed=src/probes/{group}/mod.bpf.c");
    }
    println!("cargo::rerun-if-changed=src/bpf");
}

/// Writes libbpf's headers. libbpf-cargo has them, too, but in a folder whose name is another each time.
fn libbpf_headers(out: &Path) -> PathBuf {
    let headers = out.join("libbpf");
    fs::create_dir_all(headers.join("bpf")).expect("create a folder in OUT_DIR");
    for (name, text) in API_HEADERS {
        fs::write(headers.join("bpf").join(name), text).expect("write a header to OUT_DIR");
    }
    headers
}

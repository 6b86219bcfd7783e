# A CycloneDX document of what cargo metadata tells, for the crates in $crates ("name version" a line), and of Debian's
# static libraries in $libraries ("source version" a line).
def lines: split("\n") | map(select(. != ""));
def purl: "pkg:cargo/\(.name)@\(.version)";
def deb: split(" ") | {name: .[0], version: .[1]};

($crates | lines) as $linked
| [.packages[] | select("\(.name) \(.version)" | IN($linked[]))] as $packages
| ($packages | map({key: .id, value: purl}) | from_entries) as $purls
| ($packages[] | select(.name == "pgcalm")) as $program
| ($packages[] | select(.name == "libbpf-sys")) as $libbpf
| {
    bomFormat: "CycloneDX",
    specVersion: "1.5",
    version: 1,
    metadata: {
      timestamp: $time,
      component: {type: "application", "bom-ref": ($program | purl), name: "pgcalm", version: $version, licenses: [{license: {id: "PostgreSQL"}}]}
    },
    components: (
      [$packages[] | select(.name != "pgcalm") | {
        type: "library", "bom-ref": purl, name, version,
        licenses: (if .license then [{expression: (.license | gsub("/"; " OR "))}] else [] end)
      } + if .source then {purl: purl} else {} end]
      + [{
        type: "library", "bom-ref": "libbpf", name: "libbpf", version: ($libbpf.version | sub(".*\\+v"; "")),
        licenses: [{expression: "LGPL-2.1-only OR BSD-2-Clause"}]
      }]
      + [$libraries | lines[] | deb | {
        type: "library", "bom-ref": "pkg:deb/debian/\(.name)@\(.version)", name, version,
        purl: "pkg:deb/debian/\(.name)@\(.version | @uri)",
        description: "linked into the static program; the Debian package has it from the system"
      }]
      | sort_by(."bom-ref")
    ),
    dependencies: (
      [.resolve.nodes[] | select($purls[.id]) | {
        ref: $purls[.id],
        dependsOn: [.dependencies[] | $purls[.] | select(.)] | unique
      }] | sort_by(.ref)
    )
  }

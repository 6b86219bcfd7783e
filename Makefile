# pgcalm: `make demo` shows the stall and the cure, `make test` passes all tests.
# Every target installs what it needs (make deps); nothing else has to be there.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

PG_CONFIG ?= /usr/lib/postgresql/15/bin/pg_config
EXTENSION := extension/pg_calm
# Its C; test/includes.sh says who of it may include whom
MODULE_SOURCES := $(wildcard $(EXTENSION)/src/*.[ch] $(EXTENSION)/src/*/*.[ch])
BPF := crates/pgcalm-trace/src
BPF_SOURCES = $(BPF)/bpf/*.h $(BPF)/probes/*/*.bpf.c
PGCALM := target/release/pgcalm
# What suites run with: the server that PG_CONFIG belongs to, and the module that was built for it
SUITE_OPTIONS = --option pg-bindir="$$($(PG_CONFIG) --bindir)" --option module-dir=$(EXTENSION)

.PHONY: images test-images test-kubernetes test-integrations arena arena-quick stalls-of-record test-long all deps build install packages demo docs pictures test test-extension test-rust test-versions test-packages test-oldest-rust release test-release test-reproducible test-vm test-trace-verdicts check-postgres fmt fmt-check lint deny bench bench-archive bench-guard bench-guard-cost bench-record bench-trace bench-scale bench-volume bench-warm bench-stop-start bench-hundred bench-flush-after bench-lag bench-wal-full bench-checkpoint-start bench-one-checkpoint torture torture-errors torture-archive clean

all: build

# apt packages and the Rust components, only what is missing; as root
deps:
	@bench/install-deps

# The module first: it takes seconds, and says at once if the server's headers are missing
build:
	$(MAKE) --silent --directory $(EXTENSION) PG_CONFIG=$(PG_CONFIG)
	cargo build --release --package pgcalm

# Into the server that PG_CONFIG belongs to
install: build
	$(MAKE) --silent --directory $(EXTENSION) PG_CONFIG=$(PG_CONFIG) install

# Debian packages in target/packages (docs/start/install.md); VERSIONS="15" for these servers only
packages: deps build
	@bench/packages $(VERSIONS)

demo:
	@PG_CONFIG=$(PG_CONFIG) bench/demo

# The documentation as a site with search, in target/docs; seconds. Tables in docs/reference are made from the code:
# UPDATE_DOCS=1 cargo test --package pgcalm --test documentation
docs: deps
	@bench/docs

# What docs/ shows of top, traces and checkpoints, from a real run, into docs/pictures; and how reports and the site look in a
# browser, light and dark, on a desktop and a phone, into target/pictures/browser. As root, ten minutes, wants the machine for itself
pictures: deps docs build
	@bench/pictures

# The module alone is built here: cargo test builds its own pgcalm
test: deps
	$(MAKE) --silent --directory $(EXTENSION) PG_CONFIG=$(PG_CONFIG)
	@bench/test

# Tests of the lab and the recorder that make test leaves out because each takes a minute or more, then test-integrations; as root, about
# forty minutes
test-long: deps build
	$(MAKE) --silent --directory $(EXTENSION) PG_CONFIG=$(PG_CONFIG)
	cargo test --package pgcalm --test host -- replica:: lab:: wal_full:: --ignored --test-threads=1 --nocapture
	cargo test --package pgcalm-record --test plain -- verdicts:: --ignored --test-threads=1 --nocapture
	@PG_CONFIG=$(PG_CONFIG) bench/test-integrations

# With Patroni, repmgr, pgBackRest, PgBouncer, Prometheus and Alertmanager, or NAMES="patroni", for real (bench/integrations); as root, six
# minutes
NAMES ?=
test-integrations: deps build
	@PG_CONFIG=$(PG_CONFIG) bench/test-integrations $(NAMES)

# The manifests of docs/kubernetes against Kubernetes' schemas
test-kubernetes:
	@bench/test-kubernetes

# With PostgreSQL 15, 17 and 18, or VERSIONS="17", in chroots of Debian that are kept; as root
test-versions: deps build
	@bench/test-versions $(VERSIONS)

# With the oldest Rust that Cargo.toml says works; four minutes
test-oldest-rust: deps
	@bench/test-oldest-rust

# Those packages in a clean Debian 12, by the README's steps; as root, about two minutes
test-packages: deps build
	@bench/packages 15
	@bench/test-packages

# All that is installed without a compiler, of the last commit, in target/dist (docs/start/install.md): a repository for apt, a
# static tarball, an rpm, what they are made of, and sums. RELEASE_KEY=KEY signs with a key of gpg's. On Debian 12, as root, ten minutes
RELEASE_KEY ?=
release: deps
	@RELEASE_KEY='$(RELEASE_KEY)' bench/release

# OCI images of what make release has made, in target/images, without a daemon
images: deps
	@bench/images

# Such images of this tree, unpacked and run; as root
test-images: deps build
	@PG_CONFIG=$(PG_CONFIG) bench/test-images

# What make release has made, in clean Debians 12, 13 and the newest, signed, in an empty folder and in a server for arm64; as root, a quarter of an hour
# the first time, then two minutes
test-release: deps
	@bench/test-release

# make release once more, from nothing and in another folder: every file is to be the same, but for signatures. As root, ten minutes
test-reproducible: deps
	@bench/test-reproducible

# cgroup v2, device-mapper and a power cut in a virtual machine; about ten minutes
test-vm: deps build
	@PG_CONFIG=$(PG_CONFIG) bench/test-vm

# Causes of stalls made on purpose, which `trace why` must name (docs/guides/trace.md); as root, about four minutes
test-trace-verdicts: deps
	cargo test --package pgcalm-trace --test host -- why:: --include-ignored --test-threads=1 --nocapture

# PostgreSQL's own regression and isolation suites with the module at work; SUITES=tap for its TAP suites; as root
check-postgres: deps
	@PG_CONFIG=$(PG_CONFIG) bench/check-postgres

fmt:
	cargo fmt
	clang-format -i $(MODULE_SOURCES) $(EXTENSION)/test/*.c $(EXTENSION)/test/*.h bench/errors/*.c bench/noop_archive/*.c bench/shims/*.c $(BPF_SOURCES)

fmt-check:
	cargo fmt --check
	clang-format --dry-run --Werror $(MODULE_SOURCES) $(EXTENSION)/test/*.c $(EXTENSION)/test/*.h bench/errors/*.c bench/noop_archive/*.c bench/shims/*.c $(BPF_SOURCES)

lint: fmt-check
	sh $(EXTENSION)/test/includes.sh
	cargo clippy --quiet --workspace --all-targets -- --deny warnings
	RUSTDOCFLAGS='--deny warnings' cargo doc --quiet --workspace --no-deps --document-private-items
	cppcheck --quiet --enable=warning,performance,portability --inline-suppr \
	  --suppress=missingIncludeSystem --error-exitcode=1 \
	  -DPG_VERSION_NUM=150000 -D__linux__ -D__LP64__ -D__x86_64__ -I$(EXTENSION)/src $(filter %.c,$(MODULE_SOURCES)) bench/errors/*.c bench/noop_archive/*.c bench/shims/*.c
	cppcheck --quiet --enable=warning,performance,portability --inline-suppr \
	  --suppress=missingIncludeSystem --error-exitcode=1 -I$(BPF)/bpf \
	  -D__x86_64__ '-DSEC(section)=' '-DBPF_PROG(name,...)=name(__VA_ARGS__)' -D__always_inline=inline -D__noinline= \
	  '-D__uint(name,value)=int name' '-D__type(name,value)=int name' $(BPF)/probes/*/*.bpf.c

# Licences and sources of the libraries, and known vulnerabilities (deny.toml); cargo-deny has to be installed, and reads a database from the network
deny:
	cargo deny check

# Real writeback errors under load (docs/internals/data-safety.md); as root
N ?= 200
torture-errors:
	@bench/install-deps
	@bench/torture-errors --injections $(N)

# Power cuts at every step of archiving (docs/guides/archiving.md), and controls; as root
torture-archive: deps build
	@$(PGCALM) lab run archive-crash --fs both --cycles 80 --control directory,cp \
	  --pg-bindir "$$($(PG_CONFIG) --bindir)" --module-dir $(EXTENSION)

# The figures of target/benchmarks.md (bench/suites/cgroup.toml); about four hours, wants the machine for itself, goes on where it was
bench: build
	@bench/run

PART ?=
# Stalls of public reports, each made small, and what the recorder says of them, into target/stalls-of-record.md; as root,
# 45 minutes, wants the machine for itself
stalls-of-record: deps build
	@OPTIONS="$(SUITE_OPTIONS)" bench/stalls-of-record

# Seven cells in which a claim can fail, in an hour, and docs/arena-quick.md and its picture: for every day; as root, wants the machine for itself
arena-quick: build
	@$(PGCALM) lab run suite bench/suites/arena-quick.toml $(SUITE_OPTIONS) --results bench/results/arena-quick \
	  --markdown docs/arena-quick.md --html target/arena-quick.html --json target/arena-quick.json
	@$(PGCALM) lab report target/arena-quick.json --svg docs/arena-quick.svg

# All of the arena (bench/suites/arena.toml): parts of 25 minutes at most, six hours in all; PART=NAME for one of them
# (its names: target/release/pgcalm lab run suite bench/suites/arena.toml --plan); as root, wants the machine for itself
arena: build
	@$(PGCALM) lab run suite bench/suites/arena.toml $(if $(PART),--part $(PART)) $(SUITE_OPTIONS) --results bench/results/arena \
	  --markdown target/arena.md --html target/arena.html --json target/arena.json

# What tracing costs the server, docs/guides/trace.md; as root, ten minutes, wants the machine for itself
bench-trace: deps build
	@PG_CONFIG=$(PG_CONFIG) bench/trace

# Archivers side by side, target/benchmarks-archive.md; about 25 minutes, as root
bench-archive: build
	@PG_CONFIG=$(PG_CONFIG) bench/archive

# Overload with and without the guard; as root, about an hour, wants the machine for itself
bench-guard: deps build
	@$(PGCALM) lab run guard --cases paced,governed,unbridged,stock,idle --pg-bindir "$$($(PG_CONFIG) --bindir)" --module-dir $(EXTENSION)
	@$(PGCALM) lab run guard --quick --pg-bindir "$$($(PG_CONFIG) --bindir)" --module-dir $(EXTENSION)

# What the guard costs in shadow where nothing is behind, in instructions; as root, with valgrind, five minutes
bench-guard-cost: deps build
	@PG_CONFIG=$(PG_CONFIG) MODULE_DIR=$(EXTENSION) bench/guard-cost

# What the module costs where it can't help, two minutes for 10,000 tables, SCALE="-n 50000 -r 2" for more and in turns (12
# minutes), SCALE="files", "marks" or "uncapped" for other parts (bench/scale tells of them); wants the machine for itself
SCALE ?=
bench-scale: deps
	@PG_CONFIG=$(PG_CONFIG) bench/scale $(SCALE)

# Does lab volume do what its profiles say; as root, five minutes, wants the machine for itself
bench-volume: deps build
	@bench/volume

# What the recorder costs the server and itself; as root, twelve minutes, wants the machine for itself
bench-record: deps build
	@PG_CONFIG=$(PG_CONFIG) bench/record

# How long a cold cache lasts after a restart, with pgcalm warm, with autoprewarm and with nothing; as root, up to an hour, wants the machine for itself
bench-warm: deps build
	@PG_CONFIG=$(PG_CONFIG) bench/warm

# Estimates of stops and recovery held against what they took (bench/suites/stop-start.toml), target/stop-start.md; as root, half an hour, wants
# the machine for itself, goes on where it was
bench-stop-start: build
	@$(PGCALM) lab run suite bench/suites/stop-start.toml $(SUITE_OPTIONS) --results bench/results/stop-start \
	  --markdown target/stop-start.md --html target/stop-start.html --json target/stop-start.json

# A hundred instances in lockstep on two file systems, docs/reference/hundred-instances.md; as root, half an hour, wants the machine
# for itself, goes on where it was
bench-hundred: build
	@$(PGCALM) lab run suite bench/suites/hundred.toml $(SUITE_OPTIONS) --results bench/results/hundred \
	  --markdown docs/reference/hundred-instances.md

# Who should push what is written out of the page cache, without the module (bench/suites/flush-after.toml), target/flush-after.md;
# as root, 25 minutes, wants the machine for itself, goes on where it was
bench-flush-after: build
	@$(PGCALM) lab run suite bench/suites/flush-after.toml $(SUITE_OPTIONS) --results bench/results/flush-after \
	  --markdown target/flush-after.md --html target/flush-after.html

# A standby behind disks of 200 operations per second and behind a slow link (bench/suites/lag.toml), target/lag.md; as root, ten minutes,
# wants the machine for itself, goes on where it was
bench-lag: build
	@$(PGCALM) lab run suite bench/suites/lag.toml $(SUITE_OPTIONS) --results bench/results/lag --markdown target/lag.md --html target/lag.html

# WAL that fills its volume by five causes: stock, the guard in shadow and on (bench/suites/wal-full.toml), target/wal-full.md; as root,
# half an hour, wants the machine for itself, goes on where it was
bench-wal-full: build
	@$(PGCALM) lab run suite bench/suites/wal-full.toml $(SUITE_OPTIONS) --results bench/results/wal-full \
	  --markdown target/wal-full.md --html target/wal-full.html

# The first seconds of checkpoints by settings of the server, and the length of the write phase (bench/suites/checkpoint-start.toml),
# target/checkpoint-start.md; as root, a quarter of an hour for each of ROWS=NAME,..., wants the machine for itself, goes on where it was
ROWS ?= commit-delay,write-phase
bench-checkpoint-start: build
	@$(PGCALM) lab run suite bench/suites/checkpoint-start.toml --rows $(ROWS) $(SUITE_OPTIONS) \
	  --results bench/results/checkpoint-start --markdown target/checkpoint-start.md --html target/checkpoint-start.html

# One checkpoint, traced in full, target/one-checkpoint.txt and .html; as root, ten minutes, wants the machine for itself
bench-one-checkpoint: deps build
	@PG_CONFIG=$(PG_CONFIG) bench/one-checkpoint

# Crashes under load, target/torture.md; CYCLES=N for another number than 200
torture: build
	@PG_CONFIG=$(PG_CONFIG) bench/torture

clean:
	cargo clean
	$(MAKE) --silent --directory $(EXTENSION) PG_CONFIG=$(PG_CONFIG) clean

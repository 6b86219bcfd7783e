# pgcalm: `make demo` shows the stall and the cure, `make test` passes all tests.
# Every target installs what it needs (make deps); nothing else has to be there.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

PG_CONFIG ?= /usr/lib/postgresql/15/bin/pg_config
EXTENSION := extension/pg_calm
PGCALM := target/release/pgcalm

.PHONY: all deps build install demo test test-extension test-rust fmt fmt-check lint bench torture-errors clean

all: build

# apt packages and the Rust components, only what is missing; as root
deps:
	@bench/install-deps

build:
	cargo build --release --quiet --package pgcalm
	$(MAKE) --silent --directory $(EXTENSION) PG_CONFIG=$(PG_CONFIG)

# Into the server that PG_CONFIG belongs to
install: build
	$(MAKE) --silent --directory $(EXTENSION) PG_CONFIG=$(PG_CONFIG) install

demo:
	@bench/demo

test: deps build
	@bench/test

fmt:
	cargo fmt
	clang-format -i $(EXTENSION)/*.c $(EXTENSION)/*.h bench/errors/*.c

fmt-check:
	cargo fmt --check
	clang-format --dry-run --Werror $(EXTENSION)/*.c $(EXTENSION)/*.h bench/errors/*.c

lint: fmt-check
	cargo clippy --quiet --workspace --all-targets -- --deny warnings
	cppcheck --quiet --enable=warning,performance,portability --inline-suppr \
	  --suppress=missingIncludeSystem --error-exitcode=1 \
	  -DPG_VERSION_NUM=150000 -D__linux__ -D__LP64__ -D__x86_64__ $(EXTENSION)/*.c bench/errors/*.c

# Real writeback errors under load (docs/errors.md); as root
N ?= 200
torture-errors:
	@bench/install-deps
	@bench/torture-errors --injections $(N)

# The figures of docs/benchmarks.md; about an hour, wants the machine for itself
bench: build
	@bench/run

clean:
	cargo clean
	$(MAKE) --silent --directory $(EXTENSION) PG_CONFIG=$(PG_CONFIG) clean

# PostgreSQL's TAP suites with the module preloaded in every server that they start; part of bench/check-postgres, whose variables it uses.
#
# These suites need programs and modules that no package has, so the server is built from
# its source package, with assertions: what the module does wrong shows sooner.
# shellcheck shell=bash

tap_suites=(src/test/recovery src/bin/pg_basebackup src/bin/pg_rewind src/bin/pg_checksums)

# The server and what the suites need, once for each source package; then the module, each time
build_tap_server() {
	local options=() suite extra
	tap=$cache/tap-$major
	if [ "$(cat "$tap/version" 2>/dev/null)" != "$(cat "$source/version")" ]; then
		rm -rf "$tap"
		mkdir -p "$tap/build"
		[ "$major" -lt 16 ] || options+=(--without-icu)
		[ "$major" -lt 17 ] || options+=(--enable-injection-points)
		(
			cd "$tap/build"
			"$source/configure" --quiet --prefix="$tap/install" --enable-tap-tests --enable-cassert --without-readline \
				--with-lz4 --with-zstd "${options[@]}" CFLAGS='-O1 -g0'
			make --silent --jobs="$(nproc)"
			make --silent install
			make --silent --directory=src/test/regress
			for suite in "${tap_suites[@]}"; do
				# shellcheck disable=SC2016
				for extra in $(make --silent --directory="$suite" --eval='extra: ; @echo $(EXTRA_INSTALL)' extra); do
					make --silent --directory="$extra" install
				done
			done
		)
		chown -R postgres "$tap/build"
		cp "$source/version" "$tap/version"
	fi
	rm -rf "$work/tap_module"
	cp -r extension/pg_calm "$work/tap_module"
	make --silent --directory "$work/tap_module" clean PG_CONFIG="$tap/install/bin/pg_config" with_llvm=no
	make --silent --directory "$work/tap_module" --jobs="$(nproc)" install PG_CONFIG="$tap/install/bin/pg_config" with_llvm=no
}

# tap_settings with|without: what each server of the suites gets.  They switch fsync off, and most
# of what the module does happens there.  Caps, age and amounts leave it no rest; its maps are too small for what comes.
tap_settings() {
	echo "fsync = on"
	echo "log_checkpoints = on"
	[ "$1" = with ] || return 0
	cat <<-EOF
		shared_preload_libraries = 'pg_calm, pg_calm_guard'
		pg_calm.mode = on
		pg_calm.write_iops = 500
		pg_calm.write_bandwidth = '20MB'
		pg_calm.flush_age = '10ms'
		pg_calm.unflushed_limit = '64kB'
		pg_calm.drain_threshold = 0
		pg_calm.page_map_memory = '1MB'
		pg_calm_guard.mode = on
		pg_calm_guard.exempt_superusers = off
		pg_calm_guard.max_wal = '64MB'
		pg_calm_guard.patience = '1s'
	EOF
}

# run_tap with|without NAME JOBS FILE...: the suites' test files, each suite on its own; a line for each, and
# the names of those that failed in $work/tap-NAME.failed
run_tap() {
	local name=$1 run=$2 jobs=$3 suite file files log_file summary
	shift 3
	tap_settings "$name" >"$work/tap-$run.conf"
	: >"$work/tap-$run.failed"
	for suite in "${tap_suites[@]}"; do
		files=()
		for file in "$@"; do
			[ "${file%/t/*}" != "$suite" ] || files+=("t/${file##*/}")
		done
		[ ${#files[@]} -gt 0 ] || continue
		log_file=$log/tap-$run-${suite##*/}.log
		# the suite's own directory of results
		rm -rf "$tap/build/$suite/tmp_check"
		in_namespaces env TEMP_CONFIG="$work/tap-$run.conf" PG_CALM_HOST_ROOT=/ LC_ALL=C HOME="$work" bash -euc '
			mount -t proc proc /proc
			setpriv --reuid=postgres --regid="$(id -g postgres)" --init-groups \
				make --silent --directory "$1" installcheck PROVE_FLAGS="--timer --jobs $2" PROVE_TESTS="$3"
			exit $?' bash "$tap/build/$suite" "$jobs" "${files[*]}" >"$log_file" 2>&1 || true
		summary=$(sed -nE 's/^(Files=[0-9]+, Tests=[0-9]+).*/\1/p; s/^Result: (.*)/\1/p; s/^.*skipped: (.*)/skipped: \1/p' "$log_file" |
			paste -sd '|' | sed 's/|/, /g')
		if ! grep -q '^Result: ' "$log_file"; then
			summary="did not come to an end: $(tail -n 1 "$log_file")"
			printf '%s\n' "${files[@]/#/$suite/}" >>"$work/tap-$run.failed"
		fi
		sed -nE "s,^(t/[^ ]+\.pl) +\(Wstat: .*,$suite/\1,p" "$log_file" | sort -u >>"$work/tap-$run.failed"
		echo "$suite $name module: $summary$(tap_work "$suite" "$name")"
		keep_tap_logs "$suite" "$run"
		tap_crashes "$suite"
	done
}

# What the module's own lines in the logs of the suite's servers tell
tap_work() {
	[ "$2" = with ] || return 0
	find "$tap/build/$1/tmp_check/log" -name '*.log' -exec cat {} + |
		sed -nE 's/.*pg_calm: (checkpoint|restartpoint) [0-9]+ .* bridged=([0-9]+) pages.*/\2/p' |
		awk '{n++; bridged += $1}
			END {printf "; pg_calm saw %d checkpoints and restartpoints, and bridged %d pages", n, bridged}'
}

# Of what failed: the server's logs
keep_tap_logs() {
	local name
	while IFS= read -r name; do
		[ "${name%/t/*}" = "$1" ] || continue
		name=${name##*/}
		mkdir -p "$log/tap-$2"
		cp "$tap/build/$1/tmp_check/log"/*"${name%.pl}"* "$log/tap-$2/" 2>/dev/null || true
	done <"$work/tap-$2.failed"
}

# A server that crashes by itself; the suites kill some by other signals
tap_crashes() {
	local crashes
	crashes=$(grep -rhE 'TRAP:|was terminated by signal (4|6|7|8|11)' "$tap/build/$1/tmp_check/log" | sort -u || true)
	[ -n "$crashes" ] || return 0
	echo "a server crashed:"
	sed 's/^/    /' <<<"$crashes"
	failed=1
}

# All files, or those that TESTS names; what fails has a second try, alone, and if it fails again one without the module
check_tap() {
	local files=() file again
	# patterns become names here, and TESTS is a list
	# shellcheck disable=SC2206
	cd "$source" && files=(${TESTS:-${tap_suites[@]/%//t/*.pl}}) && cd - >/dev/null
	run_tap with first "$(nproc)" "${files[@]}"
	[ -s "$work/tap-first.failed" ] || return 0
	mapfile -t again <"$work/tap-first.failed"
	echo "Once more, one at a time: ${again[*]}"
	run_tap with second 1 "${again[@]}"
	grep -vxFf "$work/tap-second.failed" "$work/tap-first.failed" | sed 's/^/passed only at the second try: /' || true
	[ -s "$work/tap-second.failed" ] || return 0
	mapfile -t again <"$work/tap-second.failed"
	run_tap without stock 1 "${again[@]}"
	for file in "${again[@]}"; do
		if grep -qxF "$file" "$work/tap-stock.failed"; then
			echo "fails in both: $file"
		else
			echo "FAILS WITH THE MODULE ONLY: $file"
			failed=1
		fi
	done
}

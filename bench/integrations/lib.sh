# What the integrations have in common: a place of their own, programs that end with it, and checks.  Sourced by each, which needs
# root, PostgreSQL's programs by PG_CONFIG, and the program as PGCALM.
# shellcheck shell=bash
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=bench/lib/debian.sh
. bench/lib/debian.sh

name=$(basename "$0")
pg_config=${PG_CONFIG:-/usr/lib/postgresql/15/bin/pg_config}
bindir=$("$pg_config" --bindir)
programs=$PWD/target/integrations
passed=0

[ "$(id -u)" -eq 0 ] || {
	echo "$name: needs root, to run servers as postgres: sudo make test-integrations" >&2
	exit 3
}
work=$(mktemp --directory --tmpdir=/var/tmp "pgcalm-$name.XXXXXX")
chmod 755 "$work"
# Where the build is, the server's user may not go
install --mode=755 "${PGCALM:-target/release/pgcalm}" "$work/pgcalm"
pgcalm=$work/pgcalm
mkdir "$work/module"
make --silent --directory extension/pg_calm PG_CONFIG="$pg_config"
cp extension/pg_calm/*.so "$work/module"
chown --recursive postgres: "$work"

groups=()
become=(runuser -u postgres --)
# in_background COMMAND...: as postgres, in a process group of its own, whose id is then $group
in_background() {
	set -m
	"${become[@]}" "$@" >>"$work/background.log" 2>&1 &
	set +m
	group=$!
	groups+=("$group")
}
# end_group GROUP: at once, without a word of bash's
end_group() {
	kill -KILL -- "-$1" 2>/dev/null || true
	wait "$1" 2>/dev/null || true
}
# Servers of Patroni's leave its group
end_all() {
	local group file
	for group in "${groups[@]}"; do
		end_group "$group"
	done
	for file in "$work"/*/postmaster.pid; do
		[ ! -f "$file" ] || end_server "${file%/*}"
	done
	rm -rf "$work"
}
# end_server DATA: at once; one that was stopped by a signal, too.  Until it is reaped, no other may have its folder or socket
end_server() {
	local pid
	pid=$(head -n 1 "$1/postmaster.pid" 2>/dev/null) || return 0
	pkill -KILL -P "$pid" || true
	kill -KILL "$pid" 2>/dev/null || true
	eventually gone "$pid" || true
}
gone() {
	! kill -0 "$1" 2>/dev/null
}
trap end_all EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

fail() {
	tail -n 30 "$work"/*.log 2>/dev/null | cut -c 1-200 >&2 || true
	echo "FAILED: $name: $*" >&2
	exit 1
}

# check NAME COMMAND...
check() {
	local what=$1
	shift
	"$@" >"$work/check.log" 2>&1 || fail "$what"
	passed=$((passed + 1))
	echo "ok: $name: $what"
}

# eventually COMMAND...: within two minutes
eventually() {
	local end=$((SECONDS + 120))
	until "$@"; do
		[ "$SECONDS" -lt "$end" ] || return 1
		sleep 0.2
	done
}

as_postgres() {
	runuser -u postgres -- env --chdir="$work" "$@"
}

# query PORT SQL
query() {
	as_postgres psql --no-psqlrc --quiet --tuples-only --no-align --set=ON_ERROR_STOP=1 --host="$work" --port="$1" --command="$2" postgres
}

# is VALUE COMMAND...: what it prints
is() {
	local value=$1 found
	shift
	found=$("$@" 2>/dev/null) && [ "$found" = "$value" ]
}

# free_port: one that nobody listens at now
free_port() {
	/usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# unpack PACKAGE: what is in a Debian package that would start a service if it were installed, into $programs/PACKAGE
unpack() {
	local staging
	[ ! -d "$programs/$1" ] || return 0
	mkdir -p "$programs"
	staging=$(mktemp -d -p "$programs")
	(
		cd "$staging"
		apt-cache show "$1" >/dev/null 2>&1 || apt-get update --quiet=2
		apt-get -o APT::Sandbox::User=root download --quiet=2 "$1"
		dpkg-deb --extract "$1"_*.deb tree
	)
	mv "$staging/tree" "$programs/$1"
	rm -rf "$staging"
}

# start_server DATA PORT [LINE OF postgresql.conf...]: made by initdb if it is not there
start_server() {
	local data=$1 port=$2
	shift 2
	[ -d "$data" ] || as_postgres "$bindir/initdb" --no-sync --auth=trust -D "$data" >/dev/null
	printf '%s\n' "port = $port" "listen_addresses = '127.0.0.1'" "unix_socket_directories = '$work'" \
		"dynamic_library_path = '$work/module:\$libdir'" "$@" >>"$data/postgresql.conf"
	as_postgres "$bindir/pg_ctl" -D "$data" -w -t 120 -l "$data.log" start >/dev/null || {
		tail -n 20 "$data.log" >&2
		fail "the server does not start"
	}
}

stop_server() {
	as_postgres "$bindir/pg_ctl" -D "$1" -w -m fast stop >/dev/null
}

finish() {
	echo "$name: $passed passed, 0 failed"
}

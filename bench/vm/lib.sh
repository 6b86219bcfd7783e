# What the parts have in common: results as TAP on descriptor 3, a server, times.
# shellcheck shell=sh

checks=0
bindir=$(cat /etc/bindir)

# check NAME COMMAND...
check() {
	checks=$((checks + 1))
	checked="$checks - $1"
	shift
	if "$@"; then
		echo "ok $checked" >&3
	else
		echo "not ok $checked" >&3
	fi
}
note() {
	echo "# $*" >&3
}
plan() {
	echo "1..$checks" >&3
}
# Whatever made a step fail that the rest needs
bail() {
	note "$*"
	echo "not ok $((checks + 1)) - $*" >&3
	echo "1..$((checks + 1))" >&3
	exit 1
}

as_postgres() {
	su postgres -s /bin/sh -c "$1"
}

# cluster DIRECTORY SETTINGS: a new one
cluster() {
	chown postgres "$(dirname "$1")"
	as_postgres "$bindir/initdb --no-sync --auth=trust --locale=C --encoding=UTF8 -D $1" >/dev/null ||
		bail "initdb"
	cat >>"$1/postgresql.conf" <<-END
		listen_addresses = ''
		unix_socket_directories = '$1'
		shared_buffers = 32MB
		autovacuum = off
		shared_preload_libraries = 'pg_calm'
		$2
	END
}

# start GROUP DIRECTORY: the server in a control group of its own, with settings for tests
# (test_settings.c); its process id in $postmaster
start() {
	mkdir -p "/sys/fs/cgroup/$1"
	sh -c "echo \$\$ >/sys/fs/cgroup/$1/cgroup.procs && exec su postgres -s /bin/sh -c 'PG_CALM_HOST_ROOT=/ exec $bindir/postgres -D $2 >>$2.log 2>&1'" &
	tries=0
	until sql "$2" "select 1" >/dev/null 2>&1; do
		tries=$((tries + 1))
		[ $tries -lt 240 ] || {
			tail -n 20 "$2.log" | sed 's/^/# /' >&3
			bail "the server in $2 does not start"
		}
		sleep 0.5
	done
	postmaster=$(head -n 1 "$2/postmaster.pid")
}

stop() {
	kill -INT "$(head -n 1 "$1/postmaster.pid")"
	while [ -e "$1/postmaster.pid" ]; do sleep 0.2; done
}

sql() {
	"$bindir/psql" -XAtq -U postgres -h "$1" -d postgres -c "$2"
}

# by_backend DIRECTORY COMMAND: a command as a child of a new backend
by_backend() {
	sql "$1" "copy (select 1) to program '$2'"
}

# Hundredths of a second since boot
now() {
	sed 's/\([0-9]*\)\.\([0-9]*\) .*/\1\2/' /proc/uptime
}
# took COMMAND...: hundredths of a second in $elapsed
took() {
	before=$(now)
	"$@"
	elapsed=$(($(now) - before))
}
# Writes that a disk has completed
writes() {
	awk '{ print $5 }' "/sys/block/$1/stat"
}

at_least() {
	[ "$1" -ge "$2" ] || {
		note "$1 is less than $2"
		return 1
	}
}
at_most() {
	[ "$1" -le "$2" ] || {
		note "$1 is more than $2"
		return 1
	}
}
# has TEXT PATTERN
has() {
	echo "$1" | grep -q -- "$2" || {
		echo "$1" | sed 's/^/# /' >&3
		return 1
	}
}
has_not() { ! has "$1" "$2" 3>/dev/null; }

# Mounts and processes that end with the script, whatever way it ends.
# shellcheck shell=bash

namespaces_pid=

# in_namespaces COMMAND...: with mounts and processes of its own, which no
# other process sees; the kernel takes all of them away with the command.
# A command that leaves processes behind has to reap them: it is their init.
in_namespaces() {
	local status=0
	# in the background, since bash serves signals only between foreground commands
	env --default-signal=INT,QUIT setpriv --pdeathsig KILL \
		unshare --mount --propagation private --pid --fork --kill-child=KILL "$@" </dev/null &
	namespaces_pid=$!
	wait "$namespaces_pid" || status=$?
	namespaces_pid=
	return $status
}

# For the caller's trap
end_namespaces() {
	[ -n "$namespaces_pid" ] || return 0
	kill -KILL "$namespaces_pid" 2>/dev/null || true
	wait "$namespaces_pid" 2>/dev/null || true
	namespaces_pid=
}

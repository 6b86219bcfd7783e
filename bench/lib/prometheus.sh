# Prometheus and promtool of Debian's package, unpacked: installing it would start a service on the machine.
# shellcheck shell=bash

# unpack_prometheus DIRECTORY: the two programs, if they aren't there
unpack_prometheus() {
	local directory=$1 staging
	[ ! -x "$directory/promtool" ] || [ ! -x "$directory/prometheus" ] || return 0
	if ! apt-cache show prometheus >/dev/null 2>&1; then
		if [ "$(id -u)" -ne 0 ]; then
			echo "make deps: apt does not know the package prometheus: run as root: apt-get update" >&2
			return 3
		fi
		apt-get update --quiet=2
	fi
	mkdir -p "$directory"
	staging=$(mktemp -d -p "$directory")
	(
		cd "$staging"
		apt-get -o APT::Sandbox::User=root download --quiet=2 prometheus
		dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x ./usr/bin/prometheus ./usr/bin/promtool
	)
	mv "$staging"/usr/bin/* "$directory"
	rm -rf "$staging"
}

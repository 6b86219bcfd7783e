# Debian's packages, with no trace on the host but those of install_missing.
# shellcheck shell=bash

# Where the system's own packages come from: lines of "mirror suite", its release first
debian_suites() {
	local codename
	codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
	apt-get update --print-uris |
		sed -nE "s#^'([^']+)/dists/((${codename:-stable}|testing|unstable)(-[^/']+)?)/InRelease'.*#\1 \2#p"
}

debian_mirror() {
	local mirror
	mirror=$(debian_suites | head -n 1)
	if [ -z "$mirror" ]; then
		echo "the host's apt sources name no mirror of a Debian release" >&2
		return 1
	fi
	echo "${mirror% *}"
}

# private_apt DIRECTORY "deb|deb-src MIRROR SUITE"...: lists of these, and the
# configuration DIRECTORY/apt.conf that uses them, for APT_CONFIG; of the
# architectures that PRIVATE_APT_ARCHITECTURES names, or of the host's
private_apt() {
	local directory=$1 source
	shift
	mkdir -p "$directory/lists/partial" "$directory/cache/archives/partial"
	for source in "$@"; do
		echo "${source%% *} [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${source#* } main"
	done >"$directory/sources.list"
	cat >"$directory/apt.conf" <<-EOF
		Dir::State::lists "$directory/lists";
		Dir::Cache "$directory/cache";
		Dir::Etc::sourcelist "$directory/sources.list";
		Dir::Etc::sourceparts "/dev/null";
		#clear APT::Update::Post-Invoke-Success;
		APT::Sandbox::User "root";
	EOF
	printf 'APT::Architectures:: "%s";\n' ${PRIVATE_APT_ARCHITECTURES:-"$(dpkg --print-architecture)"} >>"$directory/apt.conf"
	APT_CONFIG=$directory/apt.conf apt-get update --quiet=2
}

# newest_suite_with PACKAGE: testing or unstable, whichever has it; their lists are kept in $cache
newest_suite_with() {
	local suite
	for suite in testing unstable; do
		# shellcheck disable=SC2154
		private_apt "$cache/apt-$suite" "deb $(debian_mirror) $suite" || return
		if [ -n "$(APT_CONFIG=$cache/apt-$suite/apt.conf apt-cache madison "$1")" ]; then
			echo "$suite"
			return
		fi
	done
	echo "neither testing nor unstable has $1" >&2
	return 1
}

# install_missing PACKAGE...: on the host
install_missing() {
	local package missing=()
	for package in "$@"; do
		[ "$(dpkg-query --show --showformat='${Status}' "$package" 2>/dev/null)" = "install ok installed" ] ||
			missing+=("$package")
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	apt-get update --quiet=2
	DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet=2 --no-install-recommends \
		"${missing[@]}" >/dev/null
}

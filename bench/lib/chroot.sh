# Commands in a chroot of Debian; source namespaces.sh, too.
# shellcheck shell=bash

# mount_chroot ROOT: what a system has, and the project at /src, read-only; for
# the first process in namespaces of its own (in_namespaces)
mount_chroot() {
	local root=$1
	# its root has to be a mount for namespaces within
	mount --bind "$root" "$root"
	mount --rbind /dev "$root/dev"
	mount --rbind /sys "$root/sys"
	mount -t proc proc "$root/proc"
	mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
	mkdir -p "$root/src"
	mount --bind -o ro . "$root/src"
}

# run_in_chroot ROOT COMMAND...: with an environment of its own
run_in_chroot() {
	env --ignore-environment PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
		HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive chroot "$@"
}
export -f mount_chroot run_in_chroot

# debootstrap_chroot RELEASE ROOT: a minimal Debian in which packages start no
# service; complete, or not there.  Checks each of its commands: it is called
# where set -e has no effect.
debootstrap_chroot() {
	local release=$1 root=$2 new=$2.new mirror
	mirror=$(debian_mirror) || return
	rm -rf --one-file-system "$new"
	in_namespaces debootstrap --variant=minbase "$release" "$new" "$mirror" || return
	printf '%s\n' '#!/bin/sh' 'exit 101' >"$new/usr/sbin/policy-rc.d" || return
	chmod 755 "$new/usr/sbin/policy-rc.d"
	mv "$new" "$root"
}

# The lists of a mirror that stands still may be out of date, if they may on the host
let_lists_be_old() {
	apt-config dump --no-empty Acquire::Check-Valid-Until >"$1/etc/apt/apt.conf.d/pgcalm"
}

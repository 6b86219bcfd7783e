#!/bin/sh
#
# The test of the import table on aarch64, with pages of 4 and of 64 kB: built by a
# cross compiler, run by qemu's user mode, without a server.  PG_CONFIG names the
# pg_config of a server for 64-bit machines, whose headers are used.
#
# It shows relocations, RELRO as the cross linker lays it out and mprotect by pages of
# 64 kB; the kernel and its memory are this machine's.
#
# Exit codes: 0 all passed; 1 not; 3 the packages gcc-aarch64-linux-gnu and qemu-user
# are not there.
#
set -eu

source_dir=$(cd "$(dirname "$0")/.." && pwd)
PG_CONFIG=${PG_CONFIG:-pg_config}
for program in aarch64-linux-gnu-gcc qemu-aarch64; do
	command -v $program >/dev/null || {
		echo "skipped: import table on aarch64: no $program: apt-get install gcc-aarch64-linux-gnu qemu-user"
		exit 3
	}
done
work=$(mktemp -d "${TMPDIR:-/tmp}/interpose_arm64.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP

# The linker's default, RELRO that ends at a page of 64 kB, and one that ends within
for layout in 65536 4096; do
	aarch64-linux-gnu-gcc -std=gnu11 -O2 -Wall -Wextra -Wno-unused-parameter -Wno-sign-compare -Werror \
		-D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -U_FORTIFY_SOURCE -fPIE -pie \
		-Wl,-z,relro,-z,now -Wl,-z,max-page-size=65536 -Wl,-z,common-page-size=$layout \
		-I"$source_dir/src" -I"$source_dir" -I"$("$PG_CONFIG" --includedir-server)" \
		"$source_dir/test/interpose_test.c" "$source_dir/test/libc_port.c" "$source_dir/src/interpose/interpose.c" -o "$work/interpose" -ldl
	for page in 4096 65536; do
		printf '%s\n' "exec qemu-aarch64 -p $page -L /usr/aarch64-linux-gnu $work/interpose" >"$work/relro_${layout}_pages_$page.sh"
	done
	prove --exec sh "$work/relro_${layout}"_pages_*.sh
done

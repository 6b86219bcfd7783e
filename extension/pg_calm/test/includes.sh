#!/bin/sh
#
# Who may include whom: a folder of src/ knows those that the Makefile names before it, by
# the header that has the folder's name, and no other.  What lies in src/ itself knows all of
# pg_calm.  A folder that is a library of its own (MODULES) is known by none.
#
# Exit codes: 0, or 1 with a line for each include that breaks this.
#
set -eu
cd "$(dirname "$0")/.."

awk '
	BEGIN {
		for (i = 1; i < ARGC; i++)
			ours[ARGV[i]] = 1
	}
	FILENAME == "Makefile" {
		if ($1 == "MODULES")
			for (i = 3; i <= NF; i++)
				library[substr($i, 9)] = 1
		if ($2 == "=" && system("test -d src/" $1) == 0)
			level[$1] = ++levels
		next
	}
	FNR == 1 {
		parts = split(FILENAME, path, "/")
		folder = parts == 3 ? path[2] : ""
		if (folder != "" && !(folder in level)) {
			print FILENAME ": " folder " is not in the Makefile"
			broken = 1
		}
	}
	/^#include "[a-z_]+\/[a-z_]+\.h"/ {
		split($2, name, /["\/]/)
		if (!(("src/" name[2] "/" name[3]) in ours))
			next # of the server
		if (name[3] != name[2] ".h") {
			print FILENAME ":" FNR ": " name[2] "/" name[3] " is for that folder only: include " name[2] "/" name[2] ".h"
			broken = 1
		}
		if (name[2] in library && name[2] != folder) {
			print FILENAME ":" FNR ": " name[2] " is another library"
			broken = 1
		}
		if (folder != "" && level[name[2]] >= level[folder]) {
			print FILENAME ":" FNR ": " folder " comes before " name[2]
			broken = 1
		}
	}
	END { exit broken }
' Makefile src/*.[ch] src/*/*.[ch]

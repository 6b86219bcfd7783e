# Blocks of a table that can't be written, under a kernel with or without
# cachestat(2): the server ends, and what was acknowledged is there after recovery.
# shellcheck shell=sh disable=SC2154
. /root/lib.sh

cg=/sys/fs/cgroup
rows=2000
size=$(cat /sys/block/vdb/size)
echo "+io" >$cg/cgroup.subtree_control
mount /dev/vda /data || bail "mount"
dmsetup create pg --table "0 $size linear /dev/vdb 0" || bail "dmsetup"
dmsetup mknodes
mount /dev/mapper/pg /mapped || bail "mount /dev/mapper/pg"
cluster /mapped/pg "shared_buffers = 1MB
checkpoint_timeout = 1h
restart_after_crash = off
log_checkpoints = on
pg_calm.mode = on
pg_calm.write_iops = 400
pg_calm.flush_age = '1h'"
# commits are durable whatever becomes of the table
mv /mapped/pg/pg_wal /data/wal
ln -s /data/wal /mapped/pg/pg_wal
chown -R postgres /data/wal

# disk TABLE: swaps it without writing what is dirty
disk() {
	dmsetup reload pg && dmsetup suspend --noflush --nolockfs pg && dmsetup resume pg
}
whole() { echo "0 $size linear /dev/vdb 0" | disk; }
# All but the blocks of a file
broken() {
	filefrag -v -b512 "$1" |
		sed -n 's/^ *[0-9]*: *[0-9]*\.\. *[0-9]*: *\([0-9]*\)\.\. *\([0-9]*\):.*/\1 \2/p' | sort -n |
		awk -v size="$size" -v at=0 '
			$1 == 0 { next } # has no place yet
			$1 > at { print at, $1 - at, "linear /dev/vdb", at }
			{ print $1, $2 - $1 + 1, "error"; at = $2 + 1 }
			END { if (at < size) print at, size - at, "linear /dev/vdb", at }' >/tmp/broken
	grep -q error /tmp/broken && disk </tmp/broken
}
completed() { grep -c "checkpoint complete" /mapped/pg.log; }
ends() {
	tries=0
	while [ -e "/proc/$postmaster/exe" ]; do
		tries=$((tries + 1))
		[ $tries -lt 240 ] || return 1
		sleep 0.5
	done
}

start pg /mapped/pg
sql /mapped/pg "create extension pg_calm; create extension amcheck"
sql /mapped/pg "create table t (id int primary key, n int, filler text) with (fillfactor = 40)"
sql /mapped/pg "insert into t select i, 0, repeat('x', 1500) from generate_series(1, $rows) i; checkpoint"
note "Linux $(uname -r)"
old_kernel() { [ "$(uname -r | awk -F. '{ print $1 * 100 + $2 }')" -lt 605 ]; }
says_so() { has "$(cat /mapped/pg.log)" "pg_calm: cachestat() is not to be had"; }
if old_kernel; then
	check "the log says what this kernel does not have" says_so
else
	check "the log complains of no missing call" has_not "$(cat /mapped/pg.log)" "is not to be had"
fi

n=0
for who in worker checkpointer; do
	n=$((n + 1))
	file=/mapped/pg/$(sql /mapped/pg "select pg_relation_filepath('t')")
	sql /mapped/pg "update t set n = $n" || bail "update"
	check "$who: pages are written and not flushed" at_least \
		"$(sql /mapped/pg "select unflushed_pages from pg_calm_status")" 100
	broken "$file" || bail "can't break the disk"
	before=$(completed)
	if [ $who = worker ]; then
		sql /mapped/pg "alter system set pg_calm.flush_age = '100ms'"
		sql /mapped/pg "select pg_reload_conf()" >/dev/null
	else
		sql /mapped/pg "checkpoint" 2>/dev/null
	fi
	check "$who: the server ends" ends
	check "$who: by a PANIC" has "$(tail -n 40 /mapped/pg.log)" "PANIC"
	note "$(grep PANIC /mapped/pg.log | tail -n 1)"
	check "$who: no checkpoint was completed" [ "$(completed)" -eq "$before" ]
	# what the page cache still has of lost pages goes
	umount /mapped || bail "umount"
	whole || bail "can't mend the disk"
	mount /dev/mapper/pg /mapped || bail "mount again"
	sed -i '/flush_age/d' /mapped/pg/postgresql.auto.conf
	chown postgres /mapped/pg/postgresql.auto.conf
	start pg /mapped/pg
	check "$who: every row is as acknowledged" [ "$(sql /mapped/pg "select count(*) from t where n = $n")" = $rows ]
	check "$who: pg_amcheck finds nothing" "$bindir/pg_amcheck" -U postgres -h /mapped/pg --heapallindexed -d postgres
done
stop /mapped/pg
plan

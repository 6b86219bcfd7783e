# Limits on cgroup v2 with a real server: a plain disk, one on device-mapper, one
# behind dm-crypt; what the module and doctor make of it.
# shellcheck shell=sh
. /root/lib.sh

cg=/sys/fs/cgroup
# Direct writes of 8 KiB, and what of them a limit of 50 per second takes, in
# hundredths: throttling lets the first slices through
count=200
limit=50
limited=$((count * 100 / limit * 8 / 10))
vda=$(cat /sys/block/vda/dev)

mount /dev/vda /data || bail "mount"
cluster /data/pg "pg_calm.mode = on"
echo "+io +memory" >$cg/cgroup.subtree_control || bail "cgroup v2 without io and memory"
start pg /data/pg
sql /data/pg "create extension pg_calm; create table t (a int)"

direct() { by_backend "$1" "gnu-dd if=/dev/zero of=$1.dd bs=8k count=$count oflag=direct conv=notrunc status=none"; }
# 8 MiB into the page cache by the server, then written by the kernel for whoever asks
buffered() { by_backend /data/pg "gnu-dd if=/dev/zero of=$1 bs=64k count=128 conv=notrunc status=none"; }
flush() { sync; }
in_group() {
	by_backend /data/pg "cat /proc/self/cgroup >/tmp/group"
	has "$(cat /tmp/group)" "^0::$1\$"
}
all_in() {
	for pid in $postmaster $(awk -v parent="$postmaster" '$4 == parent { print $1 }' /proc/[0-9]*/stat 2>/dev/null); do
		has "$(cat "/proc/$pid/cgroup")" "^0::$1\$" || return 1
	done
}

has_source() {
	tries=0
	until sql /data/pg "select caps_source from pg_calm_status" | grep -q "$1"; do
		tries=$((tries + 1))
		[ $tries -lt 60 ] || { sql /data/pg "select caps_source from pg_calm_status" | sed 's/^/# /' >&3; return 1; }
		sleep 1
	done
}
has_iops() {
	tries=0
	until [ "$(sql /data/pg "select write_iops from pg_calm_status")" = "$1" ]; do
		tries=$((tries + 1))
		[ $tries -lt 60 ] || { note "write_iops is $(sql /data/pg "select write_iops from pg_calm_status")"; return 1; }
		sleep 1
	done
}

### a plain disk
buffered /data/pg.old
direct /data/pg
took direct /data/pg
free=$elapsed
note "$count direct writes without a limit: $free hundredths of a second"
shown=$(pgcalm isolate show)
check "show names hierarchy, group and disk" has "$shown" "group  *\/pg$"
check "and v2" has "$shown" "by cgroup v2"
pgcalm isolate set --instance /data/pg --device /dev/vda --write-iops $limit --plan >/tmp/plan || bail "isolate set --plan"
check "a plan changes nothing" all_in /pg
pgcalm isolate set --apply --yes --instance /data/pg --device /dev/vda --write-iops $limit >/tmp/set || bail "isolate set"
group=/pg/pgcalm-isolate-$postmaster
check "all processes are in the new group" all_in "$group"
check "and so are those that come later" in_group "$group"
before_writes=$(writes vda)
took direct /data/pg
rate=$((($(writes vda) - before_writes) * 100 / elapsed))
note "$count direct writes, limit $limit per second: $elapsed hundredths of a second, $rate writes per second on the disk"
check "the limit is in force" at_least "$elapsed" "$limited"
check "without it that took less" at_most "$free" "$((limited / 2))"
commits() { seq 1 100 | sed 's/.*/insert into t values (&);/' | "$bindir/psql" -XAtq -U postgres -h /data/pg -d postgres; }
took commits
note "100 commits, limit $limit writes per second: $elapsed hundredths of a second"
took commits
note "100 more: $elapsed"
check "the module finds it in its own group" has_source "cgroup v2 $group"
check "with its value" has_iops $limit
check "check names what shares the capped disk" has "$(pgcalm isolate check)" "^wal-on-capped-device"
check "and no lack of the memory controller" has_not "$(pgcalm isolate check)" "^no-memory-controller"

pgcalm isolate set --apply --yes --instance /data/pg --device /dev/vda --write-iops none --write-bandwidth 2MB >/dev/null || bail "isolate set"
flush
buffered /data/pg.new
took flush
with_memory=$elapsed
note "8 MiB of a new file written back by the kernel, limit 2 MiB/s: $with_memory hundredths of a second"
check "writeback is limited, too" at_least "$with_memory" 240
# A page stays with the group that brought it into the page cache, and a file's writeback goes to the group to which most
# of what was written lately belongs
again() {
	rounds=0
	elapsed=0
	while [ $rounds -lt "$1" ] && [ $elapsed -lt 240 ]; do
		rounds=$((rounds + 1))
		buffered /data/pg.old
		took flush
	done
}
again 10
note "8 MiB of a file that the former group has in the page cache, $rounds times: $elapsed hundredths of a second the last time"
check "a file of the former group is not limited while it is cached" at_most "$elapsed" 120
sync
echo 1 >/proc/sys/vm/drop_caches
again 30
note "after it was evicted, round $rounds: $elapsed hundredths of a second"
check "and is thereafter" at_least "$elapsed" 240

echo "$vda wiops=25" >$cg/pg/io.max
check "a limit of a group above counts as well" has_iops 25
check "and is named" has_source "cgroup v2 /pg;"
shown=$(pgcalm isolate show)
check "show has both" has "$shown" "write-iops 25 on vda ($cg/pg/io.max)"
took direct /data/pg
note "$count direct writes, limit 25 per second on the group above: $elapsed hundredths of a second"
check "and both are felt" at_least "$elapsed" "$((2 * limited))"
echo "$vda wiops=max" >$cg/pg/io.max

pgcalm isolate clear --apply --yes --instance /data/pg >/tmp/clear || bail "isolate clear"
check "clear brings the processes back" all_in /pg
check "removes the group" [ ! -e "$cg$group" ]
check "and switches the controllers off again" [ -z "$(cat $cg/pg/cgroup.subtree_control)" ]
took direct /data/pg
check "no limit is left" at_most "$elapsed" "$((limited / 2))"

### limits that end with the command
pgcalm isolate set --apply --yes --instance /data/pg --device /dev/vda --write-iops $limit --hold >/dev/null &
held=$!
tries=0
until grep -q "pgcalm-isolate" "/proc/$postmaster/cgroup" || [ $tries -gt 300 ]; do
	tries=$((tries + 1))
	sleep 0.2
done
sleep 2
kill -INT $held
wait $held
check "held limits end with the command" [ $? -eq 0 ]
check "and leave nothing" all_in /pg

### where groups don't list the memory controller, the io controller brings it
echo "-memory" >$cg/cgroup.subtree_control
pgcalm isolate set --apply --yes --instance /data/pg --device /dev/vda --write-bandwidth 2MB >/dev/null || bail "isolate set"
check "no memory controller is listed" has_not "$(cat "$cg/pg/cgroup.controllers")" memory
check "which is no hazard" has_not "$(pgcalm isolate check)" "^no-memory-controller"
flush
buffered /data/pg.unlisted
took flush
note "8 MiB of a new file written back, limit 2 MiB/s, memory not listed: $elapsed hundredths of a second"
check "since writeback is limited all the same" at_least "$elapsed" 240
pgcalm isolate clear --apply --yes --instance /data/pg >/dev/null || bail "isolate clear"
echo "+memory" >$cg/cgroup.subtree_control

### partitions
addpart /dev/vdc 1 2048 100000
not_taken() { ! echo "$1 wiops=10" >$cg/pg/io.max; }
check "the kernel takes no limit on a partition" not_taken "$(cat /sys/class/block/vdc1/dev)"
note "$( (echo "$(cat /sys/class/block/vdc1/dev) wiops=10" >$cg/pg/io.max) 2>&1)"
plan=$(pgcalm isolate set --instance /data/pg --device /dev/vdc1 --write-iops 10 --plan)
check "so isolate set resolves it to its disk" has "$plan" "write $(cat /sys/block/vdc/dev) wiops=10"
delpart /dev/vdc 1 2>/dev/null
stop /data/pg

### device-mapper
vdb=$(cat /sys/block/vdb/dev)
dmsetup create pg --table "0 $(($(cat /sys/block/vdb/size) - 2048)) linear /dev/vdb 2048" || bail "dmsetup"
dmsetup mknodes
mount /dev/mapper/pg /mapped || bail "mount /dev/mapper/pg"
cluster /mapped/pg "pg_calm.mode = on"
start mapped /mapped/pg
sql /mapped/pg "create extension pg_calm"
group=/mapped/pgcalm-isolate-$postmaster
check "show names the devices down to the disk" has "$(pgcalm isolate show)" "dm-0 ([0-9:]*) made of vdb ($vdb)"
for device in /dev/mapper/pg /dev/vdb; do
	pgcalm isolate set --apply --yes --instance /mapped/pg --device $device --write-iops $limit >/tmp/set || bail "isolate set $device"
	took direct /mapped/pg
	note "dm-linear, limit $limit per second on $device: $elapsed hundredths of a second"
	check "a limit on $device is in force" at_least "$elapsed" "$limited"
	tries=0
	until [ "$(sql /mapped/pg "select write_iops from pg_calm_status")" = $limit ] || [ $tries -gt 60 ]; do
		tries=$((tries + 1))
		sleep 1
	done
	check "and the module finds it" has "$(sql /mapped/pg "select write_iops, caps_source from pg_calm_status")" "^$limit|operations: cgroup v2 $group"
	check "as does check" has "$(pgcalm isolate check)" "^wal-on-capped-device"
	pgcalm isolate clear --apply --yes --instance /mapped/pg >/dev/null || bail "isolate clear"
done
took direct /mapped/pg
check "none is left" at_most "$elapsed" "$((limited / 2))"
stop /mapped/pg

### dm-crypt, which writes from threads of the kernel
key=000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f
dmsetup create crypt --table "0 $(cat /sys/block/vdc/size) crypt aes-xts-plain64 $key$key 0 /dev/vdc 0" || bail "dmsetup crypt"
dmsetup mknodes
mkdir $cg/crypt
in_crypt() { sh -c "echo \$\$ >$cg/crypt/cgroup.procs; exec gnu-dd if=/dev/zero of=/dev/mapper/crypt bs=8k count=$count oflag=direct status=none"; }
in_crypt
took in_crypt
note "dm-crypt without a limit: $elapsed hundredths of a second"
check "dm-crypt alone takes less" at_most "$elapsed" "$((limited / 2))"
for disk in vdc dm-1; do
	number=$(cat /sys/block/$disk/dev)
	echo "$number wiops=$limit" >$cg/crypt/io.max
	took in_crypt
	note "dm-crypt, limit $limit per second on $disk: $elapsed hundredths of a second"
	check "a limit on $disk is in force" at_least "$elapsed" "$limited"
	echo "$number wiops=max" >$cg/crypt/io.max
done

### dirty pages of a memory cgroup
dirty_of() { awk '$1 == "file_dirty" { print int($2 / 1048576) }' "$cg/$1/memory.stat"; }
# 96 MiB into the page cache by a process of that group
dirty() { sh -c "echo \$\$ >$cg/$1/cgroup.procs; exec gnu-dd if=/dev/zero of=/data/dirty bs=1M count=96 status=none"; }
mkdir $cg/large $cg/small
echo 160M >$cg/small/memory.max
dirty large
large=$(dirty_of large)
sync
rm /data/dirty
dirty small
small=$(dirty_of small)
note "after 96 MiB of buffered writes $large MiB are dirty in a group without memory.max, $small in one of 160 MiB (vm.dirty_ratio $(cat /proc/sys/vm/dirty_ratio))"
check "a group's memory.max is a limit on its dirty pages" [ "$small" -le 40 -a "$large" -ge 80 ]
sync
rm /data/dirty
plan

# Without the memory controller nobody knows whose pages the kernel's flusher
# writes: the one case in which a limit on cgroup v2 does not hold for them.
# shellcheck shell=sh
. /root/lib.sh

cg=/sys/fs/cgroup
mount /dev/vda /data || bail "mount"
cluster /data/pg ""
check "the host has no memory controller" has_not "$(cat $cg/cgroup.controllers)" memory
echo "+io" >$cg/cgroup.subtree_control || bail "cgroup v2 without io"
start pg /data/pg
direct() { by_backend /data/pg "gnu-dd if=/dev/zero of=/data/pg.dd bs=64k count=128 oflag=direct status=none"; }
buffered() { by_backend /data/pg "gnu-dd if=/dev/zero of=/data/pg.new bs=64k count=128 status=none"; }
set=$(pgcalm isolate set --apply --yes --instance /data/pg --device /dev/vda --write-bandwidth 2MB) || bail "isolate set"
check "set says that writeback will not be limited" has "$set" "has no memory controller"
check "check names it" has "$(pgcalm isolate check)" "^no-memory-controller"
check "as does doctor" has "$(pgcalm doctor --instance /data/pg --duration 0 2>&1)" "no-memory-controller"
took direct
note "8 MiB of direct writes, limit 2 MiB/s: $elapsed hundredths of a second"
check "the server's own writes are limited" at_least "$elapsed" 240
sync
buffered
took sync
note "8 MiB written back by the kernel, limit 2 MiB/s, no memory controller: $elapsed hundredths of a second"
check "what the kernel writes for it is not" at_most "$elapsed" 120
pgcalm isolate clear --apply --yes --instance /data/pg >/dev/null || bail "isolate clear"
stop /data/pg
plan

# After the power cut: recovery, and whether everything acknowledged is there.
# shellcheck shell=sh
. /root/lib.sh

acknowledged=$(sed -n 's/.*pgcalm\.acknowledged=\([0-9]*\).*/\1/p' /proc/cmdline)
mount /dev/vda /data || bail "mount"
start pg /data/pg
check "the server recovered from its WAL" grep -q "redo done" /data/pg.log
rows=$(sql /data/pg "select count(*) from ledger where id <= $acknowledged and text = repeat(md5(id::text), 20)")
note "$acknowledged commits were acknowledged, $rows of them are there; pg_calm $(sql /data/pg "select mode from pg_calm_status")"
check "every acknowledged commit is there" [ "$rows" = "$acknowledged" ]
check "and one more at most" [ "$(sql /data/pg "select count(*) from ledger")" -le $((acknowledged + 1)) ]
check "balances agree" [ "$(sql /data/pg "select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history)")" = t ]
check "pg_amcheck finds nothing" "$bindir/pg_amcheck" -U postgres -h /data/pg --heapallindexed -d postgres
stop /data/pg
plan

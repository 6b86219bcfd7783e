# A ledger whose every commit is told to the host at once, and load beside it,
# until the power goes.
# shellcheck shell=sh
. /root/lib.sh

mount /dev/vda /data || bail "mount"
cluster /data/pg "pg_calm.mode = on
checkpoint_timeout = 30s
max_wal_size = 64MB
pg_calm.write_iops = 400"
# initdb did not, and only what is synced outlives the cut
sync
start pg /data/pg
sql /data/pg "create extension pg_calm; create extension amcheck; create table ledger (id int primary key, text text)"
"$bindir/pgbench" -i -q -s 4 -U postgres -h /data/pg postgres >/dev/null 2>&1 || bail "pgbench -i"
"$bindir/pgbench" -n -c 2 -T 3600 -U postgres -h /data/pg postgres >/dev/null 2>&1 &
note "ledger and pgbench have begun"
# After a failed statement psql goes on, and the missing row would be found
seq 1 1000000 | awk '{
	print "insert into ledger values (" $1 ", repeat(md5(" $1 "::text), 20));"
	print "\\echo ack " $1 " end"
}' | "$bindir/psql" -XAtq -v ON_ERROR_STOP=1 -U postgres -h /data/pg -d postgres >&3
bail "the ledger has come to its end"

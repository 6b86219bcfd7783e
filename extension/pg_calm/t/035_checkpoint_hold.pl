
# Where reads and writes share a volume's limits, a checkpoint writes no faster
# than that is flushed: the server's flush hints, which would wait for the device,
# wait for the worker instead.  One that is to be fast does not.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use CalmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

# Its flusher comes once an hour, at first
my $root = fake_host();
my $expire = "$root/proc/sys/vm/dirty_expire_centisecs";

# A volume that takes 50 operations of a page per second, as far as the worker knows, and
# checkpoints that would write all at once
my $node = draining_node('hold');
$node->append_conf(
	'postgresql.conf', qq{
pg_calm.write_iops = 0
pg_calm.write_bandwidth = 0
pg_calm.iops = 50
pg_calm.io_size = '8kB'
pg_calm.bandwidth = '100MB'
pg_calm.unflushed_limit = 0
pg_calm.clean_buffers = off
pg_calm.drain_threshold = 1000000
bgwriter_lru_maxpages = 0
});
$node->start;
scattered_table($node);

# More is unflushed than is flushed in seconds, and buffers are dirty
sub update
{
	$node->safe_psql('postgres', 'UPDATE t SET n = n + 1 WHERE id % 7 = 0');
	# as the worker has seen then, which looks four times a second
	usleep(2_000_000);
	return;
}

# What the checkpointer waits for
sub waits_for
{
	return $node->safe_psql('postgres',
		q{SELECT wait_event FROM pg_stat_activity WHERE backend_type = 'checkpointer'});
}

# Whether a checkpoint that WAL begins is seen to wait in a flush hint
sub is_held
{
	my $ended = checkpoints_completed($node);
	my $held = 0;

	update();
	fill_wal($node, begun_by_wal($node)) or die 'WAL caused no checkpoint';
	wait_for(
		sub {
			$held ||= waits_for() eq 'DataFileFlush';
			return $held || checkpoints_completed($node) > $ended;
		},
		60);
	wait_for(sub { checkpoints_completed($node) > $ended }, 120)
	  or die 'a checkpoint did not end';
	return $held;
}

ok(is_held(), 'a checkpoint waits while too much is unflushed');

# --- controls

$node->safe_psql('postgres', q{ALTER SYSTEM SET pg_calm.unflushed_limit = '10GB'});
$node->reload;
usleep(4_000_000);    # read every 3 s
ok(!is_held(), 'not where all that may be unflushed');

$node->safe_psql('postgres', 'ALTER SYSTEM RESET pg_calm.unflushed_limit');
$node->safe_psql('postgres', q{ALTER SYSTEM SET pg_calm.drain_timeout = 0});
$node->reload;
usleep(4_000_000);
ok(!is_held(), 'nor for longer than a checkpoint may wait at all');
$node->safe_psql('postgres', 'ALTER SYSTEM RESET pg_calm.drain_timeout');
$node->safe_psql('postgres', q{ALTER SYSTEM SET pg_calm.unflushed_limit = '10GB'});
$node->reload;
usleep(4_000_000);

# it may come to a file a second after that was dirtied, and for as long as it has not been seen
write_file($expire, "100\n");
usleep(4_000_000);
ok(is_held(), 'but for a file that the kernel flusher may be about to visit');
write_file($expire, "0\n");

$node->safe_psql('postgres', 'ALTER SYSTEM RESET pg_calm.unflushed_limit');
$node->reload;
usleep(4_000_000);
update();
my $fast = $node->background_psql('postgres');
my $held = 0;
my $ended = checkpoints_completed($node);
$fast->query_until(qr/begun/, "\\echo begun\nCHECKPOINT;\n");
wait_for(
	sub {
		$held ||= waits_for() eq 'DataFileFlush';
		return checkpoints_completed($node) > $ended;
	},
	60);
ok(!$held, 'nor a checkpoint that is asked for');
$fast->quit;

# --- WAL that asks for the next one ends it

$node->append_conf('postgresql.conf', 'shared_buffers = 128MB');
$node->restart;
# all of it, which would take half a minute
$node->safe_psql('postgres', 'CREATE TABLE large AS SELECT i, repeat(md5(i::text), 30) AS t FROM generate_series(1, 60000) i');
$node->safe_psql('postgres', 'CHECKPOINT');
$node->safe_psql('postgres', 'UPDATE large SET i = i + 1');
wait_for(sub { checkpoints_ended($node) && waits_for() ne 'DataFileFlush' });
my $before = begun_by_wal($node);
$ended = checkpoints_completed($node);
$node->safe_psql('postgres', 'UPDATE large SET i = i + 1');
fill_wal($node, $before);
$node->safe_psql('postgres',
	q{SELECT pg_logical_emit_message(false, 'fill', repeat('w', 1000000)) FROM generate_series(1, 70)});
my $samples = 0;
wait_for(
	sub {
		$samples++ if waits_for() eq 'DataFileFlush';
		return checkpoints_completed($node) > $ended;
	},
	120);
cmp_ok($samples, '<', 10, 'a checkpoint is let go once WAL asks for the next one');

$node->stop;
done_testing();

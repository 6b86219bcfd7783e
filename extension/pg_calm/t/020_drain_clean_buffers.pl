
# Where rounds of flushing don't get shorter, a checkpoint cleans the shared
# buffers of a file, region by region, before its fsync: which buffers those
# are, that it goes on beside tables and databases that are dropped, and that
# nothing is lost when the server dies in the middle of it.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use CalmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

# As in 010_drain.pl: checkpoints that are caused by WAL drain, and nothing
# is flushed before.  The device has few operations, so that few evictions are
# too many.  Only files with more than drain_threshold pages are swept: the
# tables', which have more regions than are cleaned ahead of the worker.
my $node = calm_node('drain_clean_buffers', q{
shared_buffers = 16MB
max_wal_size = 64MB
min_wal_size = 32MB
checkpoint_completion_target = 0
log_checkpoints = on
pg_calm.write_iops = 10
pg_calm.write_bandwidth = '100MB'
pg_calm.flush_age = '1h'
pg_calm.unflushed_limit = '10GB'
pg_calm.drain_threshold = 300
pg_calm.drain_timeout = '1h'
});
my $tablespace = PostgreSQL::Test::Utils::tempdir();
my $rows = 90000;
my $log = $node->logfile;
my $regions = 10;

$node->start;
$node->safe_psql('postgres', "CREATE TABLESPACE elsewhere LOCATION '$tablespace'");
$node->safe_psql(
	'postgres', qq{
CREATE EXTENSION pg_calm;
CREATE EXTENSION pg_buffercache;
CREATE EXTENSION amcheck;
CREATE TABLE here (id int PRIMARY KEY, n int, filler text) WITH (fillfactor = 50);
INSERT INTO here SELECT i, 0, repeat('x', 500) FROM generate_series(1, $rows) i;
CREATE TABLE there (LIKE here INCLUDING ALL) WITH (fillfactor = 50) TABLESPACE elsewhere;
INSERT INTO there TABLE here;
CHECKPOINT});
foreach my $table ('here', 'there')
{
	cmp_ok($node->safe_psql('postgres', "SELECT pg_relation_size('$table')"),
		'>', $regions * 1024 * 8192, "$table has regions enough");
}

sub completed { return checkpoints_completed($node); }

sub begun
{
	return () = slurp_file($log) =~ /checkpoint starting: wal/g;
}

sub cleaned { return status_of($node)->{cleaned_buffers} }

# How much WAL causes a checkpoint
sub max_wal_size
{
	my ($size) = @_;

	$node->safe_psql('postgres', "ALTER SYSTEM SET max_wal_size = '$size'");
	$node->reload;
	return $node->poll_query_until('postgres',
		"SELECT setting::int = pg_size_bytes('$size') / 1048576 FROM pg_settings WHERE name = 'max_wal_size'"
	);
}

# One row in this many is on each page
sub update
{
	my ($table, $every) = @_;

	$node->safe_psql('postgres', "UPDATE $table SET n = n + 1 WHERE id % $every = 0");
	return;
}

# A checkpoint that drains while the worker is stopped, and finds that more
# pages are evicted than could be flushed.  WAL causes no other after it.
# Returns the worker.
sub hold_drain
{
	my ($table) = @_;
	my $worker = status_of($node)->{worker_pid};

	ok(max_wal_size('64MB'), "$table: checkpoints by WAL");
	ok(checkpoints_ended($node), "$table: none is under way");
	# nothing is left unflushed, or another file may be the first to be swept
	$node->safe_psql('postgres', 'CHECKPOINT');
	kill 'STOP', $worker;
	my $before = begun();
	update($table, 70);
	ok( wait_for(
			sub {
				$node->safe_psql('postgres',
					q{SELECT pg_logical_emit_message(false, 'fill', repeat('w', 4000000))});
				return begun() > $before;
			},
			120),
		"$table: WAL causes a checkpoint");
	ok(wait_for(sub { drains($node) }, 60), "$table: it drains");
	ok(max_wal_size('4GB'), "$table: and no other is caused");
	# through few buffers
	update($table, 7);
	return $worker;
}

# One that can't get on with its sweep of the table: a region is taken by
# nobody.  Of the regions that it cleans ahead of the worker some have dirty
# buffers if it begins while the update is there; on a slow machine that may
# take more than one attempt.
sub hold_sweep
{
	my ($table) = @_;
	my $before = cleaned();
	my $worker;

	foreach my $attempt (1 .. 8)
	{
		$worker = hold_drain($table);
		last if wait_for(sub { cleaned() > $before }, 5);
		last if $attempt == 8;
		note("$table: attempt $attempt: it swept when the update was over");
		kill 'CONT', $worker;
		ok(wait_for(sub { checkpoints_ended($node) }, 120), "$table: it ends");
	}
	cmp_ok(cleaned(), '>', $before, "$table: buffers are cleaned");
	return $worker;
}

# Dirty buffers of a table in its last regions, which are cleaned last
sub dirty_at_end
{
	my ($table) = @_;

	return $node->safe_psql(
		'postgres', qq{
SELECT count(*) FROM pg_buffercache
 WHERE relfilenode = pg_relation_filenode('$table') AND relforknumber = 0 AND isdirty
       AND relblocknumber >= $regions * 1024});
}

# --- what is cleaned

foreach my $table ('here', 'there')
{
	my $worker = hold_sweep($table);
	my $done = completed();

	# a change that the sweep has still to come to: it waits for the worker
	$node->safe_psql('postgres', "UPDATE $table SET n = n + 1 WHERE id > $rows - 50");
	cmp_ok(dirty_at_end($table), '>', 0, "$table: buffers of the last regions are dirty");
	is(completed(), $done, "$table: and the checkpoint waits");
	kill 'CONT', $worker;
	ok(wait_for(sub { completed() > $done }, 60), "$table: the checkpoint completes");
	is(dirty_at_end($table), 0, "$table: they have been cleaned");
}

# --- what goes while it is being swept

my $worker = hold_sweep('here');
my $done = completed();
$node->safe_psql('postgres', 'CREATE TABLE short_lived AS SELECT generate_series(1, 1000) i');
$node->safe_psql('postgres', 'DROP TABLE short_lived');
$node->safe_psql('postgres', 'TRUNCATE here');
is(completed(), $done, 'a table is truncated while it is swept');
kill 'CONT', $worker;
ok(wait_for(sub { completed() > $done }, 60), 'and the checkpoint completes');
$node->safe_psql('postgres', 'INSERT INTO here TABLE there');

$worker = hold_sweep('here');
$done = completed();
# it asks for an immediate checkpoint, and for the barrier that closes files
$node->safe_psql('postgres', 'CREATE DATABASE victim');
$node->safe_psql('postgres', 'DROP DATABASE victim');
cmp_ok(completed(), '>', $done, 'DROP DATABASE is not held up by a stopped worker');
kill 'CONT', $worker;

# the same at any moment, with a worker that works
ok(max_wal_size('64MB'), 'checkpoints by WAL');
my $load = start_load($node, 'here', $rows, 2000);
foreach my $round (1 .. 4)
{
	$done = completed();
	my $fill = 'CREATE TABLE filled AS SELECT i, repeat(\'x\', 300) FROM generate_series(1, 20000) i';
	$node->safe_psql('postgres', 'CREATE DATABASE victim');
	$node->safe_psql('victim', $fill);
	$node->safe_psql('postgres', $fill);
	update('here', 7);
	$node->safe_psql('postgres', 'TRUNCATE filled');
	$node->safe_psql('postgres', 'DROP DATABASE victim');
	$node->safe_psql('postgres', 'DROP TABLE filled');
	ok(wait_for(sub { completed() > $done }, 60), "round $round: checkpoints complete");
}
$load->kill_kill;
ok( $node->poll_query_until(
		'postgres',
		q{SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'pgbench'}),
	'the load has ended');

# --- switched off

$worker = hold_sweep('here');
$done = completed();
$node->safe_psql('postgres', 'ALTER SYSTEM SET pg_calm.drain_clean_buffers = off');
$node->reload;
kill 'CONT', $worker;
ok(wait_for(sub { completed() > $done }, 60), 'a reload ends a sweep');
my $before = cleaned();
$worker = hold_drain('here');
$done = completed();
usleep(2_000_000);
is(cleaned(), $before, 'off: no buffer is cleaned');
kill 'CONT', $worker;
ok(wait_for(sub { completed() > $done }, 60), 'off: the checkpoint completes');
$node->safe_psql('postgres', 'ALTER SYSTEM RESET pg_calm.drain_clean_buffers');
$node->reload;

# --- death in the middle

$worker = hold_sweep('here');
my $sum = $node->safe_psql('postgres', 'SELECT sum(n) FROM here');
my $checkpointer =
  $node->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'});
kill 'KILL', $checkpointer, $worker;
ok(kill_node($node), 'killed in a sweep');
$node->start;
is($node->safe_psql('postgres', 'SELECT sum(n), count(*) FROM here'),
	"$sum|$rows", 'nothing is lost');
$node->command_ok([ 'pg_amcheck', '--heapallindexed', '-d', 'postgres' ], 'pg_amcheck');
$node->stop;
command_ok([ 'pg_checksums', '--check', '-D', $node->data_dir ], 'checksums are right');
cmp_ok(slurp_file($log), '!~', qr/PANIC|TRAP|WARNING/, 'nothing went wrong');

done_testing();

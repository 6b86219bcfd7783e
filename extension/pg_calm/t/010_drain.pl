
# A checkpoint waits before its fsync calls until the worker has flushed what
# was written, within bounds.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use CalmTest;
use Cwd qw(realpath);
use IPC::Run qw(start);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $node = draining_node('drain');
$node->append_conf('postgresql.conf', 'max_wal_senders = 4');
$node->start;
scattered_table($node);

my $log = $node->logfile;

sub worker { return status_of($node)->{worker_pid} }

my $asked;

# Make pages dirty, all over, and begin a checkpoint
sub cause_checkpoint
{
	$asked->finish if $asked;
	$node->safe_psql('postgres', 'UPDATE t SET n = n + 1 WHERE id % 7 = 0');
	$asked = begin_checkpoint($node);
	return;
}

sub completed { return checkpoints_completed($node); }

sub set
{
	my ($setting) = @_;

	$node->append_conf('postgresql.conf', "$setting\n");
	$node->reload;
	return;
}

sub stop_worker { my $pid = worker(); kill 'STOP', $pid; return $pid; }

# --- with a worker that does its work, pages are flushed by it

my $done = completed();
my $before = status_of($node);
cause_checkpoint();
ok(wait_for(sub { completed() > $done }, 60), 'a checkpoint drains and completes');
$asked->finish;
undef $asked;
my $after = status_of($node);
my $flushed = $after->{flushed_pages} - $before->{flushed_pages};
my $left = $after->{fsynced_pages} - $before->{fsynced_pages};
cmp_ok($flushed, '>', 300, 'the worker flushed pages before the fsync calls');
cmp_ok($left, '<', $flushed / 10, 'and left few to them');

# --- the fsync after it is made with a descriptor of its own, and so is its repetition

SKIP:
{
	my $why = cannot_trace();
	skip $why, 3 if $why;

	my $path = realpath($node->data_dir) . '/' . $node->safe_psql('postgres', q{SELECT pg_relation_filepath('t')});
	my ($handle, $trace) = trace(process_id($node, 'checkpointer'),
		'-P', $path, '-e', 'trace=fsync', '-e', 'inject=fsync:error=EINTR:when=1');
	$done = completed();
	cause_checkpoint();
	ok(wait_for(sub { completed() > $done }, 60), 'an fsync that was interrupted is made again');
	finish_trace($handle);
	my @descriptors = slurp_file($trace) =~ /^fsync\((\d+)/mg;
	cmp_ok(scalar @descriptors, '>=', 2, 'there are both calls');
	is($descriptors[1], $descriptors[0], 'with the same descriptor');
}

# --- the wait shows, and ends with the settings

my $stopped = stop_worker();
$done = completed();
cause_checkpoint();
ok(wait_for(sub { drains($node) }, 30), 'the wait for the worker is a wait event');
usleep(500_000);
is(completed(), $done, 'the checkpoint waits');
set("pg_calm.drain_timeout = '10ms'");
ok(wait_for(sub { completed() > $done }, 20), 'a reload ends it') or die;
cmp_ok(slurp_file($log), '!~', qr/PANIC/, 'without an error');

# --- time is bounded, for all files together

set("pg_calm.drain_timeout = '3s'");
$done = completed();
cause_checkpoint();
ok(wait_for(sub { completed() > $done }, 30), 'a worker that does not answer holds up no checkpoint for long');
my $drain_time =
  $node->safe_psql('postgres', 'SELECT drain_time FROM pg_calm_checkpoints ORDER BY id DESC LIMIT 1');
cmp_ok($drain_time, '>=', 2900, 'but for its time');
cmp_ok($drain_time, '<', 5900, 'which is not for each of its files');
set("pg_calm.drain_timeout = '1h'");

# 256 MB of WAL ask for the next one, some of which come before the drain begins: until the
# checkpointer comes to the buffers it is held
SKIP:
{
	my $why = cannot_trace();
	skip $why, 2 if $why;

	$node->safe_psql('postgres', 'CHECKPOINT');
	set("max_wal_size = '256MB'");
	my ($handle, $trace) = trace(
		process_id($node, 'checkpointer'),
		'-P', realpath($node->data_dir) . '/pg_multixact/members',
		'-e', 'trace=fsync', '-e', 'inject=fsync:delay_enter=60000000:when=1');
	$done = completed();
	# few pages, which would be no matter for fsync
	$node->safe_psql('postgres', 'UPDATE t SET n = n + 1 WHERE id % 700 = 0');
	$asked->finish;
	$asked = begin_checkpoint($node);
	ok(wait_for(sub { slurp_file($trace) =~ /fsync\(/ }, 60), 'a checkpoint has begun');
	$node->safe_psql('postgres',
		q{SELECT pg_logical_emit_message(false, 'fill', repeat('w', 1000000)) FROM generate_series(1, 64)});
	# which ends the delay
	finish_trace($handle);
	ok(wait_for(sub { completed() > $done }, 120), 'nor for long where WAL comes fast') or die;
	set("max_wal_size = '10GB'");
}

# --- while it waits: checkpoints that are in a hurry, and what asks for one

$node->safe_psql('postgres', 'CREATE DATABASE victim');
$done = completed();
cause_checkpoint();
ok(wait_for(sub { drains($node) }, 30), 'waiting again');
my $start = time;
$node->safe_psql('postgres', 'CHECKPOINT');
cmp_ok(time - $start, '<', 20, 'an immediate checkpoint ends the wait');
ok(!drains($node), 'and does not wait itself');

cause_checkpoint();
ok(wait_for(sub { drains($node) }, 30), 'waiting again');
kill 'CONT', $stopped;
$start = time;
$node->safe_psql('postgres', 'DROP DATABASE victim');
cmp_ok(time - $start, '<', 20, 'DROP DATABASE is not held up');

ok(checkpoints_ended($node), 'no checkpoint is under way');

# --- on a standby, where what drops a database waits for the barrier, and asks for no checkpoint

$node->safe_psql('postgres', 'CREATE DATABASE victim');
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('drain_standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
$node->safe_psql('postgres', 'UPDATE t SET n = n + 1 WHERE id % 7 = 0; CHECKPOINT');
$node->wait_for_catchup($standby);
kill 'STOP', status_of($standby)->{worker_pid};
my $restartpoint = begin_checkpoint($standby);
ok(wait_for(sub { drains($standby) }, 60), 'a restartpoint waits');
$node->safe_psql('postgres', 'DROP DATABASE victim');
ok( wait_for(
		sub { $standby->safe_psql('postgres', q{SELECT count(*) FROM pg_database WHERE datname = 'victim'}) == 0 },
		20),
	'replay of DROP DATABASE is not held up');
ok(drains($standby), 'nor is the wait over');
kill 'CONT', status_of($standby)->{worker_pid};
$restartpoint->finish;
$standby->stop;

# --- one of which nothing is known is as without the module

set('log_checkpoints = off');
$stopped = stop_worker();
cause_checkpoint();
my $drained = 0;
my $ended = wait_for(
	sub {
		$drained ||= drains($node);
		return $drained || !runs($asked);
	});
ok($ended && !$drained, 'without log_checkpoints a checkpoint that is asked for does not wait');
kill 'CONT', $stopped;
set('log_checkpoints = on');

# --- bytes alone

set($_) foreach 'pg_calm.write_iops = -1', q{pg_calm.write_bandwidth = '4MB'}, 'pg_calm.drain_threshold = -1';
ok(wait_for(sub { !defined status_of($node)->{write_iops} }), 'bytes alone are limited');
$stopped = stop_worker();
$done = completed();
cause_checkpoint();
ok(wait_for(sub { drains($node) }, 30), 'there it waits as well');
kill 'CONT', $stopped;
ok(wait_for(sub { completed() > $done }, 120), 'and completes');
set($_) foreach 'pg_calm.write_iops = 100', q{pg_calm.write_bandwidth = '100MB'}, 'pg_calm.drain_threshold = 0';
ok(wait_for(sub { defined status_of($node)->{write_iops} }), 'operations are limited again');

# --- mode

$stopped = stop_worker();
$done = completed();
cause_checkpoint();
ok(wait_for(sub { drains($node) }, 30), 'waiting again');
set('pg_calm.mode = shadow');
ok(wait_for(sub { completed() > $done }, 20), 'mode shadow ends the wait');
set('pg_calm.mode = on');

# --- shutdown

# The postmaster has all others end first, and then tells the checkpointer
# (since 18 by a signal that can't be seen): the end of the worker ends the
# wait.  It goes on only when it has been told to end, so that it flushes nothing.
cause_checkpoint();
ok(wait_for(sub { drains($node) }, 30), 'waiting again');
my $continue = start(
	[
		'sh', '-c',
		'until grep -q "received fast shutdown request" "$0"; do sleep 0.1; done; kill -CONT "$1"',
		$log, $stopped
	]);
$node->stop('fast');
$continue->finish;
$asked->finish;
pass('a shutdown does not wait');
$node->start;
is($node->safe_psql('postgres', 'SELECT count(*) FROM t'), 40000, 'the data is there');
$node->stop;

done_testing();

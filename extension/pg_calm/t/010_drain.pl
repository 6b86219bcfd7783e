
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
$node->start;
scattered_table($node);

my $log = $node->logfile;

sub worker { return status_of($node)->{worker_pid} }

# Make pages dirty, all over, and enough WAL for a checkpoint, but for no other
sub cause_checkpoint
{
	my $seen = begun_by_wal($node);

	$node->safe_psql('postgres', 'UPDATE t SET n = n + 1 WHERE id % 7 = 0');
	fill_wal($node, $seen);
	return;
}

sub completed { return checkpoints_completed($node); }

sub stop_worker { my $pid = worker(); kill 'STOP', $pid; return $pid; }

# --- with a worker that does its work, pages are flushed by it

my $done = completed();
my $before = status_of($node);
cause_checkpoint();
ok(wait_for(sub { completed() > $done }, 60), 'a checkpoint drains and completes');
my $after = status_of($node);
my $flushed = $after->{flushed_pages} - $before->{flushed_pages};
my $left = $after->{fsynced_pages} - $before->{fsynced_pages};
cmp_ok($flushed, '>', 300, 'the worker flushed pages before the fsync calls');
cmp_ok($left, '<', $flushed / 10, 'and left few to them');

# --- the fsync after it is made with a descriptor of its own, and so is its repetition

SKIP:
{
	my $why = cannot_trace();
	skip $why, 2 if $why;

	my $path = realpath($node->data_dir) . '/' . $node->safe_psql('postgres', q{SELECT pg_relation_filepath('t')});
	my ($handle, $trace) = trace(process_id($node, 'checkpointer'),
		'-P', $path, '-e', 'trace=fsync', '-e', 'inject=fsync:error=EINTR:when=1');
	$done = completed();
	cause_checkpoint();
	ok(wait_for(sub { completed() > $done }, 60), 'an fsync that was interrupted is made again');
	finish_trace($handle);
	my @descriptors = slurp_file($trace) =~ /^fsync\((\d+)/mg;
	is($descriptors[1], $descriptors[0], 'with the same descriptor');
}

# --- the wait shows, and ends with the settings

my $stopped = stop_worker();
$done = completed();
cause_checkpoint();
ok(wait_for(sub { drains($node) }, 30), 'the wait for the worker is a wait event');
usleep(500_000);
is(completed(), $done, 'the checkpoint waits');
$node->append_conf('postgresql.conf', "pg_calm.drain_timeout = '10ms'");
$node->reload;
ok(wait_for(sub { completed() > $done }, 20), 'a reload ends it');
cmp_ok(slurp_file($log), '!~', qr/PANIC/, 'without an error');

# --- time is bounded

$node->append_conf('postgresql.conf', "pg_calm.drain_timeout = '2s'");
$node->reload;
$done = completed();
cause_checkpoint();
ok(wait_for(sub { completed() > $done }, 30), 'a worker that does not answer holds up no checkpoint for long');

# the last one may have caused two
ok(checkpoints_ended($node), 'no checkpoint is under way');
$node->append_conf('postgresql.conf', "pg_calm.drain_timeout = '100s'");
$node->reload;
$done = completed();
my $began = time;
cause_checkpoint();
ok(wait_for(sub { completed() > $done }, 60), 'nor for a tenth of the time if nothing gets less');
cmp_ok(time - $began, '>', 9, 'but for that');

# --- while it waits: barriers, sync requests, checkpoints that are in a hurry

$node->append_conf('postgresql.conf', "pg_calm.drain_timeout = '1h'");
$node->reload;
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
my $mark = -s $log;
kill 'CONT', $stopped;
$start = time;
$node->safe_psql('postgres', 'DROP DATABASE victim');
cmp_ok(time - $start, '<', 20, 'DROP DATABASE is not held up');

# --- WAL asks for the next checkpoint

ok(checkpoints_ended($node), 'no checkpoint is under way');
$stopped = stop_worker();
$done = completed();
cause_checkpoint();
ok(wait_for(sub { drains($node) }, 30), 'waiting again');
$node->safe_psql('postgres',
	q{SELECT pg_logical_emit_message(false, 'fill', repeat('w', 1000000)) FROM generate_series(1, 70)});
ok(wait_for(sub { completed() > $done }, 20), 'WAL that asks for the next checkpoint ends the wait');
kill 'CONT', $stopped;
ok(checkpoints_ended($node), 'no checkpoint is under way');

# --- one of which nothing is known is as without the module

$node->append_conf('postgresql.conf', 'log_checkpoints = off');
$node->reload;
$stopped = stop_worker();
$node->safe_psql('postgres', 'UPDATE t SET n = n + 1 WHERE id % 7 = 0');
my $asked = start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', 'CHECKPOINT' ]);
my $drained = 0;
wait_for(
	sub {
		$drained ||= drains($node);
		return $drained || !$asked->pumpable;
	});
ok(!$drained, 'without log_checkpoints a checkpoint that is asked for does not wait');
kill 'CONT', $stopped;
$asked->finish;
$node->append_conf('postgresql.conf', 'log_checkpoints = on');
$node->reload;

# --- mode

$stopped = stop_worker();
$done = completed();
cause_checkpoint();
ok(wait_for(sub { drains($node) }, 30), 'waiting again');
$node->append_conf('postgresql.conf', "pg_calm.mode = shadow");
$node->reload;
ok(wait_for(sub { completed() > $done }, 20), 'mode shadow ends the wait');
$node->append_conf('postgresql.conf', "pg_calm.mode = on");
$node->reload;

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
pass('a shutdown does not wait');
$node->start;
is($node->safe_psql('postgres', 'SELECT count(*) FROM t'), 40000, 'the data is there');
$node->stop;

done_testing();

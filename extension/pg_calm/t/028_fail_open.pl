
# What pg_calm leaves out or waits for needs a worker that works and a device
# whose cap is known.  Everything else is as without the module.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use CalmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $node = draining_node('fail_open');
$node->append_conf('postgresql.conf', q{
pg_calm.worker_timeout = '1s'
checkpoint_flush_after = '256kB'
});
$node->start;
scattered_table($node);

sub set
{
	my (@settings) = @_;

	$node->safe_psql('postgres', "ALTER SYSTEM SET $_") foreach @settings;
	$node->reload;
	return;
}

my $cannot = cannot_trace();

sub degraded { return status_of($node)->{degraded} // ''; }

# What a checkpoint of many pages adds to a counter
sub checkpoint_adds
{
	my ($counter) = @_;
	my $before = status_of($node)->{$counter};

	$node->safe_psql('postgres', 'UPDATE t SET n = n + 1 WHERE id % 7 = 0; CHECKPOINT');
	return status_of($node)->{$counter} - $before;
}

# The checkpointer takes settings over before a checkpoint
$node->safe_psql('postgres', 'CHECKPOINT');
cmp_ok(checkpoint_adds('suppressed_hints'), '>', 10, 'hints are dropped with a worker and a cap');
is(degraded(), '', 'nothing is amiss');

# --- no cap, no fsync

my $no_cap = q{no cap of the data directory's device is known: pages are only watched};
foreach my $case (
	[   $no_cap,
		[ 'pg_calm.write_iops = -1',  'pg_calm.write_bandwidth = -1' ],
		[ 'pg_calm.write_iops = 100', "pg_calm.write_bandwidth = '100MB'" ] ],
	[ 'fsync is off: pages are only watched', ['fsync = off'], ['fsync = on'] ])
{
	my ($reason, $off, $on) = @$case;

	set(@$off, "pg_calm.flush_age = '10ms'");
	ok(wait_for(sub { degraded() eq $reason }), "told: $reason");
	$node->safe_psql('postgres', 'CHECKPOINT');
	is(checkpoint_adds('suppressed_hints'), 0, 'there hints are obeyed');
  SKIP:
	{
		skip "the worker can't be watched: $cannot", 1 if $cannot;
		my ($handle, $trace) = trace(status_of($node)->{worker_pid}, '-e', 'trace=sync_file_range,mmap');
		$node->safe_psql('postgres', 'UPDATE t SET n = n + 1 WHERE id % 7 = 0');
		wait_for(sub { region_counts($node, 't') eq 'none' });
		finish_trace($handle);
		unlike(slurp_file($trace), qr/sync_file_range|mmap/, 'the worker flushes nothing, and maps nothing');
	}
	set(@$on, "pg_calm.flush_age = '1h'");
	ok(wait_for(sub { degraded() eq '' }), 'it flushes again');
	$node->safe_psql('postgres', 'CHECKPOINT');
}

# --- files that are not tracked: of another device

SKIP:
{
	my $place = '/dev/shm';
	skip "hints can't be seen: $cannot", 3 if $cannot;
	skip "$place is not there, or on the data directory's device", 3
	  if !-w $place || (stat $place)[0] == (stat $node->data_dir)[0];
	my $directory = File::Temp::tempdir('pg_calm.XXXXXX', DIR => $place, CLEANUP => 1);
	$node->safe_psql('postgres', "CREATE TABLESPACE other LOCATION '$directory'");
	$node->safe_psql('postgres', q{
CREATE TABLE elsewhere TABLESPACE other AS SELECT i, repeat('x', 1900) FROM generate_series(1, 2000) i});
	is(region_counts($node, 'elsewhere'), 'none', 'a file on another device is not tracked');
	cmp_ok(hints_obeyed($node, 'elsewhere'), '>', 0, 'its hints are obeyed');
	like(degraded(), qr/^files on other devices than the data directory's are left as without pg_calm$/,
		'and that is named');
	$node->safe_psql('postgres', 'DROP TABLE elsewhere');
	$node->safe_psql('postgres', 'CHECKPOINT; DROP TABLESPACE other');
	$node->restart;
}

# --- a worker that hangs

$node->safe_psql('postgres', 'CHECKPOINT');
cmp_ok(checkpoint_adds('suppressed_hints'), '>', 10, 'hints are dropped');
my $worker = status_of($node)->{worker_pid};
kill 'STOP', $worker;
ok(wait_for(sub { degraded() =~ /^the writeback worker does not respond/ }), 'a worker that hangs is named');
is(checkpoint_adds('suppressed_hints'), 0, 'hints are obeyed');

my $done = checkpoints_completed($node);
$node->safe_psql('postgres', 'UPDATE t SET n = n + 1 WHERE id % 7 = 0');
my $asked = begin_checkpoint($node);
my $drained = 0;
ok(wait_for(sub { $drained += drains($node); return checkpoints_completed($node) > $done }, 30),
	'a checkpoint ends');
$asked->finish;
is($drained, 0, 'without a wait for it');
is($node->safe_psql('postgres',
		'SELECT drain_time IS NULL FROM pg_calm_checkpoints ORDER BY id DESC LIMIT 1'),
	't', 'as its report says');
kill 'CONT', $worker;
ok(wait_for(sub { degraded() eq '' }), 'it goes on');
ok(checkpoints_ended($node), 'no checkpoint is under way');
cmp_ok(checkpoint_adds('suppressed_hints'), '>', 10, 'and hints are dropped again');

# --- a file that can't be opened

$node->append_conf('postgresql.conf', "checkpoint_flush_after = 0\n");
$node->restart;
$node->safe_psql('postgres', 'CHECKPOINT');
my $file = $node->data_dir . '/' . $node->safe_psql('postgres', q{SELECT pg_relation_filepath('t')});
my $mark = -s $node->logfile;
# who writes has it open
my $session = $node->background_psql('postgres');
$session->query_until(qr/ready/, "UPDATE t SET n = n + 1 WHERE id = 1;\n\\echo ready\n");
chmod 0, $file or die;
$session->query_until(qr/done/, "INSERT INTO t SELECT 1000000 + i, 0, repeat('x', 1900) FROM generate_series(1, 2000) i;\n\\echo done\n");
$node->safe_psql('postgres', q{ALTER SYSTEM SET pg_calm.flush_age = '10ms'});
$node->reload;
ok(wait_for(sub { slurp_file($node->logfile, $mark) =~ /LOG:  pg_calm: could not open file ".*": Permission denied/ }),
	'a file that can not be opened is told');
chmod 0600, $file or die;
$session->quit;
$node->safe_psql('postgres', 'ALTER SYSTEM RESET pg_calm.flush_age');
$node->safe_psql('postgres', 'CHECKPOINT');

# --- a file system that writes at close

SKIP:
{
	skip 'PG_CALM_REMOTE_FILESYSTEM is not set: see test/run_tests.sh', 3
	  unless $ENV{PG_CALM_REMOTE_FILESYSTEM};
	$node->stop;
	{
		local $ENV{LD_PRELOAD} = $ENV{PG_CALM_REMOTE_FILESYSTEM};
		$node->start;
	}
	like(degraded(), qr/^the data directory is on a network or FUSE file system/, 'one that writes at close is named');
	is(checkpoint_adds('suppressed_hints'), 0, 'hints are obeyed there');
	is(region_counts($node, 't'), 'none', 'and nothing is tracked, which would be opened');
}

$node->stop;
done_testing();

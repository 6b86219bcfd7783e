
# Who sees a writeback error first, and who is stopped or killed right then:
# whatever the order, no checkpoint completes.  Once as the kernel has it, with
# cachestat, and once without, where the worker waits for writeback and takes
# the error away from whoever comes later.  The errors are injected by strace;
# real ones, in random order, are the subject of bench/torture-errors.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use CalmTest;
use IPC::Run qw(start);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $why = cannot_trace();
plan skip_all => $why if $why;

my $node = calm_node('error_races', q{
pg_calm.flush_age = '1h'
pg_calm.write_iops = 1000
pg_calm.write_bandwidth = '100MB'
});
$node->start;
$node->safe_psql(
	'postgres', q{
CREATE EXTENSION pg_calm;
CREATE TABLE load (id int PRIMARY KEY, filler text);
ALTER TABLE load ALTER filler SET STORAGE PLAIN;
INSERT INTO load SELECT i, repeat('x', 7000) FROM generate_series(1, 200) i;
CREATE TABLE other AS SELECT i FROM generate_series(1, 1000) i;
CHECKPOINT});

my $rows = 200;
my $log;

# Held by strace at the end of a system call, not just passing through one; strace itself
# may have to wait for a processor
sub is_held
{
	my ($pid) = @_;

	foreach (1 .. 15)
	{
		return 0 if slurp_file("/proc/$pid/stat") !~ /\) t /;
		usleep(20_000);
	}
	return 1;
}

# A page to flush, and a worker that is held for some seconds after its call
# number $when has failed, or has not if $error is '', before it knows.  Returns its pid and the handle of strace.
sub hold_worker
{
	my ($name, $when, $seconds, $error) = @_;

	$error //= ':error=EIO';
	$node->safe_psql('postgres', 'CHECKPOINT');
	my $worker = status_of($node)->{worker_pid};
	$log = -s $node->logfile;
	my ($handle) = trace($worker, '-e', 'trace=sync_file_range', '-e',
		"inject=sync_file_range$error:when=$when:delay_exit=" . $seconds * 1_000_000);
	$node->safe_psql(
		'postgres', q{
INSERT INTO load SELECT max(id) + 1, repeat('x', 7000) FROM load;
ALTER SYSTEM SET pg_calm.flush_age = '10ms'});
	$rows++;
	$node->reload;
	ok(wait_for(sub { is_held($worker) }), "$name: the worker is held");
	return ($worker, $handle);
}

# The server crashes without a checkpoint, and recovers with all rows
sub recovers
{
	my ($name, $expected, $handle) = @_;

	ok($node->wait_for_log(qr/database system is ready to accept connections/, $log),
		"$name: the server recovers");
	$handle->finish;
	my $text = slurp_file($node->logfile, $log);
	# what the recovery itself does may complete
	$text =~ s/all server processes terminated; reinitializing.*//s;
	like($text, $expected, "$name: how it ended");
	unlike($text, qr/checkpoint complete/, "$name: no checkpoint completed");
	$node->poll_query_until('postgres', 'SELECT true') or die 'timed out';
	is($node->safe_psql('postgres', 'SELECT count(*) FROM load'), $rows, "$name: no row is lost");
	$node->safe_psql('postgres', 'ALTER SYSTEM RESET pg_calm.flush_age');
	$node->reload;
	# a new worker, which has read its settings
	wait_for(sub { status_of($node)->{worker_pid} });
	usleep(200_000);
	return;
}

sub races
{
	my ($mode, $when) = @_;
	my ($name, $worker, $handle, $result, $start);
	my $panic = qr/PANIC:  .*: Input\/output error/;

	# the checkpoint is there first and waits
	$name = "$mode: checkpoint waits for a stopped worker";
	($worker, $handle) = hold_worker($name, $when, 1.5);
	$start = time;
	$result = $node->psql('postgres', 'CHECKPOINT');
	isnt($result, 0, "$name, and fails");
	cmp_ok(time - $start, '>', 0.5, "$name for as long as it takes");
	recovers($name, $panic, $handle);

	# killed before it could tell
	$name = "$mode: worker killed before it could tell";
	($worker, $handle) = hold_worker($name, $when, 4);
	my ($out, $err) = ('', '');
	my $checkpoint = start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', 'CHECKPOINT' ],
		'>', \$out, '2>', \$err);
	usleep(300_000);
	ok(runs($checkpoint), "$name: the checkpoint is waiting");
	kill 'KILL', $worker;
	$checkpoint->finish;
	recovers($name, qr/worker" \(PID $worker\) was terminated by signal 9/, $handle);

	# asked to end: it tells first
	$name = "$mode: worker terminated before it could tell";
	($worker, $handle) = hold_worker($name, $when, 1);
	kill 'TERM', $worker;
	isnt($node->psql('postgres', 'CHECKPOINT'), 0, "$name: no checkpoint");
	recovers($name, $panic, $handle);

	# what a call may have seen is of its file: another one's fsync does not wait for it
  SKIP:
	{
		skip 'no fsync in CREATE INDEX since 17', 6 if $node->pg_version >= 17;
		$name = "$mode: fsync of another file";
		($worker, $handle) = hold_worker($name, $when, 5);
		is($node->psql('postgres', 'CREATE INDEX ON other (i)'), 0, "$name does not wait");
		ok(is_held($worker), "$name: the worker is held yet");
		isnt($node->psql('postgres', 'CHECKPOINT'), 0, "$name: no checkpoint");
		recovers($name, $panic, $handle);
	}

	# not known for too long: no success, and no end of waiting, either
	$name = "$mode: call that does not end";
	$node->safe_psql('postgres', q{ALTER SYSTEM SET pg_calm.worker_timeout = '1s'});
	($worker, $handle) = hold_worker($name, $when, 40, '');
	isnt($node->psql('postgres', 'CHECKPOINT'), 0, "$name: the checkpoint fails");
	recovers($name, qr/is stopped in a call for a file.*PANIC:  could not fsync file .*: Input\/output error/s, $handle);
	$node->safe_psql('postgres', 'ALTER SYSTEM RESET pg_calm.worker_timeout');
	$node->reload;

	# the checkpointer is in its fsync already when the worker's call begins, and
	# leaves it, with success, before the worker's call has ended
	$name = "$mode: error between the start and the end of an fsync";
	$node->safe_psql('postgres', 'CHECKPOINT; UPDATE load SET filler = filler WHERE id < 10');
	my ($slow) = trace(process_id($node, 'checkpointer'), '-e', 'trace=fsync', '-e', 'inject=fsync:delay_enter=200000');
	$checkpoint = start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', 'CHECKPOINT' ],
		'>', \$out, '2>', \$err);
	usleep(100_000);
	$worker = status_of($node)->{worker_pid};
	$log = -s $node->logfile;
	($handle) = trace($worker, '-e', 'trace=sync_file_range', '-e',
		"inject=sync_file_range:error=EIO:when=$when:delay_exit=3000000");
	$node->safe_psql(
		'postgres', q{
INSERT INTO load SELECT max(id) + 1, repeat('x', 7000) FROM load;
ALTER SYSTEM SET pg_calm.flush_age = '10ms'});
	$rows++;
	$node->reload;
	$checkpoint->finish;
	isnt($checkpoint->result(0), 0, "$name: the checkpoint fails");
	recovers($name, $panic, $handle);
	$slow->finish;

	# the checkpointer sees it first, while the worker is in a call
	$name = "$mode: fsync of the checkpointer";
	$node->safe_psql('postgres', q{CHECKPOINT; UPDATE other SET i = i + 1 WHERE i < 10});
	$log = -s $node->logfile;
	($handle) = trace(process_id($node, 'checkpointer'), '-y', '-e', 'trace=fsync', '-e', 'inject=fsync:error=EIO');
	isnt($node->psql('postgres', 'CHECKPOINT'), 0, "$name fails");
	recovers($name, qr/PANIC:  could not fsync file .*: Input\/output error/, $handle);

	# what that setting relies on is not true of Linux
	$name = "$mode: data_sync_retry";
	$node->append_conf('postgresql.conf', "data_sync_retry = on\n");
	$node->restart;
	($worker, $handle) = hold_worker($name, $when, 1);
	isnt($node->psql('postgres', 'CHECKPOINT'), 0, "$name: the checkpoint fails all the same");
	recovers($name, $panic, $handle);
	$node->append_conf('postgresql.conf', "data_sync_retry = off\n");
	$node->restart;
	return;
}

# The worker's calls while it flushes so many pages that follow each other
sub calls
{
	my ($pages) = @_;
	my ($handle, $file) = trace(status_of($node)->{worker_pid}, '-e', 'trace=sync_file_range');

	$node->safe_psql(
		'postgres', qq{
INSERT INTO load SELECT last + i, repeat('x', 7000)
  FROM (SELECT max(id) AS last FROM load) l, generate_series(1, $pages) i;
ALTER SYSTEM SET pg_calm.flush_age = '10ms'});
	$rows += $pages;
	$node->reload;
	wait_for(sub { slurp_file($file) =~ /sync_file_range/ });
	usleep(300_000);
	finish_trace($handle);
	$node->safe_psql('postgres', 'ALTER SYSTEM RESET pg_calm.flush_age');
	$node->reload;
	return slurp_file($file);
}

# Their flags, for one page
sub flags
{
	return join ' ', calls(1) =~ /(SYNC_FILE_RANGE_\w+)\)/g;
}

my $flags = flags();

# the fsync of a file waits for a call that is under way
my @lengths = sort { $b <=> $a } calls(3000) =~ /, (\d+), SYNC_FILE_RANGE_WRITE/g;
is($lengths[0], 256 * 1024, 'of many pages no call starts more than 256 kB');

SKIP:
{
	skip 'the kernel has no cachestat', 1 if $flags =~ /WAIT/;
	like($flags, qr/^(SYNC_FILE_RANGE_WRITE ?)+$/, 'with cachestat no call takes an error away');
	races('cachestat', 1);
}

SKIP:
{
	$node->stop;
	$why = deny_cachestat();
	skip "cachestat can't be refused: $why", 1 if $why;
	unlike(slurp_file($node->logfile), qr/cachestat\(\) is not/, 'nothing is said of cachestat where it is had')
	  unless $flags =~ /WAIT/;
	$node->start;
	like(slurp_file($node->logfile), qr/LOG:  pg_calm: cachestat\(\) is not to be had/, 'the log says that it is not had');
	like(
		flags(),
		qr/^SYNC_FILE_RANGE_WRITE.* SYNC_FILE_RANGE_WAIT_BEFORE$/,
		'without cachestat the worker waits for what it started');
	# the second call is the one that waits
	races('no cachestat', 2);

	# as what a device does not support (BLK_STS_NOTSUPP), and as a call that the kernel lacks
	my (undef, $handle) = hold_worker('wait', 2, 1, ':error=EOPNOTSUPP');
	isnt($node->psql('postgres', 'CHECKPOINT'), 0, 'a wait that fails as a missing call does has failed');
	recovers('wait', qr/PANIC:  .*: Operation not supported/, $handle);
}

$node->stop;
command_ok([ 'pg_checksums', '--check', '-D', $node->data_dir ], 'checksums are right');

# --- a device that takes its time is no reason to end: stock's fsync waits for it, too

SKIP:
{
	skip 'PG_CALM_SLOW_FDATASYNC is not set: see test/run_tests.sh', 6 unless $ENV{PG_CALM_SLOW_FDATASYNC};
	$node = calm_node('slow_call', q{
pg_calm.flush_age = '10ms'
pg_calm.write_iops = 1000
pg_calm.write_bandwidth = '100MB'
pg_calm.worker_timeout = '1s'
checkpoint_flush_after = 0
});
	{
		local $ENV{LD_PRELOAD} = $ENV{PG_CALM_SLOW_FDATASYNC};
		local $ENV{BUSY_SYNC_FILE_RANGE_US} = 3_000_000;
		$node->start;
	}
	$node->safe_psql('postgres', q{CREATE EXTENSION pg_calm; CREATE TABLE load (id int, filler text); CHECKPOINT});
	$node->safe_psql('postgres', q{INSERT INTO load SELECT i, repeat('x', 1000) FROM generate_series(1, 1300) i});
	ok(wait_for(sub { status_of($node)->{in_flight_pages} > 0 }), 'the worker is in a call that takes long');
	is($node->psql('postgres', 'CHECKPOINT'), 0, 'a checkpoint waits for it');

	# nor is somebody's SIGSTOP: the fsync has the worker go on
	$node->safe_psql('postgres', q{INSERT INTO load SELECT i, repeat('x', 1000) FROM generate_series(1, 1300) i});
	ok(wait_for(sub { status_of($node)->{in_flight_pages} > 0 }), 'the worker is in a call once more');
	kill 'STOP', status_of($node)->{worker_pid};
	is($node->psql('postgres', 'CHECKPOINT'), 0, 'a checkpoint has a stopped worker go on');
	unlike(slurp_file($node->logfile), qr/PANIC/, 'and nothing ends');
	$node->stop;

	# nor is a worker that waits for a processor, as in a container that has used up its own, one that finds nothing
	{
		local $ENV{LD_PRELOAD} = $ENV{PG_CALM_SLOW_FDATASYNC};
		local $ENV{SLOW_CLOCK_US} = 10_000;
		$node->start;
	}
	$node->safe_psql('postgres', q{INSERT INTO load SELECT i, repeat('x', 1000) FROM generate_series(1, 1300) i});
	ok(wait_for(sub { status_of($node)->{flushed_pages} > 0 }, 30), 'a look at the map that waits finds something all the same');
	$node->stop;
}

done_testing();

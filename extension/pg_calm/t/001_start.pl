
# Start, stop and modes of the module, with and without what it needs.

use strict;
use warnings;

use File::Temp qw(tempdir);
use FindBin;
use lib $FindBin::RealBin;

use CalmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $node = calm_node('start', "checkpoint_flush_after = 256kB\nmax_wal_size = 4GB\n");
my ($result, $stdout, $stderr);

# --- not preloaded

$node->append_conf('postgresql.conf', "shared_preload_libraries = ''\n");
$node->start;
foreach my $command ("LOAD 'pg_calm'", 'CREATE EXTENSION pg_calm')
{
	($result, $stdout, $stderr) = $node->psql('postgres', $command);
	like(
		$stderr,
		qr/ERROR:  pg_calm must be loaded via "shared_preload_libraries"\nHINT:  Add pg_calm to "shared_preload_libraries"/,
		"$command without preloading is refused with a hint");
}
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'pg_calm'\n");
$node->restart;

# --- preloaded

$node->safe_psql('postgres', 'CREATE EXTENSION pg_calm');
my $status = status_of($node);
is($status->{mode}, 'on', 'mode is on by default');
is($status->{degraded}, undef, 'nothing is amiss');
is($status->{write_iops}, undef, 'no caps');
is($status->{errors}, 0, 'no errors');
like(slurp_file("/proc/$status->{worker_pid}/cmdline"),
	qr/pg_calm writeback worker/, 'worker_pid is the worker');

# Dirty 1500 pages and more, and return what one checkpoint adds to the status
sub checkpoint_difference
{
	my $before = status_of($node);

	$node->safe_psql(
		'postgres', q{
DROP TABLE IF EXISTS hints;
CREATE TABLE hints AS SELECT i, repeat('x', 1900) FROM generate_series(1, 6000) i;
CHECKPOINT});
	my $after = status_of($node);
	my %difference;
	foreach my $counter (grep { /_pages|errors|operations|_bytes|_hints/ } keys %$after)
	{
		$difference{$counter} = $after->{$counter} - $before->{$counter};
	}
	return \%difference;
}

my $difference = checkpoint_difference();
cmp_ok($difference->{flushed_pages} + $difference->{fsynced_pages},
	'>=', 1500, 'pages are flushed in mode on');
cmp_ok($difference->{device_operations}, '>', 0, 'operations are counted');
cmp_ok($difference->{written_bytes}, '>=', 1500 * 8192, 'bytes are counted');
cmp_ok($difference->{suppressed_hints}, '>', 10, 'flush hints are dropped in mode on');
is(region_counts($node, 'hints'), 'none', 'nothing is unflushed after the checkpoint');

foreach my $mode ('shadow', 'off')
{
	$node->safe_psql('postgres', "ALTER SYSTEM SET pg_calm.mode = '$mode'");
	$node->reload;
	$node->poll_query_until('postgres', "SELECT mode = '$mode' FROM pg_calm_status")
	  or die 'timed out';
	# the checkpointer takes the setting over when it next wakes up
	$node->safe_psql('postgres', 'CHECKPOINT');
	$difference = checkpoint_difference();
	is($difference->{suppressed_hints}, 0, "flush hints are left alone in mode $mode");
	is($difference->{bridged_pages}, 0, "nothing is bridged in mode $mode");
	if ($mode eq 'shadow')
	{
		cmp_ok($difference->{flushed_pages} + $difference->{fsynced_pages},
			'>=', 1500, 'what would be flushed is counted in mode shadow');
	}
	else
	{
		is($difference->{flushed_pages} + $difference->{fsynced_pages},
			0, 'nothing is counted in mode off');
		is(region_counts($node, 'hints'), 'none', 'nothing is tracked in mode off');
	}
}

# The worker sleeps for a second
sub rests
{
	my ($name) = @_;

  SKIP:
	{
		my $why = cannot_trace();
		skip $why, 1 if $why;
		my ($handle, $trace) =
		  trace(status_of($node)->{worker_pid}, '-e', 'trace=epoll_wait,epoll_pwait');
		ok(wait_for(sub { slurp_file($trace) =~ /^epoll_p?wait\(.*\b1000\b/m }, 30), $name);
		finish_trace($handle);
	}
	return;
}

# --- mode changes under load

$node->safe_psql(
	'postgres', q{
CREATE TABLE load (id int PRIMARY KEY, n int, filler text) WITH (fillfactor = 70);
INSERT INTO load SELECT i, 0, repeat('x', 400) FROM generate_series(1, 20000) i;
ALTER SYSTEM SET shared_buffers = '2MB';
ALTER SYSTEM SET pg_calm.flush_age = '100ms';
ALTER SYSTEM SET pg_calm.write_iops = 1000;
ALTER SYSTEM SET pg_calm.write_bandwidth = '100MB';
});
$node->restart;
my $load = start_load($node, 'load', 20000, 800, 600);
my $wrong = 0;
foreach my $round (1 .. 4)
{
	foreach my $mode ('off', 'shadow', 'on')
	{
		$node->safe_psql('postgres', "ALTER SYSTEM SET pg_calm.mode = '$mode'");
		$node->reload;
		$wrong++
		  unless wait_for(sub { status_of($node)->{mode} eq $mode });
		$node->safe_psql('postgres', 'CHECKPOINT') if $round == 2;
	}
}
is($wrong, 0, 'the mode changes with every reload');
my $start = status_of($node)->{flushed_pages};
ok(wait_for(sub { status_of($node)->{flushed_pages} > $start + 50 }),
	'in mode on the worker flushes what is old enough');

$node->safe_psql('postgres', q{ALTER SYSTEM SET pg_calm.mode = 'off'});
$node->reload;
ok( wait_for(
		sub {
			my $first = status_of($node);
			sleep 1;
			my $second = status_of($node);
			return $second->{flushed_pages} == $first->{flushed_pages}
			  && $second->{in_flight_pages} == 0;
		}),
	'in mode off the worker comes to rest');
my $resting = status_of($node)->{worker_pid};
ok( wait_for(sub { !grep { m{/base/\d+/\d} } map { readlink($_) // '' } glob("/proc/$resting/fd/*") }, 20),
	'and has no file of a table open, which may be dropped');
rests('nor wakes up more than once a second');

# to count is in no hurry
$node->safe_psql('postgres', q{ALTER SYSTEM SET pg_calm.mode = 'shadow'});
$node->reload;
ok(wait_for(sub { status_of($node)->{mode} eq 'shadow' }), 'in mode shadow');
rests('nor does it in mode shadow, under load');
ok(runs($load), 'the load went on all the time');
$load->signal('INT');
$load->finish;
is( $node->safe_psql('postgres', 'SELECT count(*), sum(n) > 0 FROM load'),
	'20000|t', 'the load changed rows, and they are all there');
$node->safe_psql('postgres', q{ALTER SYSTEM SET pg_calm.mode = 'on'});
$node->reload;
$node->safe_psql('postgres', 'CHECKPOINT');
rests('nor on a server that has nothing to do');
$node->safe_psql('postgres', 'ALTER SYSTEM RESET ALL');
$node->restart;

# --- the worker ends

my $worker = status_of($node)->{worker_pid};
kill 'TERM', $worker;
ok(wait_for(sub { (status_of($node)->{degraded} // '') eq 'the writeback worker is not running' }),
	'a missing worker is reported');
is(status_of($node)->{worker_pid}, undef, 'and has no process ID');
is(checkpoint_difference()->{suppressed_hints}, 0, 'without it flush hints are left alone');
ok(wait_for(sub { (status_of($node)->{worker_pid} // $worker) != $worker }),
	'the worker comes back');
is(status_of($node)->{degraded}, undef, 'and nothing is amiss any more');
cmp_ok(checkpoint_difference()->{suppressed_hints}, '>', 10, 'flush hints are dropped again');

# --- a filesystem on which gaps must not be bridged

SKIP:
{
	skip '/dev/shm is no tmpfs', 2 if `stat -f -c %T /dev/shm 2>/dev/null` !~ /tmpfs/;
	my $shm = tempdir(DIR => '/dev/shm', CLEANUP => 1);
	my $base = $node->data_dir . '/base';

	# all data files, since those of a tablespace on another device are left alone
	$node->append_conf('postgresql.conf', "pg_calm.flush_age = '100ms'");
	$node->stop;
	system_or_bail('cp', '-a', $base, "$shm/base");
	rename($base, "$base.away") && symlink("$shm/base", $base) or die "could not link: $!";
	$node->start;
	$node->safe_psql('postgres', 'CREATE TABLE in_memory AS SELECT i FROM generate_series(1, 1000000) i');
	ok( wait_for(
			sub {
				$node->safe_psql('postgres', 'UPDATE in_memory SET i = i + 1 WHERE i % 1000 = 0; CHECKPOINT');
				(status_of($node)->{degraded} // '') =~
				  /^gaps are not bridged: the file system \(type 0x1021994\) is not known to overwrite in place$/;
			},
			30),
		'the status says that bridging is refused');
	like(
		slurp_file($node->logfile),
		qr{LOG:  pg_calm: gaps are not bridged: the file system \(type 0x1021994\)},
		'and the log');
	$node->safe_psql('postgres', 'DROP TABLE in_memory');
	$node->stop;
	unlink($base) or die "could not unlink: $!";
	system_or_bail('rm', '-r', "$base.away");
	system_or_bail('cp', '-a', "$shm/base", $base);
	$node->start;
}

# --- stop

foreach my $mode ('immediate', 'fast')
{
	$worker = status_of($node)->{worker_pid};
	$node->safe_psql('postgres',
		'CREATE TABLE IF NOT EXISTS busy AS SELECT i FROM generate_series(1, 100000) i');
	$node->stop($mode);
	ok(!kill(0, $worker), "stop -m $mode ends the worker");
	$node->start;
}
is($node->safe_psql('postgres', 'SELECT count(*) FROM busy'), '100000', 'data is there');
$node->stop;

# --- the import table can't be changed

SKIP:
{
	skip 'PG_CALM_DENY_MPROTECT is not set: see test/run_tests.sh', 8
	  unless $ENV{PG_CALM_DENY_MPROTECT};
	# without it nothing is read-only, and mprotect not called
	skip 'the server is not linked with -z relro -z now', 8
	  if `readelf -dW "\$(pg_config --bindir)/postgres"` !~ /\bNOW\b|BIND_NOW/;

	my $log = -s $node->logfile;
	{
		local $ENV{LD_PRELOAD} = $ENV{PG_CALM_DENY_MPROTECT};
		$node->start;
	}
	$status = status_of($node);
	like(
		$status->{degraded},
		qr/^could not make the import table writable: Permission denied$/,
		'the reason is shown');
	is($status->{worker_pid}, undef, 'there is no worker');
	my $postmaster = (split /\n/, slurp_file($node->data_dir . '/postmaster.pid'))[0];
	unlike(`ps --no-headers -o args --ppid $postmaster`, qr/pg_calm/, 'nor any other process of ours');
	$difference = checkpoint_difference();
	is($difference->{flushed_pages} + $difference->{fsynced_pages} + $difference->{suppressed_hints},
		0, 'nothing is done');
	is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_calm_regions()'), 0, 'nothing is tracked');
	is($node->safe_psql('postgres', 'SELECT count(*) FROM hints'), '6000', 'the server works');
	$node->stop;
	my @warnings = grep { /WARNING/ } split /\n/, slurp_file($node->logfile, $log);
	is(scalar(@warnings), 1, 'there is one warning');
	like(
		$warnings[0] // '',
		qr/WARNING:  pg_calm is loaded but has no effect: could not make the import table writable/,
		'which says what is wrong');
}

# --- without the environment of a test, the server has none of a test's settings
{
	local %ENV = %ENV;
	my $name = 'pg_calm.flush_age';
	my $log = -s $node->logfile;
	my ($result, undef, $error);

	$node->append_conf('postgresql.conf', "$name = '100ms'\n");
	$node->start;
	is(slurp_file($node->logfile, $log) =~ /LOG:  pg_calm: under test: PG_CALM_HOST_ROOT is/ ? 1 : 0, 1,
		'a server under test says so');
	is($node->safe_psql('postgres', "SHOW $name"), '100ms', 'and can be set to what a test needs');
	$node->stop;
	delete $ENV{PG_CALM_HOST_ROOT};
	$log = -s $node->logfile;
	$node->start;
	unlike(slurp_file($node->logfile, $log), qr/under test/, 'an ordinary one is not under test');
	($result, undef, $error) = $node->psql('postgres', "SHOW $name");
	like($error, qr/unrecognized configuration parameter "$name"/, 'and has no such setting');
	like(
		slurp_file($node->logfile, $log),
		qr/WARNING:  invalid configuration parameter name "$name"/,
		'but starts with a configuration file that has it');

	# a worker that is silent for the two seconds of docs/internals/data-safety.md
	sub is_silent { return (status_of($node)->{degraded} // '') =~ /does not respond/; }
	usleep(3_000_000);
	ok(!is_silent(), 'a worker with nothing to do is heard of');
	my $silent = status_of($node)->{worker_pid};
	kill 'STOP', $silent;
	ok(wait_for(\&is_silent, 10), 'one that is stopped is given up in a few seconds');
	kill 'CONT', $silent;
	ok(wait_for(sub { !is_silent() }, 30), 'until it goes on');
	$node->stop;
}

done_testing();

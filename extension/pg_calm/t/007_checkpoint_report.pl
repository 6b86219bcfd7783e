
# Reports of checkpoints, compared with what the server logs, with what strace counts, and
# with delays that it injects.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use CalmTest;
use IPC::Run qw(start);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = calm_node('report', q{
max_wal_size = 4GB
wal_level = logical
max_wal_senders = 4
track_commit_timestamp = on
bgwriter_lru_maxpages = 0
log_checkpoints = on
pg_calm.flush_age = '1h'
});
$node->start;
$node->safe_psql(
	'postgres', q{
CREATE EXTENSION pg_calm;
CREATE TABLE first (i int, n int, filler text);
CREATE TABLE second (i int, n int, filler text);
INSERT INTO first SELECT i, 0, repeat('x', 400) FROM generate_series(1, 2000) i;
INSERT INTO second SELECT i, 0, repeat('x', 400) FROM generate_series(1, 200) i});

# A row of a query, by column name
sub row_of
{
	my ($on, $query) = @_;
	my %row;

	foreach my $pair (
		split /\n/,
		$on->safe_psql('postgres',
			"SELECT key, coalesce(value, '(null)') FROM ($query) q, json_each_text(to_json(q))"))
	{
		my ($key, $value) = split /\|/, $pair, 2;
		$row{$key} = $value eq '(null)' ? undef : $value;
	}
	return \%row;
}

sub last_report
{
	my ($on) = @_;
	return row_of($on // $node,
		'SELECT *, extract(epoch FROM ended - started) * 1000 AS total_time FROM pg_calm_checkpoints ORDER BY id DESC LIMIT 1');
}

sub set
{
	my ($name, $value) = @_;

	$node->safe_psql('postgres', "ALTER SYSTEM SET $name = '$value'");
	$node->reload;
	$node->poll_query_until('postgres', "SELECT current_setting('$name') = '$value'")
	  or die 'timed out';
	# the checkpointer takes it over when it wakes up, which this makes it do
	$node->safe_psql('postgres', 'CHECKPOINT');
	wait_for(sub { last_report()->{status} eq 'complete' }) or die 'timed out';
	return;
}

# Of the server's statistics, in milliseconds
sub server_sync_time
{
	return $node->safe_psql('postgres',
		$node->pg_version >= 17
		? 'SELECT sync_time FROM pg_stat_checkpointer'
		: 'SELECT checkpoint_sync_time FROM pg_stat_bgwriter');
}

# Have something to write of every kind that is written, then checkpoint
my $dirty = q{
BEGIN;
UPDATE first SET n = n + 1;
SAVEPOINT one;
UPDATE second SET n = n + 1;
SAVEPOINT two;
UPDATE second SET n = n + 1;
COMMIT;
BEGIN;
SELECT count(*) FROM (SELECT FROM second WHERE i < 10 FOR SHARE) q;
SAVEPOINT three;
UPDATE second SET n = n + 1 WHERE i < 10;
COMMIT;
};

# --- the first one since the server's start, while it writes

{
	my ($out, $err) = ('', '');
	# that of a base backup takes its time, unlike that of CHECKPOINT
	my $backup = start(
		[
			'psql', '-X', '-h', $node->host, '-p', $node->port, '-c',
			q{SELECT pg_backup_start('slow')}, 'postgres'
		],
		'>',
		\$out,
		'2>',
		\$err);
	my $now;
	ok( wait_for(
			sub {
				$now = last_report();
				return ($now->{status} // '') eq 'running' && ($now->{buffers_written} // 0) > 0;
			},
			60),
		'the first checkpoint shows how far it is');
	is($now->{write_time}, undef, 'which still writes');
	# makes it hurry
	$node->safe_psql('postgres', 'CHECKPOINT');
	$backup->finish;
}

# --- one checkpoint, and what the server logs of it

my ($report, $text, $wrote, $write, $sync, $total, $files, $longest);

# Two clocks are read one after the other: a process that loses its processor in
# between tells another time.  Times that are wrong are so each time.
foreach (1 .. 10)
{
	# the worker would flush some of the pages before they are counted
	wait_for(sub { status_of($node)->{in_flight_pages} == 0 }) or die 'timed out';
	my $worker = status_of($node)->{worker_pid};
	my $log = -s $node->logfile;
	kill 'STOP', $worker;
	$node->safe_psql('postgres', $dirty . 'CHECKPOINT');
	kill 'CONT', $worker;
	$report = last_report();
	$text = slurp_file($node->logfile, $log);
	($wrote, $write, $sync, $total, $files, $longest) = $text =~
	  /checkpoint complete:(?:[a-z -]+:)? wrote (\d+) buffers.*?write=([\d.]+) s, sync=([\d.]+) s, total=([\d.]+) s; sync files=(\d+), longest=([\d.]+)/
	  or last;
	last
	  unless abs($report->{sync_time} - $sync * 1000) > 2 || abs($report->{total_time} - $total * 1000) > 2;
}

is($report->{kind}, 'checkpoint', 'kind');
is($report->{reason}, 'requested', 'reason of a CHECKPOINT command');
is($report->{status}, 'complete', 'status');
like(
	$text,
	qr/^.*LOG:  pg_calm: checkpoint $report->{id} \(requested\): bridged=$report->{bridged_pages} pages, unflushed at sync=$report->{unflushed_pages_at_sync} pages, drain=0.000 s, fsync=[\d.]+ s, slowest=[\d.]+ s \(\Q$report->{slowest_file}\E\)$/m,
	'there is a log line');
is(() = $text =~ /pg_calm: checkpoint/g, 1, 'and no other');
is($report->{files_synced}, $files, 'files synced are as logged');
cmp_ok(abs($report->{sync_time} - $sync * 1000),   '<=', 2, 'so is the time of sync');
cmp_ok(abs($report->{total_time} - $total * 1000), '<=', 2, 'and that of all');
# of the server's write phase the start is left out
cmp_ok($report->{write_time} + 2, '>=', $write * 1000, 'the time of writing is no less');
cmp_ok($report->{write_time} + $report->{sync_time}, '<=', $report->{total_time} + 1, 'and no more than is left');
cmp_ok($report->{fsync_time}, '<=', $report->{sync_time} + 1, 'fsync calls are a part of sync');
is($report->{drain_time}, undef, 'an immediate one is not drained');

# --- what strace sees

SKIP:
{
	my $why = cannot_trace();
	my $data = $node->data_dir;
	my $first = $node->safe_psql('postgres', q{SELECT pg_relation_filepath('first')});
	skip $why, 28 if $why;

	foreach my $mode ('on', 'shadow', 'off')
	{
		set('pg_calm.mode', $mode);
		$node->safe_psql('postgres', $dirty);
		my $log = -s $node->logfile;
		my ($handle, $file) = trace(process_id($node, 'checkpointer'), '-y', '-e', 'trace=fsync,pwrite64');
		$node->safe_psql('postgres', 'CHECKPOINT');
		finish_trace($handle);
		my @fsyncs = grep { /^fsync/ } split /\n/, slurp_file($file);
		my @pages = grep { m{^pwrite64\(\d+<[^>]*/(base|global)/} } split /\n/, slurp_file($file);
		my $data_files = grep { m{/(base|global)/(?!pg_control)[\w/]+>} } @fsyncs;
		my $slru_files = grep { m{/pg_(xact|commit_ts|multixact/\w+)/\w+>} } @fsyncs;

		$report = last_report();
		is($report->{files_synced}, $data_files + $slru_files, "mode $mode: files synced are those that strace sees");
		is($report->{buffers_written}, scalar(@pages), 'buffers written too');
		is(slurp_file($node->logfile, $log) =~ /pg_calm: checkpoint/ ? 1 : 0,
			$mode eq 'off' ? 0 : 1, 'there is a log line but in mode off');
		if ($mode eq 'off')
		{
			is($report->{unflushed_pages_at_sync}, undef, 'nothing is known to be unflushed');
		}
		else
		{
			cmp_ok($report->{unflushed_pages_at_sync}, '>', 0, 'unflushed pages are known');
		}
	}
	set('pg_calm.mode', 'on');

	# --- a second that passes in a known place is found in its column

	foreach my $place (
		[ 'write_time', 'fsync',    'pg_xact' ],
		[ 'write_time', 'pwrite64', $first ],
		[ 'sync_time',  'fsync',    $first ])
	{
		my ($column, $call, $path) = @$place;

		$node->safe_psql('postgres', $dirty);
		my ($handle) = trace(process_id($node, 'checkpointer'), '-P', "$data/$path",
			'-e', "inject=$call:delay_enter=1000000:when=1");
		$node->safe_psql('postgres', 'CHECKPOINT');
		finish_trace($handle);
		$report = last_report();
		cmp_ok($report->{$column}, '>=', 1000, "$column has the delay of $call($path)");
		next if $column ne 'sync_time';
		is($report->{slowest_file}, $path, 'it is the slowest file');
		cmp_ok($report->{slowest_file_time}, '>=', 1000, 'whose time is known');
		cmp_ok($report->{fsync_time},        '>=', 1000, 'and is a part of fsync_time');
	}

	# --- failure

	$node->safe_psql('postgres', $dirty);
	my ($handle) =
	  trace(process_id($node, 'checkpointer'), '-P', "$data/$first", '-e', 'inject=pwrite64:error=ENOSPC:when=1');
	my ($result, $stdout, $stderr) = $node->psql('postgres', 'CHECKPOINT');
	finish_trace($handle);
	like($stderr, qr/checkpoint request failed/, 'a checkpoint fails');
	ok(wait_for(sub { last_report()->{status} eq 'failed' }), 'and is reported as failed');
	is(last_report()->{ended}, undef, 'without an end');
	$node->safe_psql('postgres', 'CHECKPOINT');
	is(last_report()->{status}, 'complete', 'the next one is complete');
}

# --- caused by WAL

set('max_wal_size', '32MB');
set('checkpoint_completion_target', '0.9');
$node->safe_psql('postgres', $dirty);
my $before = last_report()->{id};
foreach (1 .. 8)
{
	$node->safe_psql('postgres',
		q{SELECT pg_logical_emit_message(false, 'calm', repeat('x', 4000000)); SELECT pg_switch_wal()});
}
ok( wait_for(
		sub {
			$node->safe_psql('postgres',
				"SELECT count(*) FROM pg_calm_checkpoints WHERE id > $before AND reason = 'wal'") > 0;
		}),
	'a checkpoint caused by WAL says so');
set('max_wal_size', '4GB');
ok(wait_for(sub { last_report()->{status} eq 'complete' }), 'it is completed');

# --- drain, which nobody helps with: it takes as long as it may, however long that is

set('checkpoint_completion_target', '0.01');
set('pg_calm.drain_threshold',      '0');
set('pg_calm.drain_timeout',        '8s');
set('max_wal_size',                 '64MB');
wait_for(sub { status_of($node)->{in_flight_pages} == 0 }) or die 'timed out';
my $worker = status_of($node)->{worker_pid};
$before = last_report()->{id};
my $log = -s $node->logfile;
my $sync_time = server_sync_time();
kill 'STOP', $worker;
my $seen = begun_by_wal($node);
$node->safe_psql('postgres', $dirty);
fill_wal($node, $seen);
my $drained = "SELECT * FROM pg_calm_checkpoints WHERE id > $before AND drain_time IS NOT NULL AND status = 'complete' LIMIT 1";
ok(wait_for(sub { defined row_of($node, $drained)->{id} }), 'a checkpoint with a drain');
kill 'CONT', $worker;
$report = row_of($node, $drained);
cmp_ok($report->{drain_time}, '>', 0, 'the wait is drain_time');
cmp_ok($report->{drain_time} + $report->{fsync_time}, '<=', $report->{sync_time} + 1,
	'drain_time and fsync_time are parts of sync_time');
# the server's own figures are what the server has measured, which waited
ok( slurp_file($node->logfile, $log) =~
	  /pg_calm: checkpoint $report->{id} \(\w+\): .*, drain=([\d.]+) s, fsync=([\d.]+) s.*\n(?:.*\n)*?.*checkpoint complete: .*?sync=([\d.]+) s, total=/,
	'both log it');
my ($drain, $fsync);
($drain, $fsync, $sync) = ($1, $2, $3);
# each is rounded, or cut, to milliseconds
cmp_ok($sync + 0.002, '>=', $drain + $fsync, 'the server\'s sync phase has the drain and the fsync calls in it');
cmp_ok(abs($sync * 1000 - $report->{sync_time}), '<=', 300, 'sync_time is the server\'s');
cmp_ok(abs($report->{drain_time} - $drain * 1000), '<=', 1, 'drain_time is in our line');
cmp_ok(abs($report->{fsync_time} - $fsync * 1000), '<=', 1, 'so is fsync_time');
ok(wait_for(sub { server_sync_time() - $sync_time >= $report->{drain_time} }),
	'the drain is in the time of sync in the statistics');
set('max_wal_size', '4GB');

# --- without log_checkpoints

set('log_checkpoints', 'off');
$log = -s $node->logfile;
$node->safe_psql('postgres', $dirty . 'CHECKPOINT');
$report = last_report();
is($report->{reason}, 'unknown', 'the reason is not known without log_checkpoints');
is($report->{status}, 'complete', 'the rest is');
isnt($report->{ended}, undef, 'and the end');
cmp_ok($report->{buffers_written}, '>', 0, 'and the buffers');
is($report->{drain_time}, undef, 'one of which nothing is known does not wait');
unlike(slurp_file($node->logfile, $log), qr/pg_calm: checkpoint/, 'there is no log line');

# with no data file open in the checkpointer, nothing tells the end at once
$before = last_report()->{id};
$node->safe_psql('postgres', 'CHECKPOINT');
cmp_ok(last_report()->{id}, '>', $before, 'a checkpoint with nothing to do has a report');
ok(wait_for(sub { last_report()->{status} eq 'complete' }), 'which is completed');

# --- without fsync

set('log_checkpoints', 'on');
set('fsync',           'off');
$node->safe_psql('postgres', $dirty . 'CHECKPOINT');
$report = last_report();
is($report->{status},       'complete', 'without fsync, too, a checkpoint is completed');
is($report->{files_synced}, 0,          'no file is fsynced');
isnt($report->{write_time}, undef, 'the time of writing is known');
cmp_ok($report->{buffers_written}, '>', 0, 'and the buffers');
set('fsync',           'on');
set('log_checkpoints', 'off');

# --- history

$node->safe_psql('postgres', 'CHECKPOINT; ' x 100);
is( $node->safe_psql('postgres', 'SELECT max(id) - min(id) + 1, count(*), max(id) > 100 FROM pg_calm_checkpoints'),
	'100|100|t', 'the history has the last reports');

# --- by time

$node->safe_psql('postgres', q{ALTER SYSTEM SET checkpoint_timeout = '30s'});
$node->reload;
ok( wait_for(
		sub {
			$node->safe_psql('postgres', q{SELECT pg_logical_emit_message(false, 'calm', 'x')});
			$node->safe_psql('postgres', q{SELECT count(*) FROM pg_calm_checkpoints WHERE reason = 'time'}) > 0;
		},
		60),
	'a checkpoint by time is known as such without log_checkpoints');
$node->safe_psql('postgres', 'ALTER SYSTEM RESET ALL');
$node->reload;

# --- shutdown, recovery

# a shutdown that comes with the reload is what the postmaster does first
$node->poll_query_until('postgres', q{SELECT current_setting('log_checkpoints') = 'on'}) or die 'timed out';
$node->safe_psql('postgres', 'CHECKPOINT');
$log = -s $node->logfile;
$node->stop;
like(slurp_file($node->logfile, $log),
	qr/pg_calm: checkpoint \d+ \(shutdown\): /, 'the shutdown checkpoint has a log line');
$node->start;
is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_calm_checkpoints'), 0, 'a new history');
$node->safe_psql('postgres', 'UPDATE first SET n = n + 1');
kill_node($node) or die 'the server is still there';
$node->start;
$report = row_of($node, 'SELECT * FROM pg_calm_checkpoints ORDER BY id LIMIT 1');
is($report->{reason}, 'end-of-recovery', 'the checkpoint at the end of recovery');
is($report->{kind},   'checkpoint',      'is no restartpoint');

$node->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
$standby->start;
$node->safe_psql('postgres', $dirty . 'CHECKPOINT');
$node->wait_for_catchup($standby);
$log = -s $standby->logfile;
$standby->safe_psql('postgres', 'CHECKPOINT');
$report = last_report($standby);
is($report->{kind}, 'restartpoint', 'a restartpoint');
is($report->{status}, 'complete', 'is completed');
cmp_ok($report->{buffers_written}, '>', 0, 'and has figures');
like(slurp_file($standby->logfile, $log), qr/pg_calm: restartpoint $report->{id} /, 'and a log line');
$standby->stop;
$node->stop;

done_testing();


# Reports of checkpoints and histograms of I/O times, compared with what the
# server logs, with what strace counts, and with delays that it injects.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use CalmTest;
use IPC::Run qw(start);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my @phases = qw(slots_time clog_time subtrans_time multixact_time other_slru_time
  buffer_scan_time write_time sync_time end_time);

my $node = calm_node('report', q{
max_wal_size = 4GB
wal_level = logical
max_wal_senders = 4
track_commit_timestamp = on
bgwriter_lru_maxpages = 0
pg_calm.checkpoint_history = 5
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
	return row_of($on // $node, 'SELECT * FROM pg_calm_checkpoints ORDER BY id DESC LIMIT 1');
}

# Files of a checkpoint in pg_calm_checkpoint_files, as far as they meet a condition
sub files_of
{
	my ($id, $where) = @_;
	return $node->safe_psql('postgres',
		"SELECT file FROM pg_calm_checkpoint_files WHERE checkpoint = $id AND $where ORDER BY file");
}

sub calls
{
	my ($scope, $where) = @_;
	return $node->safe_psql('postgres',
		"SELECT coalesce(sum(count), 0) FROM pg_calm_io_histogram WHERE scope = '$scope' AND $where");
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
	ok( wait_for(
			sub {
				my $now = last_report();
				return
				     ($now->{status}          // '') eq 'running'
				  && ($now->{buffers_written} // 0) > 0
				  && $now->{buffers_written} < ($now->{buffers_dirty} // 0);
			},
			60),
		'the first checkpoint shows how far it is');
	note(join ', ', map { "$_=" . (last_report()->{$_} // 'null') } sort keys %{ last_report() });
	# makes it hurry
	$node->safe_psql('postgres', 'CHECKPOINT');
	$backup->finish;
}

# --- one checkpoint, and what the server logs of it

my ($report, $text, $wrote, $write, $sync, $total, $files, $longest);

# The sum of some phases, in milliseconds
sub sum_of
{
	my $sum = 0;

	$sum += $report->{$_} // 0 foreach @_;
	return $sum;
}

# Pairs of times that are the same one, ours in milliseconds and as the server logs it
sub same_times
{
	my @written = grep { !/^(slots|sync|end)_time$/ } @phases;

	return (
		[ 'total_time', $report->{total_time}, $total ],
		[ 'sync_time', $report->{sync_time}, $sync ],
		[ 'the sum of what is written', sum_of(@written), $write ],
		[ 'the sum of all', sum_of(@phases), $total ]);
}

# How far apart they are, in milliseconds
sub apart { return abs($_[0]->[1] - $_[0]->[2] * 1000); }

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
	  /checkpoint complete: wrote (\d+) buffers.*?write=([\d.]+) s, sync=([\d.]+) s, total=([\d.]+) s; sync files=(\d+), longest=([\d.]+)/
	  or last;
	last unless grep { apart($_) > 2 } same_times();
}

is($report->{kind}, 'checkpoint', 'kind');
is($report->{reason}, 'requested', 'reason of a CHECKPOINT command');
is($report->{flags}, 'immediate force wait', 'its flags');
is($report->{status}, 'complete', 'status');
is($report->{mode}, 'on', 'mode');
foreach my $phase (@phases)
{
	isnt($report->{$phase}, undef, "$phase is known");
}
like(
	$text,
	qr/^.*LOG:  pg_calm: checkpoint $report->{id} \(requested\): slots=\d.*, clog=.*, buffer scan=.*, sync=.*, dirty=$report->{buffers_dirty} buffers, written=$report->{buffers_written} buffers, .*unflushed at sync=$report->{unflushed_pages_at_sync} pages, sync files=$report->{files_synced}, slowest=.* \(\Q$report->{slowest_file}\E\)$/m,
	'there is a log line');
is(scalar(() = $text =~ /pg_calm: checkpoint/g), 1, 'there is one');

ok(defined $longest, 'the server logs the checkpoint');
is($report->{files_synced}, $files, 'files synced are as logged');
cmp_ok($report->{buffers_written}, '>=', 200, 'buffers of tables are written');
# until 17 the server counts pages of SLRUs too
cmp_ok($report->{buffers_written}, '<=', $wrote,      'no more than logged');
cmp_ok($report->{buffers_written}, '>=', $wrote - 20, 'and no fewer, but for SLRUs');
is($report->{buffers_dirty}, $report->{buffers_written},
	'nobody else writes here: buffers found dirty are those written');

cmp_ok(apart($_), '<=', 2, "$_->[0] is as it should be") foreach same_times();
is($report->{drain_time}, undef, 'a CHECKPOINT command does not drain');
cmp_ok($report->{fsync_time}, '<=', $report->{sync_time}, 'fsync_time is a part of sync_time');
cmp_ok($report->{fsync_time}, '>=', $report->{slowest_file_time}, 'with the slowest in it');
cmp_ok($report->{slowest_file_time}, '<=', $longest * 1000 + 1, 'slowest_file_time is as logged');
cmp_ok($report->{device_operations}, '>', 0, 'device operations');
cmp_ok($report->{unflushed_pages_at_sync}, '>=', $report->{buffers_written}, 'unflushed pages');

# a count that is right although the list before was longer
$node->safe_psql('postgres', 'UPDATE second SET n = n + 1; CHECKPOINT');
cmp_ok(last_report()->{buffers_dirty}, '<', 100, 'a shorter list of dirty buffers after a longer one');
is(last_report()->{buffers_dirty}, last_report()->{buffers_written}, 'and it is right');

# --- WAL before and after; the later spans are looked at later

my $wal_id;

sub wal_report
{
	return row_of($node, "SELECT * FROM pg_calm_checkpoints WHERE id = $wal_id");
}

# Whether something holds of that report, and the server's clock
sub wal_holds
{
	my ($condition) = @_;

	return $node->safe_psql('postgres', "SELECT $condition FROM pg_calm_checkpoints WHERE id = $wal_id") eq 't';
}

sub full_page_images
{
	return $node->safe_psql('postgres', 'SELECT wal_fpi FROM pg_stat_wal');
}

# The worker looks at WAL once a second, and divides what is between two looks by
# time.  So what is written before is of the last 5 s, and what is written after
# comes when the worker has seen the start, and is counted 3 s, the longest
# time between two looks, before the 5 s are over.  On a busy machine that takes
# several tries.
my $in_time = 0;
foreach (1 .. 10)
{
	usleep(6_500_000);
	$node->safe_psql('postgres',
		q{SELECT pg_logical_emit_message(false, 'calm', repeat('x', 3000000)); CHECKPOINT});
	$wal_id = last_report()->{id};
	wait_for(sub { defined wal_report()->{wal_bytes_before_5s} }) or die 'timed out';
	my $images = full_page_images();
	$node->safe_psql('postgres',
		q{SELECT pg_logical_emit_message(false, 'calm', repeat('x', 9000000)); UPDATE first SET n = n + 1});
	wait_for(sub { full_page_images() >= $images + 100 }) or die 'timed out';
	$in_time = wal_holds(q{clock_timestamp() < started + interval '2 s'});
	last if $in_time;
}
ok($in_time, 'WAL is written right after the start');
ok( wal_holds(qq{(wal_bytes_after_${_}s IS NULL OR clock_timestamp() >= started + interval '$_ s')}),
	"what is not over is not known: $_ s")
  foreach (5, 30);
my $early = 0;
ok( wait_for(
		sub {
			$early += !wal_holds(q{(wal_bytes_after_5s IS NULL OR clock_timestamp() >= started + interval '5 s')});
			return defined wal_report()->{wal_bytes_after_5s};
		}),
	'it is when 5 s are over');
is($early, 0, 'and not before');
$report = wal_report();
cmp_ok($report->{wal_bytes_before_5s}, '>=', 3_000_000,  'WAL before the start');
cmp_ok($report->{wal_bytes_before_5s}, '<',  9_000_000,  'and not that after it');
cmp_ok($report->{wal_bytes_after_5s},  '>=', 9_000_000,  'WAL after the start');
cmp_ok($report->{wal_bytes_after_5s},  '<',  15_000_000, 'and not twice');
cmp_ok($report->{wal_fpi_after_5s}, '>=', 100, 'full-page images after the start');
ok(wal_holds(q{(wal_bytes_before_30s IS NULL OR started > pg_postmaster_start_time() + interval '30 s')}),
	'of what was before the start of the server nothing is known');

# --- what strace sees

SKIP:
{
	my $why = cannot_trace();
	my $data = $node->data_dir;
	my $first = $node->safe_psql('postgres', q{SELECT pg_relation_filepath('first')});
	skip $why, 66 if $why;

	foreach my $mode ('on', 'shadow', 'off')
	{
		set('pg_calm.mode', $mode);
		$node->safe_psql('postgres', $dirty);
		my $before = calls('server', q{backend_type = 'checkpointer' AND operation = 'fsync'});
		my $writes = calls('server', q{backend_type = 'checkpointer' AND operation = 'write'});
		my ($handle, $file) = trace(process_id($node, 'checkpointer'), '-y', '-e', 'trace=fsync,pwrite64,sync_file_range');
		$node->safe_psql('postgres', 'CHECKPOINT');
		finish_trace($handle);
		my @fsyncs = grep { /^fsync/ } split /\n/, slurp_file($file);
		my @pages = grep { m{^pwrite64\(\d+<[^>]*/(base|global)/} } split /\n/, slurp_file($file);
		my $data_files = grep { m{/(base|global)/(?!pg_control)[\w/]+>} } @fsyncs;
		my $hints = grep { /^sync_file_range/ } split /\n/, slurp_file($file);
		my $slru_files = grep { m{/pg_(xact|commit_ts|multixact/\w+)/\w+>} } @fsyncs;

		$report = last_report();
		is($report->{mode}, $mode, "mode $mode");
		is($report->{files_synced}, $data_files + $slru_files, 'files synced are those that strace sees');
		is($report->{buffers_written}, scalar(@pages), 'buffers written too');
		# in mode on they are held in their place
		my $hinted = $node->safe_psql('postgres',
			"SELECT sum(flush_hints) FROM pg_calm_checkpoint_files WHERE checkpoint = $report->{id}");
		ok($mode eq 'on' ? $hinted > 0 && $hints == 0 : $hinted == $hints, 'flush hints are counted by file')
		  or note("$hinted hints, $hints calls");
		is( calls('checkpoint', q{backend_type = 'checkpointer' AND operation = 'fsync'}),
			$data_files, 'each fsync of a data file is in the histogram of the checkpoint');
		is(calls('server', q{backend_type = 'checkpointer' AND operation = 'fsync'}) - $before,
			$data_files, 'and in that of the server');
		is( calls('checkpoint', q{backend_type = 'checkpointer' AND operation = 'fsync other'}),
			@fsyncs - $data_files, 'each other fsync is counted apart');
		$writes =
		  calls('server', q{backend_type = 'checkpointer' AND operation = 'write'}) - $writes;
		if ($mode eq 'off')
		{
			is($writes, 0, 'writes are not timed in mode off');
			is($report->{unflushed_pages_at_sync}, undef, 'nor is anything known to be unflushed');
		}
		else
		{
			cmp_ok(abs($writes - @pages / 8), '<=', 1, 'one write in eight is timed');
			cmp_ok($report->{unflushed_pages_at_sync}, '>', 0, 'unflushed pages are known');
			cmp_ok($report->{device_operations}, '>', 0, 'operations are counted');
		}
	}
	set('pg_calm.mode', 'on');

	# --- a second that passes in a known place is found in its column

	my @places = (
		[ 'slots_time',      'fsync',    'pg_logical/mappings' ],
		[ 'clog_time',       'fsync',    'pg_xact' ],
		[ 'clog_time',       'pwrite64', 'pg_xact/0000' ],
		[ 'other_slru_time', 'fsync',    'pg_commit_ts' ],
		[ 'subtrans_time',   'pwrite64', 'pg_subtrans/0000' ],
		[ 'multixact_time',  'pwrite64', 'pg_multixact/offsets/0000' ],
		[ 'multixact_time',  'fsync',    'pg_multixact/offsets' ],
		[ 'multixact_time',  'fsync',    'pg_multixact/members' ],
		[ 'write_time',      'pwrite64', $first ],
		[ 'sync_time',       'fsync',    'pg_xact/0000' ],
		[ 'sync_time',       'fsync',    $first ],
		[ 'end_time',        'fsync',    'global/pg_control' ]);
	foreach my $place (@places)
	{
		my ($column, $call, $path) = @$place;

		# a busy device may take a second by itself: once more then
		foreach (1 .. 5)
		{
			$node->safe_psql('postgres', $dirty);
			my ($handle) = trace(process_id($node, 'checkpointer'), '-P', "$data/$path",
				'-e', "inject=$call:delay_enter=1000000:when=1");
			$node->safe_psql('postgres', 'CHECKPOINT');
			finish_trace($handle);
			$report = last_report();
			last if sum_of(@phases) - $report->{$column} < 1000;
		}
		my ($longest_phase) = sort { $report->{$b} <=> $report->{$a} } @phases;
		is($longest_phase, $column, "$column has the delay of $call($path)");
		cmp_ok($report->{$column}, '>=', 1000, 'all of it');
		if ($column eq 'sync_time')
		{
			is($report->{slowest_file}, $path, 'it is the slowest file');
			cmp_ok($report->{slowest_file_time}, '>=', 1000, 'whose time is known');
			cmp_ok($report->{fsync_time},        '>=', 1000, 'and is a part of fsync_time');
			is(files_of($report->{id}, q{fsync_time >= 1000}), $path, 'and the only file with a long fsync');
		}
	}
	cmp_ok(
		calls('server', q{backend_type = 'checkpointer' AND operation = 'fsync' AND upper_bound > 1000000}),
		'>=', 1, 'the histogram has it too');

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

# --- history

is( $node->safe_psql('postgres', 'SELECT max(id) - min(id) + 1, count(*), max(id) > 5 FROM pg_calm_checkpoints'),
	'5|5|t', 'the history has the last reports');

# --- caused by WAL; a report of a checkpoint under way

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
				"SELECT count(*) FROM pg_calm_checkpoints WHERE id > $before AND reason = 'wal' AND flags = 'wal'"
			) > 0;
		}),
	'a checkpoint caused by WAL says so');
set('max_wal_size', '4GB');
ok(wait_for(sub { last_report()->{status} eq 'complete' }), 'it is completed');

# --- drain, which nobody helps with: it is given up after a tenth of its time, as
# is that of the first file

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
# of a coarse clock
cmp_ok($report->{drain_time},      '>=', 700, 'the wait is drain_time');
cmp_ok($report->{undrained_pages}, '>',  0,    'pages are left');
# what was fsynced before the last drain is none of them
cmp_ok($report->{undrained_pages}, '<=', $report->{unflushed_pages_at_sync}, 'no more than there were');
cmp_ok(abs($report->{total_time} - sum_of(@phases)), '<=', 1, 'total_time is the sum of all, sync_time with the drain');
cmp_ok($report->{drain_time} + $report->{fsync_time}, '<=', $report->{sync_time} + 1,
	'drain_time and fsync_time are parts of sync_time');

# the server's own figures are what the server has measured, which waited
ok( slurp_file($node->logfile, $log) =~
	  /pg_calm: checkpoint $report->{id} \(\w+\): .*, sync=([\d.]+) s, drain in sync=([\d.]+) s, fsync in sync=([\d.]+) s, .*\n(?:.*\n)*?.*checkpoint complete: .*?write=([\d.]+) s, sync=([\d.]+) s, total=([\d.]+) s; sync files=\d+, longest=([\d.]+) s/,
	'both log it');
my ($our_sync, $drain, $fsync);
($our_sync, $drain, $fsync, $write, $sync, $total, $longest) = ($1, $2, $3, $4, $5, $6, $7);
# each is rounded, or cut, to milliseconds
cmp_ok($sync + 0.002,  '>=', $longest,       'the sync phase is no shorter than its longest file');
cmp_ok($sync + 0.002,  '>=', $drain + $fsync, 'and has the drain and the fsync calls in it');
cmp_ok($total + 0.003, '>=', $write + $sync, 'the phases are no longer than the checkpoint');
# the same by two clocks, far less apart than the drain is long
cmp_ok(abs($sync * 1000 - $report->{sync_time}), '<=', 300, 'sync_time is the server\'s');
foreach ([ 'sync_time', $our_sync ], [ 'drain_time', $drain ], [ 'fsync_time', $fsync ])
{
	cmp_ok(abs($report->{ $_->[0] } - $_->[1] * 1000), '<=', 1, "$_->[0] is in our line");
}
ok(wait_for(sub { server_sync_time() - $sync_time >= $report->{drain_time} }),
	'the drain is in the time of sync in the statistics');
set('max_wal_size', '4GB');

# --- without log_checkpoints

set('log_checkpoints', 'off');
$log = -s $node->logfile;
$node->safe_psql('postgres', $dirty . 'CHECKPOINT');
$report = last_report();
is($report->{reason}, 'unknown', 'the reason is not known without log_checkpoints');
is($report->{flags}, undef, 'nor are the flags');
is($report->{status}, 'complete', 'the rest is');
isnt($report->{ended}, undef, 'and the end');
is($report->{buffers_dirty}, $report->{buffers_written}, 'and the dirty buffers');
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
is($report->{clog_time},    undef,      'but phases that end with an fsync are not known');
is($report->{files_synced}, 0,          'no file is fsynced');
isnt($report->{write_time}, undef, 'the time of writing is known');
is($report->{buffers_dirty}, $report->{buffers_written}, 'and the buffers');
set('fsync',           'on');
set('log_checkpoints', 'off');

# --- reset

my $status = status_of($node);
$node->safe_psql('postgres', 'SELECT pg_calm_reset()');
is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_calm_checkpoints'), 0, 'no reports');
is(calls('server', q{operation = 'fsync'}),                                 0, 'no counts');
is(calls('checkpoint', 'true'), 0, 'none for the last checkpoint');
cmp_ok(status_of($node)->{device_operations},
	'>=', $status->{device_operations}, 'pg_calm_status is left alone');

# --- by time, and the 30 s after

$node->safe_psql('postgres', q{CHECKPOINT; SELECT pg_logical_emit_message(false, 'calm', 'x')});
$wal_id = last_report()->{id};
$node->safe_psql('postgres',
	q{SELECT pg_logical_emit_message(false, 'calm', repeat('x', 9000000)); UPDATE first SET n = n + 1});
$node->safe_psql('postgres', q{ALTER SYSTEM SET checkpoint_timeout = '30s'});
$node->reload;
# with WAL all the while: what was written first may just not be of the last 30 s
ok( wait_for(
		sub {
			$node->safe_psql('postgres', q{SELECT pg_logical_emit_message(false, 'calm', 'x')});
			$node->safe_psql('postgres',
				q{SELECT count(*) FROM pg_calm_checkpoints WHERE reason = 'time' AND flags IS NULL}) > 0;
		},
		60),
	'a checkpoint by time is known as such without log_checkpoints');
ok(wait_for(sub { defined wal_report()->{wal_bytes_after_30s} }, 60), 'WAL of 30 s is known');
$report = wal_report();
cmp_ok($report->{wal_bytes_after_30s}, '>=', $report->{wal_bytes_after_5s}, 'and includes that of 5 s');
# both are due 30 s after the last one: it may just have begun, and the worker looks a little later
ok(wait_for(sub { defined last_report()->{wal_bytes_before_30s} }, 10), 'WAL of the 30 s before is, too');
$report = last_report();
is($report->{reason}, 'time', 'the last report is of the checkpoint by time');
cmp_ok($report->{wal_bytes_before_30s} // 0, '>', $report->{wal_bytes_before_5s} // 0, 'and is more than that of 5 s');
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

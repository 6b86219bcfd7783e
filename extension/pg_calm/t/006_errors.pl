
# System calls of the server: what is left as it was, what is added in which
# mode, and what happens when writeback fails.

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

# paths are long, as some are
my $node = calm_node('errors_' . 'x' x 100, q{
pg_calm.flush_age = '1h'
pg_calm.write_iops = 1000
pg_calm.write_bandwidth = '100MB'
checkpoint_flush_after = 256kB
max_wal_size = 4GB
});
$node->start;
$node->safe_psql(
	'postgres', q{
CREATE EXTENSION pg_calm;
CREATE TABLE load (id int PRIMARY KEY, n int, filler text);
CHECKPOINT});

# --- fsync

# Number of calls in the checkpointer for one scripted checkpoint, by what
# kind of file they are for
sub calls_of_checkpoint
{
	$node->safe_psql(
		'postgres', q{
TRUNCATE load;
INSERT INTO load SELECT i, 0, repeat('x', 300) FROM generate_series(1, 20000) i;
CHECKPOINT;
UPDATE load SET n = n + 1 WHERE id % 300 = 0});
	my $load = $node->safe_psql('postgres', q{SELECT pg_relation_filepath('load')});
	my ($handle, $file) =
	  trace(process_id($node, 'checkpointer'), '-y', '-e', 'trace=fsync,fdatasync,sync_file_range');
	$node->safe_psql('postgres', 'CHECKPOINT');
	finish_trace($handle);

	my %calls;
	foreach my $line (split /\n/, slurp_file($file))
	{
		# those of catalogs and of the index, which are small, are obeyed
		$calls{hints}++ if $line =~ m{^sync_file_range\(\d+<[^>]*/\Q$load\E>};
		next unless $line =~ m{(\w+)\(\d+<[^>]*/((base|global)/[^/>]*/?|pg_\w+)};
		my ($call, $place) = ($1, $2);
		$place =~ s{^(base|global)/.*}{data};
		# segments being recycled: how many depends on where in one we began
		next if "$call $place" eq 'fsync pg_wal';
		$calls{"$call $place"}++;
	}
	return \%calls;
}

# Without those for WAL, whose segments come and go with the position that WAL
# has reached: 009_fsync_count.pl compares them.
sub fsyncs
{
	my ($calls) = @_;
	return join ', ',
	  map { "$_: $calls->{$_}" } grep { /^f(data)?sync/ && !/pg_wal/ } sort keys %$calls;
}

my %by_mode;
foreach my $mode ('on', 'shadow', 'off')
{
	$node->safe_psql('postgres', "ALTER SYSTEM SET pg_calm.mode = '$mode'");
	$node->reload;
	usleep(200_000);
	$by_mode{$mode} = calls_of_checkpoint();
}
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''\n");
$node->restart;
$by_mode{stock} = calls_of_checkpoint();
note("stock: " . join ', ', map { "$_: $by_mode{stock}->{$_}" } sort keys %{ $by_mode{stock} });
like(fsyncs($by_mode{stock}), qr/fsync data: [2-9]/, 'a checkpoint of stock PostgreSQL has fsyncs');
foreach my $mode ('on', 'shadow', 'off')
{
	is(fsyncs($by_mode{$mode}), fsyncs($by_mode{stock}), "the same fsyncs in mode $mode");
}
cmp_ok($by_mode{stock}->{hints} // 0, '>', 0, 'stock obeys flush hints');
is($by_mode{on}->{hints} // 0, 0, 'in mode on flush hints are dropped');
foreach my $mode ('shadow', 'off')
{
	is(
		$by_mode{$mode}->{'sync_file_range data'},
		$by_mode{stock}->{'sync_file_range data'},
		"in mode $mode they are obeyed");
}
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'pg_calm'\n");

# --- what the worker does

# Calls of the worker while there are pages to flush
sub worker_calls
{
	my ($mode) = @_;
	my $before = status_of($node);
	my ($handle, $file) = trace($before->{worker_pid}, '-y', '-e',
		'trace=sync_file_range,madvise,fsync,fdatasync,msync,write,pwrite64,pwritev,ftruncate,fallocate,unlink'
	);

	foreach (1 .. 2)
	{
		$node->safe_psql('postgres',
			'UPDATE load SET n = n + 1 WHERE id % 100 = 0; CHECKPOINT;');
		# writes of its own: new blocks
		$node->safe_psql('postgres',
			q{INSERT INTO load SELECT max(id) + 1, 0, repeat('x', 7000) FROM load});
		usleep(600_000);
	}
	finish_trace($handle);
	my $after = status_of($node);
	my %calls;
	foreach my $line (split /\n/, slurp_file($file))
	{
		# some versions of strace show calls they don't know in any case
		$calls{$1}++ if $line =~ /^(\w+)\(/ && $line !~ /^syscall_/;
	}
	return (\%calls, $after->{flushed_pages} - $before->{flushed_pages});
}

$node->restart;
$node->safe_psql(
	'postgres', q{
ALTER TABLE load ALTER filler SET STORAGE PLAIN;
ALTER SYSTEM SET pg_calm.flush_age = '50ms'});
foreach my $mode ('shadow', 'on')
{
	$node->safe_psql('postgres', "ALTER SYSTEM SET pg_calm.mode = '$mode'");
	$node->reload;
	ok($node->poll_query_until('postgres', "SELECT mode = '$mode' FROM pg_calm_status"), "mode $mode");
	# the worker reads its settings when it wakes up
	usleep(300_000);
	my ($calls, $flushed) = worker_calls($mode);
	my $shown = join ' ', sort keys %$calls;

	cmp_ok($flushed, '>', 0, "pages are counted in mode $mode");
	if ($mode eq 'shadow')
	{
		is($shown, '', 'in mode shadow the worker changes nothing');
	}
	else
	{
		like($shown, qr/^(madvise )?sync_file_range$/, 'in mode on it starts writeback, and writes nothing itself');
	}
}

# --- a writeback error

$node->safe_psql('postgres', q{
ALTER SYSTEM RESET pg_calm.mode;
ALTER SYSTEM SET pg_calm.flush_age = '1h'});
$node->restart;
$node->safe_psql('postgres', 'CHECKPOINT');
my $rows = $node->safe_psql('postgres', 'SELECT count(*) FROM load');
my $worker = status_of($node)->{worker_pid};
my $log = -s $node->logfile;

# The call that fails takes three seconds to say so.  Data that it may have
# lost must not be covered by a checkpoint that completes in between.
my ($handle) = trace($worker, '-e', 'trace=sync_file_range',
	'-e', 'inject=sync_file_range:error=EIO:delay_exit=3000000');
$node->safe_psql('postgres', q{
INSERT INTO load SELECT max(id) + 1, 0, repeat('x', 7000) FROM load;
ALTER SYSTEM SET pg_calm.flush_age = '10ms'});
$node->reload;
ok(wait_for(sub { status_of($node)->{in_flight_pages} > 0 }),
	'the worker is in a call that will fail');
usleep(200_000);
my $start = time;
my ($result, $stdout, $stderr) = $node->psql('postgres', 'CHECKPOINT');
isnt($result, 0, 'a checkpoint that is requested meanwhile does not succeed');
cmp_ok(time - $start, '>', 1, 'it waited for the call');
ok($node->wait_for_log(qr/PANIC:  .*: Input\/output error/, $log), 'the error ends in PANIC');
$handle->finish;
ok($node->wait_for_log(qr/database system is ready to accept connections/, $log),
	'the server recovers');
my $text = slurp_file($node->logfile, $log);
# the first thing that may complete is the checkpoint of the recovery
$text =~ s/PANIC:.*//s;
unlike($text, qr/checkpoint complete/, 'no checkpoint completed before');
$node->safe_psql('postgres', 'ALTER SYSTEM RESET pg_calm.flush_age');
$node->reload;
is($node->safe_psql('postgres', 'SELECT count(*) FROM load'), $rows + 1, 'data is intact');
$node->safe_psql('postgres', 'CHECKPOINT');
$node->stop;
command_ok([ 'pg_checksums', '--check', '-D', $node->data_dir ], 'checksums are right');

# --- the same with nobody waiting: the worker itself makes an end of it

$node->start;
$node->safe_psql('postgres', 'CHECKPOINT');
$worker = status_of($node)->{worker_pid};
$log = -s $node->logfile;
($handle) = trace($worker, '-e', 'trace=sync_file_range', '-e', 'inject=sync_file_range:error=ENOSPC');
$node->safe_psql('postgres', q{
INSERT INTO load SELECT max(id) + 1, 0, repeat('x', 7000) FROM load;
ALTER SYSTEM SET pg_calm.flush_age = '10ms'});
$node->reload;
ok( $node->wait_for_log(
		qr/PANIC:  pg_calm: could not (start writeback of|write back) file "\/[^"]*x_data\/pgdata\/base\/\d+\/\d+": No space left on device/,
		$log),
	'an error ends in PANIC of the worker, which names the file');
$handle->finish;
ok($node->wait_for_log(qr/database system is ready to accept connections/, $log),
	'the server recovers again');
$node->poll_query_until('postgres', 'SELECT true') or die 'timed out';
is($node->safe_psql('postgres', 'SELECT count(*) FROM load'), $rows + 2, 'data is intact again');
$node->safe_psql('postgres', 'ALTER SYSTEM RESET pg_calm.flush_age');
$node->stop;

# --- a close that tells of an error, as that of some file systems does, has taken it away

$node->start;
$node->safe_psql('postgres', 'CHECKPOINT');
$log = -s $node->logfile;
($handle) = trace(status_of($node)->{worker_pid},
	'-P', $node->data_dir . '/' . $node->safe_psql('postgres', q{SELECT pg_relation_filepath('load')}),
	'-e', 'trace=close', '-e', 'inject=close:error=EIO');
$node->safe_psql('postgres', q{
INSERT INTO load SELECT max(id) + 1, 0, repeat('x', 7000) FROM load;
ALTER SYSTEM SET pg_calm.flush_age = '10ms'});
$node->reload;
ok(wait_for(sub { status_of($node)->{errors} > 0 }, 30), 'a failed close is an error');
isnt($node->psql('postgres', 'CHECKPOINT'), 0, 'which the next checkpoint is told of');
ok($node->wait_for_log(qr/PANIC:  could not fsync file .*: Input\/output error/, $log), 'and ends in PANIC');
$handle->finish;
ok($node->wait_for_log(qr/database system is ready to accept connections/, $log),
	'the server recovers once more');
$node->poll_query_until('postgres', 'SELECT true') or die 'timed out';
is($node->safe_psql('postgres', 'SELECT count(*) FROM load'), $rows + 3, 'data is intact once more');
$node->safe_psql('postgres', 'ALTER SYSTEM RESET pg_calm.flush_age');
$node->stop;

# --- a kernel without the call: no error, but nothing can be done

$node->start;
$node->safe_psql('postgres', 'CHECKPOINT');
($handle) = trace(status_of($node)->{worker_pid},
	'-e', 'trace=sync_file_range', '-e', 'inject=sync_file_range:error=ENOSYS');
$node->safe_psql('postgres', q{
INSERT INTO load SELECT max(id) + 1, 0, repeat('x', 7000) FROM load;
ALTER SYSTEM SET pg_calm.flush_age = '10ms'});
$node->reload;
ok( wait_for(
		sub {
			(status_of($node)->{degraded} // '') eq
			  'nothing is flushed: the kernel refuses sync_file_range';
		}),
	'a kernel that refuses sync_file_range is reported');
my $suppressed = status_of($node)->{suppressed_hints};
$node->safe_psql('postgres', 'UPDATE load SET n = n + 1 WHERE id % 100 = 0; CHECKPOINT');
my $refused = status_of($node);
is($refused->{suppressed_hints}, $suppressed, 'and flush hints are obeyed then');
is($refused->{errors}, 0, 'it is not an error');
is($refused->{in_flight_pages}, 0, 'nothing is in flight');
finish_trace($handle);
$node->safe_psql('postgres', 'ALTER SYSTEM RESET pg_calm.flush_age');
$node->stop;

# --- a worker that hangs, but not in a call that could hide an error

$node->start;
$worker = status_of($node)->{worker_pid};
$node->safe_psql('postgres', q{INSERT INTO load SELECT max(id) + 1, 0, 'x' FROM load});
kill 'STOP', $worker;
$start = time;
$node->safe_psql('postgres', 'CHECKPOINT');
# an hour would be the worker's
cmp_ok(time - $start, '<', 60, 'a stopped worker does not hold up a checkpoint');
kill 'CONT', $worker;
$node->stop('fast');
ok(!kill(0, $worker), 'and ends with the server when it goes on');

done_testing();


# Every fsync and fdatasync of the server happens with the module as without:
# the same number for each file (for a WAL segment's fdatasync only whether), in a scripted workload that starts from the
# same data directory each time.  006_errors.pl looks at one checkpoint; this
# at a whole life of the server, all processes, from start to stop.

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

my $why = cannot_trace();
plan skip_all => $why if $why;

# Nothing that depends on time: no background writer, WAL writer, autovacuum or parallel workers, which
# set hint bits and turn buffers over as soon as they are there
my $node = calm_node('fsync_count', q{
shared_buffers = 2MB
pg_calm.flush_age = '20ms'
pg_calm.write_iops = 1000
pg_calm.write_bandwidth = '100MB'
pg_calm.drain_threshold = 0
checkpoint_flush_after = 256kB
checkpoint_completion_target = 0
log_checkpoints = on
max_wal_size = 4GB
wal_recycle = off
bgwriter_lru_maxpages = 0
wal_writer_delay = 10s
wal_writer_flush_after = 1GB
max_parallel_maintenance_workers = 0
max_parallel_workers_per_gather = 0
});
my $data_dir = realpath($node->data_dir);
my $saved = PostgreSQL::Test::Utils::tempdir() . '/saved';

$node->start;
$node->safe_psql(
	'postgres', q{
CREATE TABLE load (id int PRIMARY KEY, n int, filler text);
INSERT INTO load SELECT i, 0, repeat('x', 300) FROM generate_series(1, 20000) i;
CREATE TABLE dropped AS SELECT i FROM generate_series(1, 10000) i;
CREATE UNLOGGED TABLE unlogged AS SELECT i FROM generate_series(1, 10000) i;
CREATE DATABASE gone});
$node->stop;
system_or_bail('cp', '-a', $data_dir, $saved);

# Checkpoints, one of them in no hurry, which drains; immediate syncs, files that come and go, SLRUs,
# WAL switches
my @workload = (
	'UPDATE load SET n = n + 1 WHERE id % 7 = 0',
	'CHECKPOINT',
	'UPDATE load SET n = n + 1 WHERE id % 300 = 0',
	q{INSERT INTO load SELECT i, 0, repeat('y', 300) FROM generate_series(20001, 30000) i},
	'CREATE INDEX ON load (n)',
	'CHECKPOINT',
	'DELETE FROM load WHERE id % 3 = 0',
	'VACUUM load',
	'UPDATE unlogged SET i = i + 1',
	'DROP TABLE dropped',
	'CREATE TABLE new AS SELECT i FROM generate_series(1, 20000) i',
	'ALTER TABLE unlogged SET LOGGED',
	'CLUSTER load USING load_pkey',
	'CHECKPOINT',
	'TRUNCATE new',
	'INSERT INTO new SELECT i FROM generate_series(1, 500) i',
	'CREATE DATABASE copied STRATEGY file_copy',
	'CREATE DATABASE logged STRATEGY wal_log',
	'DROP DATABASE gone',
	'SELECT pg_switch_wal()',
	# what is written from now on is left to be drained; by no ALTER SYSTEM, which stock would refuse
	qq{\\! echo "pg_calm.flush_age = '1h'" >>'$data_dir/postgresql.conf'},
	'SELECT pg_reload_conf()',
	'UPDATE load SET n = n + 1',
	q{SELECT pg_backup_start('x', false)},
	'UPDATE load SET n = n + 1 WHERE id % 20 = 0',
	'CHECKPOINT',
	'UPDATE load SET n = n + 1 WHERE id % 50 = 0');

# Calls of one life of the server, by call and file; and what its log says
sub calls_of_life
{
	my ($name, $conf) = @_;
	my $file = PostgreSQL::Test::Utils::tempdir() . '/strace';
	my ($out, $err) = ('', '');

	system_or_bail('rm', '-rf', $data_dir);
	system_or_bail('cp', '-a', $saved, $data_dir);
	$node->append_conf('postgresql.conf', $conf);
	my $server = start(
		[
			'strace', '-f', '-qq', '-y', '-o', $file, '-e', 'trace=fsync,fdatasync,sync_file_range',
			'postgres', '-D', $data_dir
		],
		'>', \$out, '2>', \$err);
	# not by connections, whose number depends on time: each reads catalogs, and turns buffers over
	wait_for(
		sub {
			return -e "$data_dir/postmaster.pid" && slurp_file("$data_dir/postmaster.pid") =~ /^ready\s*$/m;
		},
		60) or die "the server does not start: $err";
	# one session, so that nothing runs at the same time
	my ($result, $stdout, $stderr);
	$result = IPC::Run::run(
		[
			'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-h', $node->host, '-p', $node->port,
			'-d', 'postgres', map { ('-c', $_) } @workload
		],
		'>', \$stdout, '2>', \$stderr);
	ok($result, "$name: the workload runs") or diag($stderr);
	system_or_bail('pg_ctl', '-D', $data_dir, '-m', 'fast', '-w', 'stop');
	$server->finish;

	my %calls;
	foreach my $line (split /\n/, slurp_file($file))
	{
		my ($call, $path) = $line =~ /^\d+\s+(\w+)\(\d+<([^>]*)>/ or next;
		$path =~ s/ \(deleted\)$//;
		$path =~ s/^\Q$data_dir\E//;
		$path =~ s/xlogtemp\.\d+/xlogtemp/;
		$calls{"$call $path"}++;
		# how often a segment is synced depends on when the WAL writer wakes up,
		# which takes a sync away from others or adds one
		$calls{"$call $path"} = 1 if $call eq 'fdatasync' && $path =~ m{^/pg_wal/};
	}
	return (\%calls, $err);
}

sub total
{
	my ($calls, $pattern) = @_;
	my $sum = 0;

	$sum += $calls->{$_} foreach grep { $_ =~ $pattern } keys %$calls;
	return $sum;
}

my (%life, %logs);
($life{stock}) = calls_of_life('stock', "shared_preload_libraries = ''\n");
($life{again}) = calls_of_life('stock again', "shared_preload_libraries = ''\n");
($life{on}, $logs{on}) = calls_of_life('mode on', '');
($life{shadow}, $logs{shadow}) = calls_of_life('mode shadow', "pg_calm.mode = 'shadow'\n");

foreach my $kind (
	[ 'data files', qr{^f(data)?sync /(base|global)/} ],
	[ 'WAL', qr{^f(data)?sync /pg_wal} ],
	[ 'SLRUs', qr{^f(data)?sync /pg_(xact|multixact|subtrans|commit_ts|notify|serial)} ],
	[ 'anything', qr{^f(data)?sync } ])
{
	my ($name, $pattern) = @$kind;
	my %lists;

	foreach my $server (sort keys %life)
	{
		$lists{$server} =
		  { map { $_ => $life{$server}->{$_} } grep { $_ =~ $pattern } keys %{ $life{$server} } };
	}
	# segments that are filled ahead (wal_ahead.c) are synced in addition, as all new ones are
	foreach my $call (grep { m{ /pg_wal} } keys %{ $lists{on} })
	{
		my $stock = $lists{stock}->{$call};

		delete $lists{on}->{$call} unless $stock;
		$lists{on}->{$call} = $stock if $stock && $lists{on}->{$call} > $stock;
	}
	my $count = total($life{stock}, $pattern);
	note("$name: $count calls for " . scalar(keys %{ $lists{stock} }) . ' files');
	cmp_ok($count, '>', $name eq 'SLRUs' ? 0 : 10, "stock syncs $name");
	is_deeply($lists{again}, $lists{stock}, "the same calls for $name when stock runs again");
	is_deeply($lists{$_}, $lists{stock}, "the same calls for $name in mode $_") foreach 'on', 'shadow';
}
cmp_ok(total($life{on}, qr/^sync_file_range/), '>', 0, 'in mode on the worker was at work meanwhile');
like($logs{on}, qr/LOG:  pg_calm: checkpoint .* drain=(?!0\.000)/, 'and a checkpoint waited for it before its fsync calls');
unlike($logs{shadow}, qr/ drain=(?!0\.000)/, 'in mode shadow none does');

done_testing();

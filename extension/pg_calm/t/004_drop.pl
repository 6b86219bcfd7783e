
# Files that go while the worker is busy with them.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use CalmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $node = calm_node('drop', q{
shared_buffers = 2MB
pg_calm.write_iops = 1000
pg_calm.write_bandwidth = '100MB'
pg_calm.flush_age = '50ms'
max_wal_size = 4GB
});
$node->start;
$node->safe_psql(
	'postgres', q{
CREATE EXTENSION pg_calm;
CREATE TABLE load (id int PRIMARY KEY, n int, filler text);
INSERT INTO load SELECT i, 0, repeat('x', 300) FROM generate_series(1, 20000) i});
my $load = start_load($node, 'load', 20000, 600, 600);

# Removed files that the worker has open
sub held_files
{
	my $worker = status_of($node)->{worker_pid};

	return join ' ', grep { / \(deleted\)$/ && m{/base/} }
	  map { readlink($_) // '' } glob("/proc/$worker/fd/*");
}

# Seconds that a statement takes
sub duration
{
	my ($database, $statement) = @_;
	my $start = time;

	$node->safe_psql($database, $statement);
	return time - $start;
}

my $fill = q{
CREATE TABLE filled (id int PRIMARY KEY, filler text);
INSERT INTO filled SELECT i, repeat('x', 300) FROM generate_series(1, 20000) i};

# --- databases

my $longest = 0;
my $seen = 0;
my $oid;
foreach my $round (1 .. 4)
{
	$node->safe_psql('postgres', 'CREATE DATABASE victim');
	$oid = $node->safe_psql('postgres', q{SELECT oid FROM pg_database WHERE datname = 'victim'});
	$node->safe_psql('victim', $fill);
	$seen += $node->safe_psql('postgres',
		"SELECT count(*) FROM pg_calm_regions() WHERE path LIKE '%/base/$oid/%'");
	my $took = duration('postgres', 'DROP DATABASE victim');
	$longest = $took if $took > $longest;
}
cmp_ok($seen, '>', 0, 'files of the databases were tracked');
cmp_ok($longest, '<', 20, 'DROP DATABASE is not held up');
ok(wait_for(sub { held_files() eq '' }), 'the worker lets go of the files of dropped databases');
ok( wait_for(
		sub {
			$node->safe_psql('postgres',
				"SELECT count(*) FROM pg_calm_regions() WHERE path LIKE '%/base/$oid/%'") == 0;
		}),
	'the map forgets dropped databases');

# --- tables

$longest = 0;
foreach my $statement ('TRUNCATE filled', 'DROP TABLE filled')
{
	foreach my $round (1 .. 3)
	{
		$node->safe_psql('postgres', $fill);
		my $took = duration('postgres', $statement);
		$longest = $took if $took > $longest;
		$node->safe_psql('postgres', 'DROP TABLE IF EXISTS filled');
	}
}
cmp_ok($longest, '<', 20, 'TRUNCATE and DROP TABLE are not held up');
# the first segment of a dropped table goes with the next checkpoint
$node->safe_psql('postgres', 'CHECKPOINT');
ok(wait_for(sub { held_files() eq '' }), 'the worker lets go of the files of dropped tables');

# a tablespace must be empty to be dropped
my $tablespace = PostgreSQL::Test::Utils::tempdir();
$node->safe_psql('postgres', "CREATE TABLESPACE space LOCATION '$tablespace'");
$node->safe_psql(
	'postgres', q{
CREATE TABLE elsewhere TABLESPACE space AS SELECT i, repeat('x', 300) FROM generate_series(1, 20000) i});
cmp_ok($node->safe_psql('postgres', q{SELECT count(*) FROM pg_calm_regions() WHERE path LIKE '%/PG\_%'})
	  + status_of($node)->{flushed_pages}, '>', 0, 'files of a tablespace are tracked');
$node->safe_psql('postgres', 'DROP TABLE elsewhere');
is($node->psql('postgres', 'DROP TABLESPACE space'), 0, 'a tablespace is dropped');
ok(wait_for(sub { held_files() eq '' }), 'the worker lets go of the files of a dropped tablespace');

# --- files that shrink

$node->safe_psql(
	'postgres', q{
CREATE TABLE shrinks AS SELECT i, repeat('x', 300) FROM generate_series(1, 40000) i;
CHECKPOINT;
UPDATE shrinks SET i = i + 1 WHERE i % 7 = 0;
DELETE FROM shrinks WHERE i > 100});
$node->safe_psql('postgres', 'VACUUM (TRUNCATE) shrinks');
is($node->safe_psql('postgres', 'SELECT count(*) <= 100 AND count(*) > 0 FROM shrinks'),
	't', 'a truncated table has its rows');
ok( wait_for(
		sub { region_counts($node, 'shrinks') eq 'none' }),
	'nothing of it remains unflushed');

ok(runs($load), 'the load went on all the time');
$load->signal('INT');
$load->finish;
ok( wait_for(
		sub {
			my $status = status_of($node);
			return $status->{unflushed_pages} == 0
			  && $status->{in_flight_pages} == 0;
		}),
	'in the end all is flushed');
is(status_of($node)->{errors}, 0, 'without errors');
$node->stop;
command_ok([ 'pg_checksums', '--check', '-D', $node->data_dir ], 'checksums are right');

done_testing();


# Files of a few blocks, of which there can be very many: a checkpoint that can't
# wait leaves most of them to the server's own hints, and they leave room in the map.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use CalmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# Nothing is flushed but by a checkpoint
my $node = calm_node('small_files', q{
pg_calm.write_iops = 1000
pg_calm.flush_age = '1h'
checkpoint_flush_after = '256kB'
bgwriter_lru_maxpages = 0
max_wal_size = 4GB
});
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION pg_calm');

# What a checkpoint of all that is dirty adds to the counters
sub checkpoint_adds
{
	my $before = status_of($node);
	$node->safe_psql('postgres', 'CHECKPOINT');
	my $after = status_of($node);
	return { map { $_ => $after->{$_} - $before->{$_} } qw(suppressed_hints fsynced_pages flushed_pages full_files) };
}

sub unflushed
{
	return $node->safe_psql('postgres',
		q{SELECT coalesce(sum(unflushed_pages_old + unflushed_pages_new), 0) FROM pg_calm_regions() JOIN pg_class
ON path LIKE '%/' || pg_relation_filepath(oid) WHERE relname LIKE 'few\_%'});
}

$node->safe_psql('postgres', 'CHECKPOINT');
$node->safe_psql(
	'postgres', q{
DO $$ BEGIN FOR i IN 1 .. 500 LOOP EXECUTE format('CREATE TABLE few_%s AS SELECT 1 AS i', i); END LOOP; END $$});
# those of catalogs, which are large, are dropped as ever
my $adds = checkpoint_adds();
cmp_ok($adds->{fsynced_pages}, '>=', 400, 'pages of small files are left to the server');
is(unflushed(), 0, 'and are not unflushed any more');
is($adds->{full_files}, 0, 'there was room for all files');

$node->safe_psql(
	'postgres', q{
DO $$ BEGIN FOR i IN 1 .. 500 LOOP EXECUTE format('UPDATE few_%s SET i = i + 1', i); END LOOP; END $$});
$adds = checkpoint_adds();
cmp_ok($adds->{suppressed_hints}, '<', 200, 'their hints are obeyed, but those of the first');
cmp_ok($adds->{fsynced_pages}, '>=', 400, 'each time');

# a few small files: as ever
$node->safe_psql(
	'postgres', q{
DO $$ BEGIN FOR i IN 1 .. 20 LOOP EXECUTE format('UPDATE few_%s SET i = i', i); END LOOP; END $$});
$adds = checkpoint_adds();
cmp_ok($adds->{suppressed_hints}, '>=', 20, 'hints of a few small files are dropped');

# a large file: its hints are dropped
$node->safe_psql('postgres', q{CREATE TABLE large AS SELECT i, repeat('x', 1900) FROM generate_series(1, 8000) i});
$adds = checkpoint_adds();
cmp_ok($adds->{suppressed_hints}, '>', 10, 'hints of a file that is not small are dropped');

# kill -9 of a process: the server begins anew, and so does the map
kill('KILL', process_id($node, 'background writer'));
ok(wait_for(sub { slurp_file($node->logfile) =~ /all server processes terminated; reinitializing/ }), 'a crash');
ok($node->poll_query_until('postgres', 'SELECT true'), 'the server is there again');
$node->safe_psql('postgres', 'CHECKPOINT');
$node->safe_psql(
	'postgres', q{
DO $$ BEGIN FOR i IN 1 .. 500 LOOP EXECUTE format('UPDATE few_%s SET i = i + 1', i); END LOOP; END $$});
$adds = checkpoint_adds();
cmp_ok($adds->{fsynced_pages}, '>=', 400, 'so it is after a crash');
is($node->safe_psql('postgres', 'SELECT i FROM few_17'), 3, 'nothing is lost');
$node->stop;
command_ok([ 'pg_checksums', '--check', '-D', $node->data_dir ], 'checksums are right');

done_testing();

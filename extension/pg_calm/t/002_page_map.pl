
# What the page map holds: exactly the blocks of data files that were written
# and not flushed, and nothing else; and what becomes of marks when the kernel has
# written their blocks.  A map that is full is 027_map_full.pl's.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use Cwd qw(realpath);
use CalmTest;
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# Nothing is flushed but by a checkpoint, and no page leaves the small shared
# buffers but by our doing.
my $node = calm_node('page_map', q{
pg_calm.flush_age = '1h'
pg_calm.unflushed_limit = '10GB'
shared_buffers = 1MB
bgwriter_lru_maxpages = 0
max_files_per_process = 64
max_wal_size = 4GB
});
$node->start;

# One row for each block, with room for one more version of it
$node->safe_psql(
	'postgres', q{
CREATE EXTENSION pg_calm;
CREATE TABLE known (id int, n int, filler text) WITH (fillfactor = 40);
ALTER TABLE known ALTER filler SET STORAGE PLAIN;
CREATE TABLE others (LIKE known INCLUDING ALL) WITH (fillfactor = 40);
INSERT INTO known SELECT i, 0, repeat('x', 3500) FROM generate_series(0, 2999) i;
INSERT INTO others SELECT i, 0, repeat('x', 3500) FROM generate_series(0, 999) i;
});
is( $node->safe_psql(
		'postgres', q{SELECT count(*), count(DISTINCT ctid) FROM known WHERE ctid = format('(%s,1)', id)::tid}),
	'3000|3000',
	'row N is in block N');

# Read enough blocks through the shared buffers to push out all others.  By
# ctid, since a sequential scan of a large table keeps to a few buffers.
sub evict
{
	$node->safe_psql(
		'postgres', q{
SELECT count(*) FROM others
 WHERE ctid = ANY (ARRAY(SELECT format('(%s,1)', i)::tid FROM generate_series(0, 999) i))});
	return;
}

evict();
like(
	region_counts($node, 'known'),
	qr/^0:(9\d\d|89[6-9]|10[01]\d|102[0-4]) 1024:1024 2048:952$/,
	'all blocks of a new table, but some of the first megabyte');

# hint bits would make every block dirty that is read
$node->safe_psql('postgres', 'VACUUM (FREEZE, ANALYZE) known, others');
$node->safe_psql('postgres', 'CHECKPOINT');
is(region_counts($node, 'known'), 'none', 'none after a checkpoint');
evict();
is(region_counts($node, 'known'), 'none', 'reading marks nothing');

$node->safe_psql('postgres',
	'UPDATE known SET n = n + 1 WHERE id IN (5, 77, 78, 1023, 1024, 1087, 2999)');
evict();
is(region_counts($node, 'known'), '0:4 1024:2 2048:1', 'exactly the blocks that were updated');
is( $node->safe_psql(
		'postgres', q{SELECT count(*) FROM pg_calm_regions() WHERE age_seconds NOT BETWEEN 0 AND 60}),
	0,
	'ages are plausible');

$node->safe_psql('postgres', 'UPDATE known SET n = n + 1 WHERE id IN (77, 79)');
evict();
is(region_counts($node, 'known'), '0:5 1024:2 2048:1', 'a block written twice counts once');

my $before = status_of($node);
is($before->{unflushed_pages},
	$node->safe_psql('postgres',
		'SELECT sum(unflushed_pages) FROM pg_calm_regions()'),
	'the status is the sum of the regions');

$node->safe_psql('postgres', 'CHECKPOINT');
is(region_counts($node, 'known'), 'none', 'none after a checkpoint');
my $after = status_of($node);
cmp_ok(
	$after->{flushed_pages} + $after->{fsynced_pages} - $before->{flushed_pages} -
	  $before->{fsynced_pages},
	'>=',
	8,
	'what was marked was written');
is($after->{kernel_flushed_pages}, $before->{kernel_flushed_pages}, 'and not by the kernel');

# --- marked pages that the kernel has written are gaps like others when the
# worker flushes: clean ones in the middle of a run would split it

# SYNC_FILE_RANGE_WAIT_BEFORE, _WRITE and _WAIT_AFTER of some blocks
sub write_back
{
	my ($path, $first, $blocks) = @_;
	my $number = { x86_64 => 277, aarch64 => 84 }->{ (POSIX::uname())[4] } // return 0;

	open(my $file, '<', $path) or die "$path: $!";
	return syscall($number, fileno($file), $first * 8192, $blocks * 8192, 7) == 0;
}

SKIP:
{
	my $why = cannot_bridge($node);
	skip $why, 4 if $why;
	my $path = $node->data_dir . '/' . $node->safe_psql('postgres', q{SELECT pg_relation_filepath('known')});

	$node->append_conf('postgresql.conf', "pg_calm.write_iops = 100\npg_calm.write_bandwidth = '100MB'\n");
	$node->reload;
	# a scan prunes the blocks that were updated before
	$node->safe_psql('postgres', 'VACUUM (FREEZE) known');
	$node->safe_psql('postgres', 'CHECKPOINT');
	$node->safe_psql('postgres', 'UPDATE known SET n = n + 1 WHERE id BETWEEN 100 AND 163');
	evict();
	is(region_counts($node, 'known'), '0:64', 'blocks in a row');
	skip 'sync_file_range is not to be had', 3 unless write_back($path, 120, 2) && write_back($path, 140, 1);
	$before = status_of($node);
	$node->append_conf('postgresql.conf', "pg_calm.flush_age = '100ms'\n");
	$node->reload;
	my $flushed = wait_for(
		sub {
			$after = status_of($node);
			return region_counts($node, 'known') eq 'none' &&
			  $after->{flushed_pages} - $before->{flushed_pages} >= 61;
		});
	ok($flushed, 'the worker flushes what is left of them');
	is($after->{kernel_flushed_pages} - $before->{kernel_flushed_pages}, 3, 'some were written by the kernel');
	cmp_ok($after->{bridged_pages} - $before->{bridged_pages}, '>=', 3, 'and are bridged');
	$node->append_conf('postgresql.conf', "pg_calm.flush_age = '1h'\n");
	$node->reload;
}

# --- file descriptors that come to stand for other files

# More files in one session than it may have open, of 150 blocks each
$node->safe_psql(
	'postgres', q{
DO $$BEGIN
	FOR i IN 1..100 LOOP
		EXECUTE format('CREATE TABLE recycled_%s AS SELECT i, repeat(''x'', 1900) AS filler FROM generate_series(1, 600) i', i);
	END LOOP;
END$$});
evict();
is( $node->safe_psql(
		'postgres', q{
SELECT count(*), min(unflushed_pages) >= 22, max(unflushed_pages) <= 150
  FROM pg_calm_regions() JOIN pg_class ON path LIKE '%/' || pg_relation_filepath(oid)
 WHERE relname LIKE 'recycled\_%'}),
	'100|t|t',
	'each file has its own blocks, though file descriptors were used again');

# --- what is not tracked

my $data_dir = realpath($node->data_dir);

# Paths of regions that are not those of data files, or are of temporary ones
sub strange_paths
{
	return join ' ', grep { $_ !~ m{^\Q$data_dir\E/(base/\d+|global)/\d+(_(fsm|vm|init))?(\.\d+)?$} }
	  split /\n/, $node->safe_psql('postgres', 'SELECT path FROM pg_calm_regions()');
}

# the temporary table is larger than its buffers, the sort than its memory
my $temporary = $node->safe_psql(
	'postgres', q{
SET temp_buffers = '800kB';
SET work_mem = '64kB';
CREATE TEMP TABLE temporary AS SELECT i, repeat('x', 500) AS filler FROM generate_series(1, 20000) i;
CREATE TABLE sorted AS SELECT i FROM temporary ORDER BY md5(i::text) || filler;
SELECT pg_relation_size('temporary') > 8000000;
SELECT string_agg(path, ' ') FROM pg_calm_regions() WHERE path ~ '/t[0-9]+_[0-9]+|pgsql_tmp';
});
like($temporary, qr/^t\n?$/, 'there was a temporary table, and it is not tracked');
is(strange_paths(), '', 'only data files are tracked');
ok($node->poll_query_until('postgres', 'SELECT sum(temp_bytes) > 0 FROM pg_stat_database'),
	'there were temporary files');

# SLRU pages and WAL: many transactions, and subtransactions
$node->safe_psql(
	'postgres', q{
DO $$BEGIN
	FOR i IN 1..2000 LOOP
		BEGIN INSERT INTO sorted VALUES (i); EXCEPTION WHEN OTHERS THEN NULL; END;
	END LOOP;
END$$;
SELECT pg_switch_wal();
CHECKPOINT});
is(strange_paths(), '', 'nor WAL, nor transaction status');

$node->stop;

done_testing();

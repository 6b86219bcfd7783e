
# A page map that is full: what finds no room is counted, said, and left to the server's own
# flush hints, and nothing waits for it.  Room is made by what is clean.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use CalmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $why = cannot_trace();
plan skip_all => $why if $why;

# It has room for some 560 files and 4,300 regions.  Few buffers, so that all is written soon;
# nothing is flushed but by a checkpoint.
my $node = calm_node('map_full', q{
shared_buffers = 1MB
bgwriter_lru_maxpages = 0
checkpoint_flush_after = '256kB'
max_wal_size = 10GB
pg_calm.page_map_memory = '1MB'
pg_calm.flush_age = '1h'
pg_calm.unflushed_limit = '10GB'
});
$node->start;
$node->safe_psql(
	'postgres', q{
CREATE EXTENSION pg_calm;
CREATE TABLE large AS SELECT i, repeat('x', 1900) AS filler FROM generate_series(1, 4000) i;
CREATE TABLE late (i int, filler text)});

sub create
{
	my ($from, $to) = @_;

	$node->safe_psql('postgres',
		"DO \$\$ BEGIN FOR i IN $from .. $to LOOP EXECUTE format('CREATE TABLE many_%s AS SELECT 1 AS i', i); END LOOP; END \$\$");
	return;
}

# Insert a row into the last block of each of these, once they are so large.  What is added
# to a file in this way is a hole, which reads as new pages.
sub insert_at
{
	my ($from, $to, $bytes) = @_;
	my $paths = $node->safe_psql('postgres',
		"SELECT pg_relation_filepath('many_' || i) FROM generate_series($from, $to) i");

	foreach my $path (split /\n/, $paths)
	{
		truncate($node->data_dir . "/$path", $bytes) or die "could not truncate $path: $!";
	}
	$node->safe_psql('postgres',
		"DO \$\$ BEGIN FOR i IN $from .. $to LOOP EXECUTE format('INSERT INTO many_%s VALUES (2)', i); END LOOP; END \$\$");
	# out of the buffers
	$node->safe_psql('postgres', q{
SELECT count(*) FROM large WHERE ctid = ANY (ARRAY(SELECT format('(%s,1)', i)::tid FROM generate_series(0, 999) i))});
	return;
}

sub map_full { return status_of($node)->{map_full}; }

# --- no room for a region of a file that has others

my $region = 8 << 20;
create(1, 480);
$node->safe_psql('postgres', 'CHECKPOINT');
insert_at(1, 480, $_ * $region + (2 << 20)) foreach 0 .. 7;
is(map_full(), 0, 'there is room');
is(region_counts($node, 'many_480'), join(' ', map { $_ * 1024 . ':1' } 0 .. 7), 'for all');
insert_at(1, 480, $_ * $region + (2 << 20)) foreach 8, 9;
cmp_ok(map_full(), '>', 0, 'what finds none is counted');
isnt(region_counts($node, 'many_480'), 'none', 'of a file that is tracked');
# the kernel may have written some back meanwhile, and so have made room
my $next = 10;
ok( wait_for(
		sub {
			insert_at(1, 480, $next++ * $region + (2 << 20));
			$node->safe_psql('postgres', q{INSERT INTO many_480 VALUES (3)});
			return hints_obeyed($node, 'many_480') > 0;
		}),
	'its hints are obeyed');
ok( wait_for(
		sub {
			(status_of($node)->{degraded} // '') =~
			  /^pg_calm.page_map_memory is too small: some pages are not tracked$/;
		}),
	'the status says so');
like(slurp_file($node->logfile), qr/LOG:  pg_calm: pg_calm.page_map_memory is too small/, 'and the log');

# --- no room for a file

create(481, 700);
$node->restart;
# who makes room in a quarter of a second
my $worker = status_of($node)->{worker_pid};
kill 'STOP', $worker;
insert_at(1, 700, 11 * $region + (2 << 20));
cmp_ok(map_full(), '>', 0, 'files that find none are counted');
$node->safe_psql('postgres', q{INSERT INTO late SELECT i, repeat('x', 1900) FROM generate_series(1, 2000) i});
is(region_counts($node, 'late'), 'none', 'and not tracked');
cmp_ok(hints_obeyed($node, 'late'), '>', 0, 'their hints are obeyed');

# then room is made
kill 'CONT', $worker;
ok( wait_for(
		sub {
			$node->safe_psql('postgres', q{UPDATE late SET i = i + 1});
			return region_counts($node, 'late') ne 'none';
		}),
	'what is clean makes room');
is( $node->safe_psql('postgres',
		q{SELECT count(*) FROM pg_class WHERE relname LIKE 'many\_%' AND pg_relation_size(oid) > 8388608}),
	700,
	'the server goes on');
$node->stop;
command_ok([ 'pg_checksums', '--check', '-D', $node->data_dir ], 'checksums are right');

done_testing();


# Files under 1 MB, of which there can be a hundred thousand, are not tracked: the server's
# own flush hints for them are obeyed.  One that grows is.

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

# Nothing is flushed before a checkpoint
my $node = calm_node('small_files', q{
shared_buffers = 16MB
checkpoint_flush_after = '256kB'
bgwriter_lru_maxpages = 0
max_wal_size = 4GB
pg_calm.flush_age = '1h'
});
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION pg_calm; CREATE TABLE t (i int, filler text)');

# Add rows, four to a page
sub insert
{
	my ($rows) = @_;

	$node->safe_psql('postgres',
		"INSERT INTO t SELECT i, repeat('x', 1900) FROM generate_series(1, $rows) i");
	return;
}

$node->safe_psql('postgres', 'CHECKPOINT');
insert(300);
cmp_ok($node->safe_psql('postgres', q{SELECT pg_relation_size('t')}), '<', 1 << 20, 'a small file');
is(region_counts($node, 't'), 'none', 'it is not tracked');
cmp_ok(hints_obeyed($node, 't'), '>', 0, 'its hints are obeyed');
is(status_of($node)->{map_full}, 0, 'though there is room');

insert(2000);
isnt(region_counts($node, 't'), 'none', 'once it has grown it is');
# the checkpointer learns of it in this one
$node->safe_psql('postgres', 'CHECKPOINT');
$node->safe_psql('postgres', 'UPDATE t SET i = i + 1');
my $before = status_of($node)->{suppressed_hints};
is(hints_obeyed($node, 't'), 0, 'and its hints are dropped');
cmp_ok(status_of($node)->{suppressed_hints}, '>', $before, 'as the status says');

$node->stop;
done_testing();

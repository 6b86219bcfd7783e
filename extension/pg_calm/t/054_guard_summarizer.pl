
# A summarizer of WAL that does not come on keeps WAL as a slot does: the guard names it, and goes by
# what is left.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use CalmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'PG_CALM_SMALL_FILESYSTEM is not set: see test/run_tests.sh'
  unless $ENV{PG_CALM_SMALL_FILESYSTEM};

my $node = calm_node(
	'summarizer', q{
shared_preload_libraries = 'pg_calm_guard'
max_wal_size = 32MB
}, '--wal-segsize=1');
plan skip_all => 'the server has no WAL summarizer' if $node->pg_version < 17;
$node->append_conf('postgresql.conf', 'summarize_wal = on');
{
	local $ENV{LD_PRELOAD} = $ENV{PG_CALM_SMALL_FILESYSTEM};
	$node->start;
}
$node->safe_psql('postgres', 'CREATE EXTENSION pg_calm_guard');
sub space
{
	my ($column) = @_;

	return $node->safe_psql('postgres',
		"SELECT $column FROM pg_calm_guard WHERE input = 'wal_space'");
}

# It has begun, and is at the last redo point
$node->safe_psql('postgres', 'CHECKPOINT');
ok( $node->poll_query_until(
		'postgres',
		'SELECT summarized_lsn >= redo_lsn FROM pg_get_wal_summarizer_state(), pg_control_checkpoint()'),
	'the summarizer is at the last redo point');
is(space(q{object = 'WAL summarizer'}), 'f', 'it keeps nothing then');

my $summarizer = process_id($node, 'walsummarizer');
kill 'STOP', $summarizer;
for (1 .. 46)
{
	$node->safe_psql('postgres', 'SELECT txid_current(), pg_switch_wal()');
	$node->safe_psql('postgres', 'CHECKPOINT') if $_ % 10 == 0;
}
ok(wait_for(sub { space(q{object = 'WAL summarizer' AND state IN ('pacing', 'refusing')}) eq 't' }),
	'stopped, it is named, and writers would be held')
  or diag space('pg_calm_guard');

kill 'CONT', $summarizer;
ok(wait_for(sub { $node->safe_psql('postgres', 'CHECKPOINT');
			space(q{object = 'WAL summarizer' OR state IN ('pacing', 'refusing')}) eq 'f' }),
	'when it goes on, nothing is');
$node->stop;
done_testing();

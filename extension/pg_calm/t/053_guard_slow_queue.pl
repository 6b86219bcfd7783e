
# An archive_status that takes long to read, as one of 100,000s of files does: the guard sees in time
# that the archive is behind, and that it no longer is.

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
	'slow_queue', q{
archive_mode = on
archive_command = 'false'
shared_preload_libraries = 'pg_calm_guard'
max_wal_size = 1GB
pg_calm_guard.archive_backlog = '2MB'
pg_calm_guard.wal_space = 0
pg_calm_guard.patience = '1h'
}, '--wal-segsize=1');
{
	local $ENV{LD_PRELOAD} = $ENV{PG_CALM_SMALL_FILESYSTEM};
	# a hundred times as long is longer than anything is waited for here
	local $ENV{PG_CALM_SLOW_QUEUE} = 2000;
	$node->start;
}
$node->safe_psql('postgres', 'CREATE EXTENSION pg_calm_guard');

sub guard
{
	my ($column) = @_;

	return $node->safe_psql('postgres', "SELECT $column FROM pg_calm_guard WHERE input = 'archive'");
}

ok(wait_for(sub { return guard('state') eq 'watched' }, 90), 'the archive is watched');
$node->safe_psql('postgres', 'SELECT txid_current(); SELECT pg_switch_wal()') foreach 1 .. 8;
ok(wait_for(sub { return guard('state') eq 'pacing' }, 90), 'a backlog is seen');
$node->safe_psql('postgres', "ALTER SYSTEM SET archive_command = 'true'");
$node->reload;
$node->safe_psql('postgres', 'SELECT txid_current(); SELECT pg_switch_wal()');
ok(wait_for(sub { return guard('state') eq 'watched' }, 90), 'and when it is gone');

$node->stop('immediate');
done_testing();

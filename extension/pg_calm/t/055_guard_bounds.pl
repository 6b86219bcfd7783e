
# What bounds the guard on a large volume, and with much to pay.

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
	'bounds', q{
shared_preload_libraries = 'pg_calm_guard'
pg_calm_guard.mode = on
max_wal_size = 8MB
}, '--wal-segsize=1');
{
	local $ENV{LD_PRELOAD} = $ENV{PG_CALM_SMALL_FILESYSTEM};
	local $ENV{PG_CALM_FILESYSTEM_MB} = 1000;
	$node->start;
}
$node->safe_psql('postgres', 'CREATE EXTENSION pg_calm_guard');

sub set
{
	my (@settings) = @_;

	$node->safe_psql('postgres', "ALTER SYSTEM SET $_") foreach @settings;
	$node->reload;
	return;
}

# --- what is kept free

sub keeps_free
{
	my ($megabytes, $name) = @_;
	my $ok = wait_for(
		sub { guard_input($node, 'wal_space', "value_limit = $megabytes * 1024 * 1024") eq 'true' });

	diag(guard_input($node, 'wal_space', 'value_limit')) unless $ok;
	return ok($ok, $name);
}

keeps_free(8, 'of a large volume no more than max_wal_size is kept free');
set("max_wal_size = '2MB'");
keeps_free(4, 'but four segments');
set("max_wal_size = '1GB'");
keeps_free(20, 'and no more than its part');
set("pg_calm_guard.wal_space = '1MB'");
keeps_free(2, 'less than two segments is not kept free by any setting');

$node->stop('immediate');
done_testing();


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

# --- what is owed for one large transaction: at this rate two minutes' worth

$node->safe_psql(
	'postgres', q{
CREATE ROLE app LOGIN;
CREATE TABLE filler (t text);
GRANT ALL ON filler TO app;
SELECT pg_create_physical_replication_slot('behind', true);
DO $$
BEGIN
	FOR i IN 1 .. 80 LOOP
		PERFORM txid_current(), pg_switch_wal();
		COMMIT;
	END LOOP;
END$$;
CHECKPOINT});
set("pg_calm_guard.wal_space = '850MB'", "pg_calm_guard.patience = '1s'");
ok( wait_for(
		sub {
			guard_input($node, 'wal_space',
				"object = 'behind' AND state = 'pacing' AND allowed_rate BETWEEN 200000 AND 300000") eq 'true';
		}),
	'a slot has writers paced');
$node->psql(
	'postgres', "INSERT INTO filler SELECT repeat(md5(i::text), 30) FROM generate_series(1, 30000) i",
	extra_params => [ '-U', 'app' ], timeout => 60, timed_out => \my $timed_out);
ok(!$timed_out, 'nobody pays for longer than the patience');
is(guard_input($node, 'wal_space', 'holds > 0'), 'true', 'but as long');
$node->stop('immediate');
done_testing();

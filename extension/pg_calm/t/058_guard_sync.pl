
# A checkpoint whose fsync takes long comes on, though nothing of it is seen: beyond max_wal writers
# are not stopped for it.  One that never ends holds nobody for ever.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use CalmTest;
use IPC::Run qw(start);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'PG_CALM_SMALL_FILESYSTEM is not set: see test/run_tests.sh'
  unless $ENV{PG_CALM_SMALL_FILESYSTEM};

my $held = PostgreSQL::Test::Utils::tempdir() . '/held';
my $node = calm_node(
	'sync', q{
log_checkpoints = on
max_wal_size = 512MB
shared_preload_libraries = 'pg_calm_guard'
pg_calm_guard.mode = on
pg_calm_guard.wal_space = 0
pg_calm_guard.max_wal = '4MB'
pg_calm_guard.patience = '1h'
}, '--wal-segsize=1');
{
	local $ENV{LD_PRELOAD} = $ENV{PG_CALM_SMALL_FILESYSTEM};
	local $ENV{PG_CALM_HELD_SYNC} = $held;
	$node->start;
}
# the guard has no reason of its own for a checkpoint yet
$node->safe_psql('postgres', 'CREATE EXTENSION pg_calm_guard; CREATE TABLE filler (t text); CHECKPOINT');
$node->safe_psql('postgres', 'INSERT INTO filler SELECT i FROM generate_series(1, 1000) i');

my $offset = -s $node->logfile;
write_file($held, '');
my ($out, $err) = ('', '');
my $checkpoint =
  start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', 'CHECKPOINT' ], '>', \$out, '2>', \$err);
ok(wait_for(sub { slurp_file($node->logfile, $offset) =~ /checkpoint starting/ }), 'a checkpoint has begun');
$node->safe_psql('postgres', 'INSERT INTO filler SELECT repeat(md5(i::text), 30) FROM generate_series(1, 1000) i')
  foreach 1 .. 8;
ok(wait_for(sub { guard_input($node, 'max_wal', 'value > value_limit') eq 'true' }),
	'a superuser goes beyond the limit meanwhile');
is(guard_input($node, 'max_wal', "state = 'pacing' AND allowed_rate >= 256 * 1024"),
	'true', 'others are paced, and not stopped')
  or diag(guard_input($node, 'max_wal', 'pg_calm_guard'));

$node->safe_psql('postgres', "ALTER SYSTEM SET pg_calm_guard.patience = '1s'");
$node->reload;
guard_reaches($node, 'max_wal', 'released', 'when it does not end they are released');
unlink $held;
ok($checkpoint->finish, 'it ends') or diag($err);
$node->stop;
done_testing();

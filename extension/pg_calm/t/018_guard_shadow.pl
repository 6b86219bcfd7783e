
# The guard as it is when it is loaded, in shadow: it holds nobody and leaves
# checkpoints alone, but counts, and tells when the disk of pg_wal will be full.

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
	'shadow', q{
shared_preload_libraries = 'pg_calm_guard'
archive_mode = on
archive_command = 'false'
min_wal_size = 2MB
max_wal_size = 1GB
pg_calm_guard.exempt_superusers = off
}, '--wal-segsize=1');
{
	local $ENV{LD_PRELOAD} = $ENV{PG_CALM_SMALL_FILESYSTEM};
	$node->start;
}
$node->safe_psql('postgres', 'CREATE EXTENSION pg_calm_guard; CREATE TABLE filler (t text)');

sub wal_space
{
	my ($column) = @_;

	return $node->safe_psql('postgres',
		"SELECT coalesce(($column)::text, 'null') FROM pg_calm_guard WHERE input = 'wal_space'");
}

sub make_wal
{
	$node->safe_psql('postgres',
		"INSERT INTO filler SELECT repeat(md5(i::text), 30) FROM generate_series(1, 900) i; SELECT pg_switch_wal()"
	);
	return;
}

is($node->safe_psql('postgres', 'SHOW pg_calm_guard.mode'), 'shadow', 'loaded is in shadow');
ok(wait_for(sub { wal_space('state') eq 'watched' }), 'space for WAL is watched');
is(wal_space('full_at'), 'null', 'and far from used up');

# --- an archive that takes nothing

ok( wait_for(sub { make_wal(); return wal_space('full_at IS NOT NULL') eq 'true' }, 120),
	'the view tells when it will be full');
is(wal_space('object IN (\'archive\', \'checkpoint\') AND behind_since < full_at'),
	'true', 'and since when something has been behind');
like(
	slurp_file($node->logfile),
	qr/WARNING: .*at this rate the filesystem of pg_wal is full at \d{4}-\d\d-\d\d \d\d:\d\d\n.*DETAIL: .*"archive" has been behind since/,
	'the log has it, and who');
ok( wait_for(sub { make_wal(); return wal_space('state IN (\'pacing\', \'refusing\') AND holds > 0') eq 'true' }, 120),
	'writers would be held: that is counted');
is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_calm_guard_holds'), '0', 'but nobody is');
unlike(slurp_file($node->logfile), qr/checkpoint starting: wal/, 'no checkpoint is asked for');

# --- on by reload, without a restart

$node->safe_psql('postgres', "ALTER SYSTEM SET pg_calm_guard.mode = off");
$node->reload;
ok(wait_for(sub { wal_space('state') eq 'off' }), 'off by reload');
$node->safe_psql('postgres', "ALTER SYSTEM SET pg_calm_guard.mode = on");
$node->safe_psql('postgres', "ALTER SYSTEM SET archive_command = 'true'");
$node->reload;
ok( wait_for(sub { $node->safe_psql('postgres', 'CHECKPOINT'); return wal_space('full_at') eq 'null' }, 120),
	'the archive takes it: nothing is to be foreseen');

# --- a slot whose bound ends it before the room is used up

$node->safe_psql('postgres', "ALTER SYSTEM SET $_")
  foreach 'pg_calm_guard.mode = shadow', "max_slot_wal_keep_size = '34MB'", "max_wal_size = '4MB'";
$node->reload;
ok( wait_for(
		sub {
			$node->safe_psql('postgres', 'CHECKPOINT');
			return wal_space('value > 50 * 1024 * 1024') eq 'true';
		},
		120),
	'there is room again');
ok(wait_for(sub { wal_space('state') eq 'watched' }), 'and nothing to wait for');
my $offset = -s $node->logfile;
$node->safe_psql('postgres', q{SELECT pg_create_physical_replication_slot('bounded', true)});
my $seen;
do
{
	make_wal();
	$node->safe_psql('postgres', 'SELECT pg_sleep(0.3)');
	$seen = wal_space("state || coalesce(' ' || full_at::text, '')");
} while ($seen eq 'watched'
	&& $node->safe_psql('postgres', 'SELECT wal_status FROM pg_replication_slots') ne 'lost');
is($seen, 'watched', 'nobody would be held for it');
unlike(slurp_file($node->logfile, $offset), qr/is full at/, 'nor is anybody warned');

# --- two slots that go past each other, and each time are further behind

$node->safe_psql('postgres', 'ALTER SYSTEM SET max_slot_wal_keep_size = -1');
$node->reload;
$node->safe_psql(
	'postgres', q{
SELECT pg_drop_replication_slot('bounded');
SELECT pg_create_physical_replication_slot(name, true) FROM unnest(ARRAY['one', 'other']) name});
ok( wait_for(sub { make_wal(); return wal_space('full_at IS NOT NULL') eq 'true' }, 120),
	'two slots that are behind: it is foreseen');
$offset = -s $node->logfile;
for (1 .. 8)
{
	make_wal();
	$node->safe_psql(
		'postgres', q{
SELECT pg_replication_slot_advance(slot_name, (SELECT max(restart_lsn) + 262144 FROM pg_replication_slots))
	FROM pg_replication_slots ORDER BY restart_lsn LIMIT 1;
SELECT pg_sleep(0.6)});
	$seen = wal_space("CASE WHEN full_at IS NOT NULL THEN 'foreseen' END");
	last if $seen eq 'null';
}
is($seen, 'foreseen', 'whichever of them is the last');
unlike(slurp_file($node->logfile, $offset), qr/no longer about to be full/, 'nor is that taken back');
$node->stop;

done_testing();

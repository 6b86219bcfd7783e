
# The room for WAL at its end.  A slot that comes on in one leap frees nothing before a checkpoint
# has ended: until then the guard gives out no more than the room there is.  Nobody begins to write
# with little of it, whatever else is behind; and when the slot is gone, somebody has to free it.

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
	'leap', q{
shared_preload_libraries = 'pg_calm_guard'
archive_mode = on
archive_command = 'true'
max_replication_slots = 2
pg_calm_guard.patience = '1h'
max_wal_size = 1GB
}, '--wal-segsize=1');
{
	local $ENV{LD_PRELOAD} = $ENV{PG_CALM_SMALL_FILESYSTEM};
	$node->start;
}
$node->safe_psql('postgres',
	q{CREATE EXTENSION pg_calm_guard; SELECT pg_create_physical_replication_slot('behind', true)});

# Those made for later are as good as free.  14 of 64 segments are; what the next checkpoint could
# free by itself is little
$node->safe_psql(
	'postgres', q{
CREATE PROCEDURE fill(segments int) LANGUAGE plpgsql AS $$
BEGIN
	WHILE (SELECT count(*) < segments FROM pg_ls_waldir()
			WHERE name ~ '^[0-9A-F]{24}$' AND name <= pg_walfile_name(pg_current_wal_lsn())) LOOP
		PERFORM txid_current(), pg_switch_wal();
		COMMIT;
	END LOOP;
END$$;
CALL fill(46);
CHECKPOINT;
CALL fill(50)});
sub space
{
	my ($column) = @_;

	return $node->safe_psql('postgres',
		"SELECT coalesce(($column)::text, 'null') FROM pg_calm_guard WHERE input = 'wal_space'");
}
ok(wait_for(sub { space("object = 'behind' AND state IN ('pacing', 'refusing')") eq 'true' }),
	'writers would be held for a slot');

# as much as that is given out in two seconds at most, and the rest of a segment; no rate is no limit
my $most = $node->safe_psql(
	'postgres', q{
SELECT pg_replication_slot_advance('behind', pg_current_wal_lsn() - 13 * 1024 * 1024);
CREATE TEMP TABLE seen (excess float8, object text);
DO $$
BEGIN
	FOR i IN 1 .. 100 LOOP
		INSERT INTO seen
			SELECT coalesce(allowed_rate, 'infinity') - (value - value_limit + 1024 * 1024) / 2, object
			FROM pg_calm_guard WHERE input = 'wal_space';
		COMMIT;
		PERFORM pg_sleep(0.02);
	END LOOP;
END$$;
SELECT bool_and(object = 'behind') || ' ' || max(excess) FROM seen});
like($most, qr/true/, 'it is behind still');
my ($excess) = $most =~ /(\S+)$/;
cmp_ok($excess, '<=', 0, 'no more is given out than there is room for');

# --- less than a segment, and an archive that is behind, too

my $checkpointer = process_id($node, 'checkpointer');
kill 'STOP', $checkpointer;
$node->safe_psql('postgres', "ALTER SYSTEM SET archive_command = 'false'");
$node->reload;
$node->safe_psql(
	'postgres', q{
CREATE TABLE filler (t text);
CREATE ROLE app LOGIN;
GRANT ALL ON filler TO app;
DO $$
BEGIN
	WHILE (SELECT value > value_limit FROM pg_calm_guard WHERE input = 'wal_space') LOOP
		PERFORM txid_current(), pg_switch_wal();
		COMMIT;
		PERFORM pg_sleep(0.6);
	END LOOP;
END$$});
# the leap is forgotten by and by
ok(wait_for(sub { return space('allowed_rate > 0 AND allowed_rate < 60 * 1024') eq 'true' }),
	'nearly no room is left');
$node->safe_psql('postgres', "ALTER SYSTEM SET $_")
  foreach "pg_calm_guard.archive_backlog = '2MB'", 'pg_calm_guard.mode = on';
$node->reload;
ok( wait_for(
		sub {
			$node->safe_psql('postgres',
				"SELECT allowed_rate < 1 AND binding FROM pg_calm_guard WHERE input = 'archive'") eq 't';
		}),
	'an archive that takes nothing allows less');
my ($result, undef, $error) = $node->psql(
	'postgres',
	"SET statement_timeout = '3s'; INSERT INTO filler VALUES ('begun')",
	extra_params => [ '-U', 'app' ]);
like($error, qr/canceling statement due to statement timeout/, 'nobody begins to write');
is($node->safe_psql('postgres', 'SELECT count(*) FROM filler'), '0', 'or has');

kill 'CONT', $checkpointer;
$node->safe_psql('postgres', "ALTER SYSTEM SET $_")
  foreach 'pg_calm_guard.archive_backlog = 0', "pg_calm_guard.patience = '1s'", "archive_command = 'true'";
$node->reload;

# --- a slot that is dropped leaves as much as a leap does, and as little room

ok( $node->poll_query_until(
		'postgres', q{SELECT count(*) = 0 FROM pg_ls_archive_statusdir() WHERE name ~ 'ready$'}),
	'the archive keeps nothing any more');
# until a cycle of checkpoints was without pressure
ok(wait_for(sub { $node->safe_psql('postgres', 'CHECKPOINT'); return space('state') eq 'watched' }), 'there is room');
$node->safe_psql('postgres', $_) foreach 'CALL fill(46)', 'CHECKPOINT', 'CALL fill(50)';
ok(wait_for(sub { space("object = 'behind' AND state = 'pacing'") eq 'true' }), 'writers are held for a slot');
kill 'STOP', $checkpointer;
$node->safe_psql('postgres', q{SELECT pg_drop_replication_slot('behind')});
ok(wait_for(sub { space("object = 'checkpoint'") eq 'true' }), 'then a checkpoint is waited for');
is(space("coalesce(allowed_rate, 'infinity') <= (value - value_limit + 1024 * 1024) / 2"),
	'true', 'no more is given out than there is room for');
kill 'CONT', $checkpointer;

# --- and one that is while all are refused: nobody writes, and yet a checkpoint has to free it

$node->safe_psql('postgres', 'CHECKPOINT');
$node->safe_psql('postgres', q{SELECT pg_create_physical_replication_slot('behind', true)});
$node->safe_psql('postgres', 'CALL fill(61)');
$node->safe_psql('postgres', 'CHECKPOINT') foreach 1 .. 2;
ok(wait_for(sub { space("object = 'behind' AND state = 'refusing'") eq 'true' }), 'writers are refused');
$node->safe_psql('postgres', q{SELECT pg_drop_replication_slot('behind')});
ok(wait_for(sub { space("state <> 'refusing'") eq 'true' }), 'without the slot they are not');
$node->stop('immediate');
done_testing();

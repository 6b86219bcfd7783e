# pg_calm_status tells how long a fast stop and recovery would take: the more is dirty or
# unflushed, the longer; in fewer operations where blocks are neighbours, which no bridge makes them
# in a stop; the same at each look; nothing without a cap, and of recovery not before there was one.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use CalmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $node = calm_node('stop_estimate', q{
shared_buffers = 64MB
max_wal_size = 10GB
bgwriter_lru_maxpages = 0
pg_calm.mode = shadow
pg_calm.write_iops = 100
});
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION pg_calm');
$node->safe_psql('postgres', 'CHECKPOINT');
ok(wait_for(sub { status_of($node)->{unflushed_pages} == 0 }), 'nothing is unflushed');

my $clean = status_of($node);
cmp_ok($clean->{dirty_buffers}, '<', 20, 'hardly a buffer is dirty after a checkpoint');
is($clean->{recovery_seconds}, undef, 'no recovery was seen');

# Blocks with room for new versions of their rows, so that nothing else is written
$node->safe_psql('postgres', q{
CREATE TABLE t (i int, filler text) WITH (fillfactor = 50);
INSERT INTO t SELECT i, repeat('x', 1000) FROM generate_series(1, 5000) i});
my $new = status_of($node);
cmp_ok($new->{dirty_buffers} - $clean->{dirty_buffers}, '>', 1500, 'a new table is dirty');
cmp_ok($new->{stop_seconds}, '>', $clean->{stop_seconds}, 'a stop takes longer then');

# What a stop takes for each buffer that an update of these rows makes dirty
sub seconds_per_buffer
{
	my ($rows) = @_;

	# hint bits are set, and all is written
	$node->safe_psql('postgres', 'SELECT count(*) FROM t');
	$node->safe_psql('postgres', 'CHECKPOINT');
	ok(wait_for(sub { status_of($node)->{unflushed_pages} == 0 }), 'all is flushed');
	my $before = status_of($node);
	cmp_ok($before->{dirty_buffers}, '<', 20, 'and clean');
	$node->safe_psql('postgres', "UPDATE t SET i = -i WHERE $rows");
	my $after = status_of($node);
	my $buffers = $after->{dirty_buffers} - $before->{dirty_buffers};
	cmp_ok($buffers, '>', 10, 'not after an update');
	return ($after->{stop_seconds} - $before->{stop_seconds}) / $buffers;
}

my $neighbours = seconds_per_buffer('(ctid::text::point)[0] < 1000');
# farther apart than a gap that is bridged
my $scattered = seconds_per_buffer('(ctid::text::point)[0]::int % 80 = 0');
cmp_ok($scattered, '>', 3 * $neighbours, 'scattered blocks take longer than neighbours');

# --- unflushed pages: a stop finds gaps between them as they are, since the worker ends before

$node->safe_psql('postgres', q{
ALTER SYSTEM SET pg_calm.flush_age = '1h';
ALTER SYSTEM SET pg_calm.unflushed_limit = '10GB'});
$node->reload;
$node->safe_psql('postgres', 'CHECKPOINT');
$node->safe_psql('postgres', "UPDATE t SET i = -i WHERE (ctid::text::point)[0]::int % 8 = 0");
my $dirty = status_of($node);
my $backup = IPC::Run::start(
	[ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', "SELECT pg_backup_start('x')" ],
	'>', \my $out, '2>', \my $err);
ok(wait_for(sub { status_of($node)->{unflushed_pages} > $dirty->{dirty_buffers} / 2 }),
	'a spread checkpoint has written half of them');
my $unflushed = status_of($node);
cmp_ok($unflushed->{bridged_gap}, '>', 7, 'the worker would bridge their gaps');
cmp_ok($unflushed->{stop_seconds}, '>', 0.9 * $dirty->{stop_seconds}, 'a stop would not');
$node->safe_psql('postgres', 'CHECKPOINT');
$backup->finish;

$node->safe_psql('postgres', q{SELECT count(pg_logical_emit_message(false, 'x', repeat('x', 1000000))) FROM generate_series(1, 300)});
ok(kill_node($node), 'killed');
$node->start;
# an idle worker wakes ten times per second
ok(wait_for(sub { defined status_of($node)->{recovery_seconds} }), 'a server that has recovered knows how fast it did');
my $recovered = status_of($node)->{recovery_seconds};
$node->safe_psql('postgres', 'UPDATE t SET i = -i');
my $checkpoint = status_of($node);
my $wal = $node->safe_psql('postgres',
	'SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), redo_lsn) FROM pg_control_checkpoint()');
cmp_ok($checkpoint->{recovery_seconds} - $wal / $checkpoint->{replay_rate},
	'>', 0.9 * $checkpoint->{stop_seconds}, 'it ends with a checkpoint as that of a stop');
$node->safe_psql('postgres', q{SELECT count(pg_logical_emit_message(false, 'x', repeat('x', 1000000))) FROM generate_series(1, 50)});
cmp_ok(status_of($node)->{recovery_seconds}, '>', $recovered, 'the more WAL, the longer the next one');

$node->safe_psql('postgres', q{ALTER SYSTEM SET pg_calm.mode = 'off'});
$node->reload;
ok(wait_for(sub { !defined status_of($node)->{stop_seconds} }), 'nothing is known of a stop in mode off, where nothing is marked');
$node->safe_psql('postgres', 'ALTER SYSTEM RESET pg_calm.mode');
$node->reload;
ok(wait_for(sub { defined status_of($node)->{stop_seconds} }), 'it is in mode on');

# what little WAL takes tells nothing
$node->safe_psql('postgres', 'CHECKPOINT; UPDATE t SET i = -i');
ok(kill_node($node), 'killed');
$node->start;
usleep(1_500_000);
is(status_of($node)->{replay_rate}, undef, 'a short recovery tells nothing of a long one');

$node->safe_psql('postgres', 'ALTER SYSTEM SET pg_calm.write_iops = -1');
$node->safe_psql('postgres', 'ALTER SYSTEM SET pg_calm.write_bandwidth = -1');
$node->reload;
ok(wait_for(sub { !defined status_of($node)->{stop_seconds} }), 'without a cap nothing is known of a stop');
$node->stop;

# --- more buffers than are sorted: other regions are looked at each time, which tell the same

my $large = calm_node('stop_estimate_large', q{
shared_buffers = 400MB
max_wal_size = 10GB
bgwriter_lru_maxpages = 0
autovacuum = off
pg_calm.mode = shadow
pg_calm.write_iops = 100
});
$large->start;
$large->safe_psql('postgres', q{
CREATE EXTENSION pg_calm;
CREATE TABLE t (i int, filler text) WITH (fillfactor = 60);
ALTER TABLE t ALTER filler SET STORAGE PLAIN;
INSERT INTO t SELECT i, repeat('x', 3900) FROM generate_series(1, 38000) i;
SELECT count(*) FROM t;
CHECKPOINT;
UPDATE t SET i = -i WHERE i % 2 = 0});
my @told = map { status_of($large) } 1 .. 8;
cmp_ok($told[0]->{dirty_buffers}, '>', 16384 + 1000, 'more is dirty than is sorted');
my @seconds = sort { $a <=> $b } map { $_->{stop_seconds} } @told;
cmp_ok($seconds[-1], '<', 1.02 * $seconds[0], 'all tell the same');
$large->stop;

done_testing();


# The checkpointer waits after each WAL segment that it recycles, within bounds.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use CalmTest;
use IPC::Run qw(start);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $node = draining_node('recycling');

# Checkpoints that are caused by WAL are not immediate.  They recycle some eight
# segments, since they expect as much WAL until the next; nothing is drained.
# None comes by time.
$node->append_conf(
	'postgresql.conf', q{
max_wal_size = 128MB
checkpoint_timeout = 1h
pg_calm.drain_timeout = 0
pg_calm.wal_recycle_delay = '400ms'
});
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION pg_calm');

sub write_wal
{
	my ($megabytes) = @_;

	$node->safe_psql('postgres',
		"SELECT pg_logical_emit_message(false, 'fill', repeat('w', 1000000)) FROM generate_series(1, $megabytes)"
	);
	return;
}

# Of all that are complete: what they recycled, and seconds that were neither
# writing nor fsyncs
sub checkpoints
{
	return map {
		/ (\d+) recycled; write=([\d.]+) s, sync=([\d.]+) s, total=([\d.]+) s/
		  ? { recycled => $1, other => $4 - $2 - $3 }
		  : ()
	} split /\n/, slurp_file($node->logfile);
}

# How many that WAL has asked for have begun
sub starts
{
	return scalar(() = slurp_file($node->logfile) =~ /checkpoint starting: wal/g);
}

# One that is not immediate, whose checkpointer is seen to wait
sub recycle
{
	my ($name) = @_;
	my $done = scalar checkpoints();
	my $begun = starts();

	# In small steps, and no more: a segment that is full before the redo point has moved
	# asks for another checkpoint, which ends the waits of this one.
	for (1 .. 100)
	{
		write_wal(4);
		last if starts() > $begun;
	}
	ok(wait_for(sub { drains($node) }), "$name: the checkpointer waits");
	ok(wait_for(sub { checkpoints() > $done }), "$name: and completes");
	return (checkpoints())[$done];
}

# the first recycles little, since nothing is known of the WAL to come
write_wal(100);
$node->safe_psql('postgres', 'CHECKPOINT');
my $checkpoint = recycle('caused by WAL');
cmp_ok($checkpoint->{recycled}, '>=', 3, 'segments are recycled');

# a wait ends with the clock's tick
cmp_ok($checkpoint->{other}, '>=', 0.39 * $checkpoint->{recycled}, 'with a wait for each');
ok(checkpoints_ended($node), 'no other checkpoint is under way');

# --- nobody who asked for it is kept waiting

write_wal(60);
my $immediate = start(
	[ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', 'CHECKPOINT' ],
	'>', \my $out, '2>', \my $err);
my $seen = 0;
while ($immediate->pumpable)
{
	$seen++ if drains($node);
	usleep(20_000);
	$immediate->pump_nb;
}
$immediate->finish;
cmp_ok((checkpoints())[-1]->{recycled}, '>=', 2, 'CHECKPOINT recycles segments, too');
is($seen, 0, 'without a wait');

# --- it ends where somebody does not want to wait, with the setting, and with the server

# Each time some thirty segments with a second for each: that nobody waits for.
$node->append_conf(
	'postgresql.conf', q{
max_wal_size = 512MB
pg_calm.wal_recycle_delay = '1s'
});
$node->reload;

# A checkpoint that waits after one of many segments, and has not completed
sub waits_for_long
{
	my ($name) = @_;
	my $done;

	ok(checkpoints_ended($node), "$name: no checkpoint is under way");
	write_wal(600);
	# as much WAL may be more than one checkpoint: one that has little to recycle ends at once
	ok( wait_for(
			sub {
				$done = scalar checkpoints();
				return 0 unless drains($node);
				usleep(300_000);
				return drains($node) && checkpoints() == $done;
			}),
		"$name: the checkpointer waits, and has not completed");
	return $done;
}

# One that somebody did not want to wait for: a second for each segment it has not taken
sub cut_short
{
	my ($name, $number) = @_;
	my $checkpoint = (checkpoints())[$number];

	cmp_ok($checkpoint->{recycled}, '>=', 15, "$name: of as many segments");
	cmp_ok($checkpoint->{other}, '<', $checkpoint->{recycled} / 2, "$name: the waits are left out");
	return;
}

# there are thirty segments to recycle once there was as much WAL
write_wal(600);
$node->safe_psql('postgres', 'CHECKPOINT');

my $done = waits_for_long('request');
$node->safe_psql('postgres', 'CHECKPOINT');
cmp_ok(scalar checkpoints(), '>', $done + 1, 'a request for an immediate checkpoint ends it');
cut_short('request', $done);

$done = waits_for_long('reload');
$node->append_conf('postgresql.conf', 'pg_calm.wal_recycle_delay = 0');
$node->reload;
ok(wait_for(sub { checkpoints() > $done }), 'a reload ends it');
cut_short('reload', $done);

$node->append_conf('postgresql.conf', "pg_calm.wal_recycle_delay = '1s'");
$node->reload;
$done = waits_for_long('shutdown');
$node->stop;
# said after the lock file is gone, which is what pg_ctl waits for
ok(wait_for(sub { slurp_file($node->logfile) =~ /database system is shut down/ }), 'a shutdown ends it');
cut_short('shutdown', $done);

done_testing();


# The governor and what the kernel flusher has queued, as a fake host shows it:
# writers are held while it waits for the data volume, and not for another's,
# nor, by default, if there is room for what they do until it is gone.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use CalmTest;
use File::Path qw(make_path);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $root = fake_host();

# No more is unflushed than the governor lets be without a look at the queue
my $node = calm_node('queue', qq{
shared_buffers = 8MB
max_wal_size = 1GB
pg_calm.write_iops = 100
pg_calm.write_bandwidth = '1MB'
pg_calm.flush_age = '1h'
pg_calm.unflushed_limit = '128MB'
pg_calm.governor_patience = '1h'
pg_calm.governor_writeback = on
});

sub insert
{
	my ($rows) = @_;

	$rows //= 1000;
	$node->safe_psql('postgres', "INSERT INTO t SELECT i, repeat('x', 500) FROM generate_series(1, $rows) i");
	return;
}

sub vmstat
{
	my ($writeback) = @_;

	write_file("$root/proc/vmstat",
		"nr_dirty 20000\nnr_writeback $writeback\nnr_dirty_background_threshold 1000000\nnr_dirty_threshold 2000000\n");
	return;
}

my $number;
my ($writes, $sectors) = (1000, 1000);

# The data volume writes so much more.  In one go, since a reader between two
# writes would see its counters go back.
sub device_writes
{
	my ($more_writes, $more_sectors) = @_;

	$writes += $more_writes;
	$sectors += $more_sectors;
	write_file("$root/proc/diskstats.new",
		"$number disk0 0 0 0 0 $writes 0 $sectors 0 0 0 0 0 0 0 0 0 0\n");
	rename "$root/proc/diskstats.new", "$root/proc/diskstats" or die "could not rename: $!";
	return;
}

sub governor
{
	my ($column) = @_;

	return $node->safe_psql('postgres',
		"SELECT coalesce(($column)::text, 'null') FROM pg_calm_governor WHERE input = 'writeback'");
}

# It has written for as long as has passed since the last call, 100 operations of 40 kB per second
my $worked = time;

sub device_works
{
	my $seconds = time - $worked;

	$worked += $seconds;
	device_writes(int(100 * $seconds), int(8192 * $seconds));
	return;
}

# Pages that take it so many seconds
sub queue_of
{
	my ($seconds) = @_;

	vmstat($seconds * 1024);
	return;
}

vmstat(0);
make_path("$root/sys/block/disk0");
$node->start;
my $device = (stat($node->data_dir . '/base'))[0];
$number = join ' ', ($device >> 8) & 0xfff, ($device & 0xff) | (($device >> 12) & 0xfff00);
device_writes(0, 0);
$node->safe_psql('postgres', 'CREATE EXTENSION pg_calm; CREATE TABLE t (id int, filler text)');

# pages that can be compared with the WAL that they come with; few at a time,
# since what is governed is a mean that lags behind
my $gathered = wait_for(
	sub {
		insert();
		return governor('value > 40 * 1024 * 1024') eq 'true';
	},
	60);
ok($gathered, 'pages have gathered');
is(governor('state'), 'watched', 'but not enough for a rate');

# Ours is at its caps, with a queue of 30 seconds
sub becomes_pacing
{
	my ($name, $rows) = @_;

	queue_of(30);
	return ok(
		wait_for(
			sub {
				insert($rows);
				device_works();
				return governor('state') eq 'pacing';
			},
			60),
		$name);
}

# It goes on at its caps
sub becomes_watched
{
	my ($name) = @_;

	return ok(
		wait_for(
			sub {
				device_works();
				return governor('state') eq 'watched';
			},
			60),
		$name);
}

# At its caps as well, for some looks
sub holds_nobody
{
	my ($seconds, $name) = @_;
	my $held = 0;
	my $end = time + 4;

	queue_of($seconds);
	while (time < $end)
	{
		insert(4000);
		device_works();
		$held = 1 if governor('state') ne 'watched';
	}
	return is($held, 0, $name);
}

foreach my $mode ('on', 'queue')
{
	$node->safe_psql('postgres', "ALTER SYSTEM SET pg_calm.governor_writeback = $mode");
	$node->reload;
	ok(wait_for(sub { return governor('state') eq 'watched' }, 60), "$mode: no queue, no rate");

	# --- another device's queue: ours has hardly anything to do

	vmstat(200000);
	foreach (1 .. 20)
	{
		device_writes(1, 8);
		usleep(100_000);
	}
	is(governor('allowed_rate'), 'null', "$mode: what waits for another device holds nobody");

	# --- ours

	becomes_pacing("$mode: what waits for the data volume, at its caps, does");
	cmp_ok(governor('allowed_rate'), '>', 0, "$mode: and writers have a rate");
	vmstat(0);
	becomes_watched("$mode: until it is gone");
}

# --- a short queue, behind which there is room for all that writers do: what is usual is known by now

holds_nobody(2, 'queue: what is gone before there is too much holds nobody');

# --- one of which nobody will see the end

holds_nobody(60, 'queue: what lasts longer than anybody can be held does not, either');

# --- a long one that does not go

becomes_pacing('queue: as long as there is too much behind it', 4000);
becomes_watched('queue: but not for ever, though it is still there');

# --- nor where no cap is known

$node->safe_psql('postgres', $_) foreach ('ALTER SYSTEM SET pg_calm.write_iops = -1', 'ALTER SYSTEM SET pg_calm.write_bandwidth = -1');
$node->reload;
ok(wait_for(sub { return governor('state') eq 'off' }, 60), 'queue: without caps nothing is watched');

$node->stop;
done_testing();

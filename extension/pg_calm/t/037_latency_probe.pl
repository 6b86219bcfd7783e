
# Where reads and writes share a volume's limits, a block is read now and then while
# the volume is full and nobody else reads, so that the block layer sees how long reads
# take; and only then.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use CalmTest;
use Fcntl;
use File::Basename;
use File::Path qw(make_path);
use POSIX qw(mkfifo);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

# What the device has done is what the test says
my $root = fake_host();
my $node = calm_node('probe', qq{
pg_calm.write_bandwidth = 0
pg_calm.iops = 1000
pg_calm.io_size = '256kB'
pg_calm.bandwidth = '100MB'
});
my $number;
my @below;
my %done = (reads => 0, read_sectors => 0, writes => 0, write_sectors => 0);

sub write_diskstats
{
	my $counts = "$done{reads} 0 $done{read_sectors} 0 $done{writes} 0 $done{write_sectors} 0 0 0 0 0 0 0 0 0 0\n";

	# what lies below a volume of LVM, LUKS or RAID does the same again
	write_file("$root/proc/diskstats.new", join '', map { "$_ $counts" } "$number disk0", @below);
	rename "$root/proc/diskstats.new", "$root/proc/diskstats" or die "could not rename: $!";
	return;
}

# How many blocks are read in a second and a half in which the device does so much per second, after
# one in which the worker sees it; operations are of 4 kB if no bytes are given
sub probes_at
{
	my ($reads, $writes, $bytes) = @_;
	my $before;

	foreach my $seconds (1, 1.5)
	{
		my $last = time;
		my $end = $last + $seconds;

		$before = status_of($node)->{latency_probes};
		while ($last < $end)
		{
			usleep(50_000);
			my $now = time;
			$done{reads} += $reads * ($now - $last);
			$done{writes} += $writes * ($now - $last);
			$done{read_sectors} += $reads * 8 * ($now - $last);
			$done{write_sectors} += ($bytes ? $bytes / 512 : $writes * 8) * ($now - $last);
			$last = $now;
			$_ = int($_ + 0.5) foreach values %done;
			write_diskstats();
		}
	}
	return status_of($node)->{latency_probes} - $before;
}

sub set
{
	my ($setting) = @_;

	$node->safe_psql('postgres', "ALTER SYSTEM SET $setting");
	$node->reload;
	usleep(500_000);
	return;
}

make_path("$root/sys/block/disk0");
write_file("$root/proc/vmstat",
	"nr_dirty 0\nnr_writeback 0\nnr_dirty_background_threshold 1000000\nnr_dirty_threshold 2000000\n");
$node->start;
my $device = (stat($node->data_dir . '/base'))[0];
$number = join ' ', ($device >> 8) & 0xfff, ($device & 0xff) | (($device >> 12) & 0xfff00);
write_diskstats();
$node->safe_psql('postgres', 'CREATE EXTENSION pg_calm');

# so few that a second of them at once, after a pause of this process, does not fill it either
is(probes_at(0, 50), 0, 'on a volume with operations to spare nothing is read');
cmp_ok(probes_at(0, 1000), '>', 0, 'on one that is full of writes blocks are read');
cmp_ok(probes_at(0, 100, 100e6), '>', 0, 'also if bytes are what is used up');

# --- what looks like much use of the volume, and is none

# counters that could not be read for a moment
sleep 1;
unlink "$root/proc/diskstats" or die "could not unlink: $!";
sleep 1;
my $before = status_of($node)->{latency_probes};
write_diskstats();
sleep 1;
is(status_of($node)->{latency_probes}, $before, 'counters that are there again have not grown from 0');

# a look that had to wait: what came meanwhile came in all that time
SKIP:
{
	my $fifo = "$root/proc/self/mountinfo";
	my $hold;

	make_path(dirname($fifo));
	skip "no FIFO: $!", 2 unless mkfifo($fifo, 0666);
	ok(wait_for(sub { sysopen($hold, $fifo, O_WRONLY | O_NONBLOCK) }), 'the worker waits for a file of the host');
	unlink $fifo;
	sleep 2;
	$done{writes} += 500;
	write_diskstats();
	close $hold;
	sleep 1;
	is(status_of($node)->{latency_probes}, $before, 'half of what a second takes is not much in two');
}

is(probes_at(500, 500), 0, 'not where others read');

# a mirror of two disks
my $colons = join ':', split / /, $number;
foreach my $disk ('sda', 'sdb')
{
	my $disk_number = $disk eq 'sda' ? '8 0' : '8 16';

	push @below, "$disk_number $disk";
	make_path("$root/sys/block/$disk");
	write_file("$root/sys/dev/block/$colons/slaves/$disk/dev", join(':', split / /, $disk_number) . "\n");
}
usleep(4_000_000);    # read every 3 s
is(probes_at(0, 300), 0, 'what a volume is made of is not counted again');
cmp_ok(probes_at(0, 1000), '>', 0, 'but what it does itself is');

set('pg_calm.mode = shadow');
is(probes_at(0, 1000), 0, 'nor in mode shadow');
set('pg_calm.mode = on');
set('pg_calm.iops = 0');
set('pg_calm.bandwidth = 0');
set('pg_calm.write_iops = 1000');
usleep(4_000_000);    # read every 3 s
is(probes_at(0, 1000), 0, 'nor where only writes are limited');

$node->stop;
done_testing();


# Caps of the data directory's device, as a fake host shows them.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use CalmTest;
use File::Path qw(make_path remove_tree);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = calm_node('caps');
my $root = fake_host();

$node->append_conf('postgresql.conf', "pg_calm.write_bandwidth = 0\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION pg_calm');

# The data directory's device, and its number as the kernel prints it
my $number = (stat($node->data_dir . '/base'))[0];
my $device = join ':', ($number >> 8) & 0xfff, ($number & 0xff) | (($number >> 12) & 0xfff00);
my $other = '99:99';

my $v2_mount = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";
my $v1_mount = "31 23 0:27 / /sys/fs/cgroup/blkio rw,relatime shared:9 - cgroup cgroup rw,blkio\n";
my $v1_path = 'sys/fs/cgroup/blkio';

# What a status says of the caps
sub caps
{
	my ($status) = @_;

	return join ' ', map { $status->{$_} // 'none' } qw(write_iops write_bandwidth io_size);
}

# Make a host of these files, and wait until the status has the caps expected,
# and says where they come from, after a reload or by itself.  The worker may
# look while the files are being made.
sub expect_caps
{
	my ($name, $expected, $files, %options) = @_;

	remove_tree("$root/sys", "$root/proc/self");
	write_file("$root/$_", $files->{$_}) foreach keys %$files;
	$options{links}->() if $options{links};
	$node->reload unless $options{no_reload};
	my $status;
	my $source = $options{source} // qr//;
	wait_for(
		sub {
			$status = status_of($node);
			return caps($status) eq $expected && ($status->{caps_source} // '') =~ $source;
		});
	is(caps($status), $expected, $name);
	like($status->{caps_source}, $source, "$name: source") if $options{source};
	return;
}

expect_caps('nothing to read', 'none none 4194304', {},
	source => qr/operations: no cap found; bandwidth: no cap found/);

# --- cgroup v2

expect_caps(
	'v2, own group',
	'3000 125000000 4194304',
	{
		'proc/self/cgroup' => "0::/db/main\n",
		'proc/self/mountinfo' => $v2_mount,
		'sys/fs/cgroup/db/main/io.max' =>
		  "$other rbps=max wbps=1 riops=max wiops=1\n$device rbps=max wbps=125000000 riops=max wiops=3000\n",
		'sys/fs/cgroup/other/io.max' => "$device rbps=max wbps=2 riops=max wiops=2\n",
	},
	source => qr{operations: cgroup v2 /db/main; bandwidth: cgroup v2 /db/main});

expect_caps(
	'v2, each cap is the least of group and ancestors',
	'800 50000000 4194304',
	{
		'proc/self/cgroup' => "0::/db/main\n",
		'proc/self/mountinfo' => $v2_mount,
		'sys/fs/cgroup/db/main/io.max' => "$device rbps=max wbps=50000000 riops=max wiops=3000\n",
		'sys/fs/cgroup/db/io.max' => "$device rbps=max wbps=max riops=max wiops=800\n",
		'sys/fs/cgroup/io.max' => "$device rbps=1 wbps=90000000 riops=1 wiops=max\n",
	},
	source => qr{operations: cgroup v2 /db; bandwidth: cgroup v2 /db/main});

expect_caps(
	'v2, max is no cap',
	'none none 4194304',
	{
		'proc/self/cgroup' => "0::/db\n",
		'proc/self/mountinfo' => $v2_mount,
		'sys/fs/cgroup/db/io.max' => "$device rbps=5 wbps=max riops=5 wiops=max\n",
	});

# a container sees its group as the mount's root, and its full path in cgroup
expect_caps(
	'v2, mount that begins below the root',
	'700 none 4194304',
	{
		'proc/self/cgroup' => "0::/pod/container\n",
		'proc/self/mountinfo' => "30 23 0:26 /pod /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
		'sys/fs/cgroup/container/io.max' => "$device rbps=max wbps=max riops=max wiops=700\n",
	});

# --- cgroup v1

expect_caps(
	'v1, the root group counts too',
	'800 131072000 4194304',
	{
		'proc/self/cgroup' => "7:cpu,cpuacct:/wrong\n4:blkio:/\n1:name=systemd:/wrong\n",
		'proc/self/mountinfo' => $v1_mount,
		"$v1_path/blkio.throttle.write_iops_device" => "$other 1\n$device 800\n",
		"$v1_path/blkio.throttle.write_bps_device" => "$device 131072000\n",
		"$v1_path/blkio.throttle.read_bps_device" => "$device 1\n",
		"$v1_path/wrong/blkio.throttle.write_iops_device" => "$device 11\n",
	},
	source => qr{operations: cgroup v1 /; bandwidth: cgroup v1 /;});

expect_caps(
	'v1, least of own group, ancestor and root group',
	'500 1000000 4194304',
	{
		'proc/self/cgroup' => "4:blkio,memory:/a/b\n0::/\n",
		'proc/self/mountinfo' => $v1_mount,
		"$v1_path/blkio.throttle.write_iops_device" => "$device 800\n",
		"$v1_path/a/blkio.throttle.write_iops_device" => "$device 500\n",
		"$v1_path/a/b/blkio.throttle.write_iops_device" => "$device 900\n",
		"$v1_path/a/b/blkio.throttle.write_bps_device" => "$device 1000000\n",
	},
	source => qr{operations: cgroup v1 /a; bandwidth: cgroup v1 /a/b; operation size: device$});

expect_caps(
	'v1, without the root group the kernel flusher is free',
	'500 1000000 4194304',
	{
		'proc/self/cgroup' => "4:blkio,memory:/a/b\n0::/\n",
		'proc/self/mountinfo' => $v1_mount,
		"$v1_path/blkio.throttle.write_iops_device" => "$other 800\n",
		"$v1_path/a/blkio.throttle.write_iops_device" => "$device 500\n",
		"$v1_path/a/b/blkio.throttle.write_bps_device" => "$device 1000000\n",
	},
	source => qr{operations: cgroup v1 /a; bandwidth: cgroup v1 /a/b; .*the kernel flusher is not held to them$});

expect_caps(
	'both hierarchies',
	'600 2000000 4194304',
	{
		'proc/self/cgroup' => "4:blkio:/one\n0::/two\n",
		'proc/self/mountinfo' =>
		  "$v1_mount" . "30 23 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
		"$v1_path/one/blkio.throttle.write_iops_device" => "$device 600\n",
		'sys/fs/cgroup/unified/two/io.max' => "$device wbps=2000000 wiops=5000\n",
	});

# --- devices below the one that the files are on

my %capped_disk = (
	'proc/self/cgroup' => "0::/db\n",
	'proc/self/mountinfo' => $v2_mount,
	'sys/fs/cgroup/db/io.max' => "88:0 rbps=max wbps=max riops=max wiops=450\n",
);

# In sysfs a partition is a directory in that of its disk; dev/block has links
expect_caps(
	'a partition is capped by its disk',
	'450 none 262144',
	{
		%capped_disk,
		'sys/devices/disk/dev' => "88:0\n",
		'sys/devices/disk/queue/max_sectors_kb' => "256\n",
		'sys/devices/disk/part/dev' => "$device\n",
		'sys/devices/disk/part/partition' => "1\n",
	},
	links => sub {
		make_path("$root/sys/dev/block");
		symlink('../../devices/disk/part', "$root/sys/dev/block/$device") or die $!;
		symlink('../../devices/disk', "$root/sys/dev/block/88:0") or die $!;
	});

# an NVMe disk is a directory in that of its controller, which is a device, too, but of no blocks
my %nvme_disk = ('sys/devices/nvme0/dev' => "88:0\n", 'sys/devices/nvme0/nvme0n1/dev' => "$device\n");

sub link_nvme_disk
{
	make_path("$root/sys/dev/block");
	symlink('../../devices/nvme0/nvme0n1', "$root/sys/dev/block/$device") or die $!;
	return;
}

expect_caps('a disk is not capped by its controller', 'none none 4194304', { %capped_disk, %nvme_disk },
	links => \&link_nvme_disk);

expect_caps(
	'a mapped device is capped by what it is made of',
	'450 none 524288',
	{
		%capped_disk,
		'sys/devices/disk/dev' => "88:0\n",
		'sys/devices/disk/queue/max_sectors_kb' => "512\n",
		'sys/devices/mapped/dev' => "$device\n",
		'sys/devices/mapped/queue/max_sectors_kb' => "1280\n",
	},
	links => sub {
		make_path("$root/sys/dev/block", "$root/sys/devices/mapped/slaves");
		symlink('../../disk', "$root/sys/devices/mapped/slaves/disk") or die $!;
		symlink('../../devices/mapped', "$root/sys/dev/block/$device") or die $!;
		symlink('../../devices/disk', "$root/sys/dev/block/88:0") or die $!;
	});

expect_caps('4 GiB in one request are not none', 'none none 4194304',
	{ "sys/dev/block/$device/queue/max_sectors_kb" => "4194304\n" });

# --- picked up while running, and overruled by settings

my %changing = (
	'proc/self/cgroup' => "0::/db\n",
	'proc/self/mountinfo' => $v2_mount,
	"sys/dev/block/$device/queue/max_sectors_kb" => "256\n",
);
foreach my $iops (1000, 2000)
{
	expect_caps(
		"a changed cap is seen without a reload ($iops)",
		"$iops none 262144",
		{
			%changing, 'sys/fs/cgroup/db/io.max' => "$device rbps=max wbps=max riops=max wiops=$iops\n"
		},
		no_reload => 1);
}
expect_caps(
	'gaps are worth bridging where operations are capped',
	'1000 81920000 1048576',
	{
		%changing,
		"sys/dev/block/$device/queue/max_sectors_kb" => "1024\n",
		'sys/fs/cgroup/db/io.max' => "$device rbps=max wbps=81920000 riops=max wiops=1000\n"
	});

$node->safe_psql(
	'postgres', q{
ALTER SYSTEM SET pg_calm.write_iops = 123;
ALTER SYSTEM SET pg_calm.io_size = '64kB'});
expect_caps(
	'settings overrule what is found',
	'123 81920000 65536',
	{
		%changing, 'sys/fs/cgroup/db/io.max' => "$device rbps=max wbps=81920000 riops=max wiops=1000\n"
	},
	source =>
	  qr{operations: pg_calm.write_iops; bandwidth: cgroup v2 /db; operation size: pg_calm.io_size});

$node->safe_psql(
	'postgres', q{
ALTER SYSTEM SET pg_calm.write_iops = -1;
ALTER SYSTEM SET pg_calm.write_bandwidth = '100MB'});
expect_caps('-1 means unlimited', 'none 104857600 65536',
	{ %changing, 'sys/fs/cgroup/db/io.max' => "$device wbps=81920000 wiops=1000\n" });

# files that make no sense are no caps, and no harm
$node->safe_psql('postgres', 'ALTER SYSTEM RESET ALL');
expect_caps(
	'nonsense is ignored',
	'none none 4194304',
	{
		'proc/self/cgroup' => "0\n\n:::\n0::/db\n4:blkio",
		'proc/self/mountinfo' => "nonsense\n - \n30 23 0:26 / - cgroup2\n$v2_mount",
		'sys/fs/cgroup/db/io.max' => "nonsense\n$device\n$device wiops=\n$device wiops=-5 wbps=0\n",
		"sys/dev/block/$device/queue/max_sectors_kb" => "many\n",
	});
ok( wait_for(
		sub {
			(status_of($node)->{degraded} // '') eq
			  'no cap of the data directory\'s device is known: pages are only watched';
		}),
	'and nothing is amiss but that');

# --- the device's share of the kernel's dirty limits

sub unflushed
{
	my $status = status_of($node);

	return $status->{unflushed_pages};
}

remove_tree("$root/sys");
write_file("$root/$_", $nvme_disk{$_}) foreach keys %nvme_disk;
link_nvme_disk();
write_file("$root/proc/vmstat",
	"nr_dirty 10000\nnr_writeback 0\nnr_dirty_background_threshold 1000000\nnr_dirty_threshold 2000000\n");
write_file("$root/proc/diskstats", (join ' ', split(/:/, $device), 'disk0', (0) x 17) . "\n");
make_path("$root/sys/block/disk0");
write_file("$root/sys/class/bdi/$device/max_ratio_fine", "1000000\n");
$node->reload;
# the worker looks once a second
sleep 3;
# block by block: many at a time are appended without a write since 16
$node->safe_psql(
	'postgres', q{
CREATE TABLE filled (filler text);
INSERT INTO filled SELECT repeat('x', 1000) FROM generate_series(1, 2000)});
sleep 3;
cmp_ok(unflushed(), '>', 100, 'a device that may have all of the dirty limit is left alone');
write_file("$root/sys/class/bdi/$device/max_ratio_fine", "1\n");
ok(wait_for(sub { unflushed() == 0 }), 'with next to none of it, pages are flushed ahead of the kernel');

# others' dirty pages leave nothing but what is set aside for the device
write_file("$root/proc/vmstat",
	"nr_dirty 7500\nnr_writeback 0\nnr_dirty_background_threshold 10000\nnr_dirty_threshold 20000\n");
write_file("$root/sys/class/bdi/$device/max_ratio_fine", "1000000\n");
write_file("$root/sys/class/bdi/$device/min_ratio_fine", "990000\n");
sleep 3;
$node->safe_psql('postgres',
	q{INSERT INTO filled SELECT repeat('x', 1000) FROM generate_series(1, 2000)});
sleep 3;
cmp_ok(unflushed(), '>', 100, 'a device that nearly all of the dirty limit is set aside for is left alone');
write_file("$root/sys/class/bdi/$device/min_ratio_fine", "0\n");
ok(wait_for(sub { unflushed() < 100 }), 'without that, pages are flushed ahead of the kernel');
$node->stop;

done_testing();

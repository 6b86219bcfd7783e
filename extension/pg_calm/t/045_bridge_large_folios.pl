
# A file that is read after the start is in the page cache in large folios, and a write fault makes the
# whole of one dirty.  A gap in one is not bridged, until it has been split; so that what
# reaches the device is what was asked for.  Files are mapped to be written to for the
# fault alone, and in the worker only.

use strict;
use warnings;

use Fcntl qw(O_RDWR);
use FindBin;
use lib $FindBin::RealBin;

use CalmTest;
use List::Util qw(min);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

use constant POSIX_FADV_DONTNEED => 4;
use constant FADVISE64 => 221;

# Of blocks: two in so many are written to, with one between them, and it is no gap to the next two
use constant STEP => 32;
use constant BLOCKS => 20000;

plan skip_all => 'system call numbers are those of x86_64' if `uname -m` !~ /^x86_64/;

# Buffers are few, so that backends write pages.  The longest gap is of 12 blocks.
my $node = calm_node('bridge_folios', q{
shared_buffers = 1MB
max_wal_size = 4GB
bgwriter_lru_maxpages = 0
pg_calm.write_iops = 1000
pg_calm.write_bandwidth = '100MB'
pg_calm.io_size = 1MB
pg_calm.flush_age = 500ms
pg_calm.unflushed_limit = '10GB'
});
my $cannot = cannot_bridge($node);
plan skip_all => $cannot if $cannot;
my $device = (stat $node->data_dir)[0];

# Bytes that the device of the data directory has written, whoever asked for them
sub device_written
{
	my ($major, $minor) = (($device >> 8) & 0xfff, ($device & 0xff) | (($device >> 12) & 0xfff00));

	open(my $file, '<', '/proc/diskstats') or return;
	while (<$file>)
	{
		my @columns = split;
		return $columns[9] * 512 if $columns[0] == $major && $columns[1] == $minor;
	}
	return;
}

plan skip_all => 'the device of the data directory is not in /proc/diskstats' if !defined device_written();

$node->start;
$node->safe_psql(
	'postgres', q{
CREATE EXTENSION pg_calm;
CREATE TABLE t (id int, n int, filler text) WITH (fillfactor = 40);
ALTER TABLE t ALTER filler SET STORAGE PLAIN;
INSERT INTO t SELECT i, 0, repeat('x', 3000) FROM generate_series(1, } . BLOCKS . q{) i;
VACUUM (FREEZE) t;
CHECKPOINT});
my $path = $node->data_dir . '/' . $node->safe_psql('postgres', q{SELECT pg_relation_filepath('t')});

# Bring the file into the page cache as a backup does
sub read_ahead
{
	$node->safe_psql('postgres', 'CHECKPOINT');
	sysopen(my $file, $path, O_RDWR) or die "could not open $path: $!";
	system('sync', $path);
	syscall(FADVISE64, fileno($file), 0, 0, POSIX_FADV_DONTNEED);
	while (sysread($file, my $buffer, 1 << 20)) { }
	return;
}

sub is_flushed
{
	my $status = status_of($node);

	return $status->{unflushed_pages} + $status->{in_flight_pages} == 0;
}

# Write to blocks here and there, and have them flushed; what that took.  Again, where somebody's
# sync of the whole host was there before the worker.
sub update
{
	my $took;

	foreach my $try (1 .. 8)
	{
		$took = update_once();
		last if $took->{flushed_pages} > BLOCKS / STEP;
	}
	return $took;
}

sub update_once
{
	wait_for(\&is_flushed) or die 'pages stay unflushed';
	my $before = status_of($node);
	my $written = device_written();
	$node->safe_psql('postgres',
		'UPDATE t SET n = n + 1 WHERE id % ' . STEP . ' IN (0, 2)');
	wait_for(\&is_flushed) or die 'pages stay unflushed';
	$written = device_written() - $written;
	my $after = status_of($node);
	my %took = map { $_ => $after->{$_} - $before->{$_} } qw(flushed_pages fsynced_pages bridged_pages unbridged_pages);

	$took{device} = $written / 8192;
	note join ', ', map { "$_ $took{$_}" } sort keys %took;
	return \%took;
}

my $first = update();
cmp_ok($first->{flushed_pages}, '>', 100, 'pages here and there are flushed');

# --- read after that

my @took;
foreach my $try (1 .. 8)
{
	read_ahead();
	push @took, update();
	# others write to the device as well, and take memory for large folios
	last if $took[-1]->{device} < BLOCKS / 2 && $took[-1]->{unbridged_pages} > 50;
}
SKIP:
{
	my $least = min(map { $_->{device} } @took);
	my $idle = device_written();

	# as long as a try takes
	usleep(3_000_000);
	$idle = (device_written() - $idle) / 8192;
	skip "others write $idle blocks to the device meanwhile", 1 if $least >= BLOCKS / 2 && $idle > BLOCKS / 8;
	cmp_ok($least, '<', BLOCKS / 2, 'what is written is no multiple of what was asked for');
}
cmp_ok($took[-1]->{unbridged_pages}, '>', 50, 'gaps in large folios are left');

# --- they have been split when they were clean

my $split = update();
cmp_ok($split->{bridged_pages}, '>', 50, 'the next time they are bridged');

# --- files can be written to by a stray store for that long only

SKIP:
{
	my $why = cannot_trace();
	skip $why, 4 if $why;

	# lines of mmap and what follows until the mapping is gone
	my $traced = sub {
		my ($pid, $what) = @_;
		my ($handle, $file) = trace($pid, '-e', 'trace=mmap,munmap,madvise,sync_file_range,fsync');
		$what->();
		finish_trace($handle);
		return split /\n/, slurp_file($file);
	};
	my @worker = $traced->(status_of($node)->{worker_pid}, \&update);
	my @writable = grep { $worker[$_] =~ /^mmap.*PROT_WRITE.*MAP_SHARED/ } 0 .. $#worker;
	cmp_ok(scalar @writable, '>', 50, 'the worker maps what it bridges');
	is_deeply(
		[
			grep {
				my $i = $_ + 1;
				$i++ while $worker[$i] =~ /^madvise/;
				$worker[$i] !~ /^munmap/
			} @writable
		],
		[],
		'for nothing but that');

	# evicted pages of half a second that the worker has not come to
	my @checkpointer = $traced->(
		process_id($node, 'checkpointer'),
		sub {
			$node->safe_psql('postgres',
				'UPDATE t SET n = n + 1 WHERE id % ' . STEP . ' IN (0, 2); CHECKPOINT');
		});
	cmp_ok(scalar(grep { /^fsync/ } @checkpointer), '>', 0, 'a checkpoint syncs');
	is_deeply([ grep { /^mmap.*PROT_WRITE.*MAP_SHARED/ } @checkpointer ],
		[], 'and maps no file to be written to');
}

is($node->safe_psql('postgres', 'SELECT count(*) FROM t WHERE length(filler) = 3000'),
	BLOCKS, 'all is there');
$node->stop;

done_testing();

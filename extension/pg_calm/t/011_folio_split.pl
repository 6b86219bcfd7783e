
# Large folios of the page cache are split, so that the kernel counts a written
# block as one.

use strict;
use warnings;

use Fcntl qw(O_RDWR SEEK_SET);
use FindBin;
use lib $FindBin::RealBin;

use CalmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# cachestat(2), the same number everywhere (Linux 6.5)
use constant CACHESTAT => 451;
use constant POSIX_FADV_DONTNEED => 4;
use constant FADVISE64 => 221;

plan skip_all => 'system call numbers are those of x86_64' if `uname -m` !~ /^x86_64/;

# Pages of a file in the page cache, and how many of them are dirty
sub cache_state
{
	my ($path) = @_;
	my ($range, $state) = (pack('QQ', 0, 0), "\0" x 40);

	sysopen(my $file, $path, O_RDWR) or die "could not open $path: $!";
	return if syscall(CACHESTAT, fileno($file), $range, $state, 0) != 0;
	return (unpack 'Q5', $state)[ 0, 1 ];
}

# Bring a file into the page cache as a sequential scan does
sub read_ahead
{
	my ($path) = @_;

	sysopen(my $file, $path, O_RDWR) or die "could not open $path: $!";
	system('sync', $path);
	syscall(FADVISE64, fileno($file), 0, 0, POSIX_FADV_DONTNEED);
	while (sysread($file, my $buffer, 1 << 20)) { }
	return;
}

# Rewrite every 100th block, as PostgreSQL does it; returns how many
sub write_blocks
{
	my ($path) = @_;
	my $blocks = 0;

	sysopen(my $file, $path, O_RDWR) or die "could not open $path: $!";
	for (my $offset = 0; $offset + 8192 <= -s $path; $offset += 100 * 8192)
	{
		sysseek($file, $offset, SEEK_SET);
		sysread($file, my $block, 8192);
		sysseek($file, $offset, SEEK_SET);
		syswrite($file, $block);
		$blocks++;
	}
	return $blocks;
}

# Pages that each written block makes dirty; the file must be clean before
sub dirty_per_block
{
	my ($path) = @_;
	my $blocks = write_blocks($path);
	my (undef, $dirty) = cache_state($path);

	system('sync', $path);
	note "$blocks blocks written, $dirty pages dirty";
	return $dirty / $blocks;
}

my $node = calm_node('folio', q{
pg_calm.flush_age = '1h'
pg_calm.unflushed_limit = '10GB'
pg_calm.split_large_folios = off
});

# The last WAL segment that was begun, filled with zeros just before
sub new_segment
{
	$node->safe_psql('postgres',
		q{SELECT pg_logical_emit_message(false, 'fill', repeat('w', 1000000)) FROM generate_series(1, 90)}
	);
	my $name = $node->safe_psql('postgres', 'SELECT pg_walfile_name(pg_current_wal_insert_lsn())');
	return $node->data_dir . "/pg_wal/$name";
}

$node->start;
$node->safe_psql(
	'postgres', q{
CREATE EXTENSION pg_calm;
CREATE TABLE t AS SELECT i, repeat('x', 1000) FROM generate_series(1, 30000) i;
CHECKPOINT});
my $path = $node->data_dir . '/' . $node->safe_psql('postgres', q{SELECT pg_relation_filepath('t')});
my $segment = new_segment();
$node->stop;

plan skip_all => 'the kernel has no cachestat' if !defined cache_state($path);

# --- without the module's doing, what is written counts as more

read_ahead($path);
my $inflated = dirty_per_block($path);
plan skip_all => "read-ahead makes no large folios here: $inflated pages dirty for each block"
  if $inflated < 8;
pass("in large folios, a block of 2 pages makes $inflated dirty");
my $segment_inflated = dirty_per_block($segment);

# --- after start: files that nobody has written to yet

read_ahead($path);
$node->append_conf('postgresql.conf', 'pg_calm.split_large_folios = on');
$node->start;
sleep 3;
cmp_ok(dirty_per_block($path), '<=', 4, 'after start, a block counts as one');
my ($cached) = cache_state($path);
cmp_ok($cached, '>=', (-s $path) / 4096 * 0.9, 'and all is still in the page cache');
is($node->safe_psql('postgres', 'SELECT count(*) FROM t WHERE length(repeat) = 1000'),
	30000, 'with its content');

# --- what the kernel is told to take for cold

SKIP:
{
	my $why = cannot_trace();
	skip $why, 2 if $why;
	my $block = $node->safe_psql('postgres', 'SHOW block_size');

	$node->append_conf('postgresql.conf', 'pg_calm.split_large_folios = off');
	$node->restart;
	read_ahead($path);
	my $worker;
	wait_for(sub { $worker = status_of($node)->{worker_pid} })
	  or die 'no writeback worker';
	my ($handle, $file) = trace($worker, '-e', 'trace=madvise');
	my $cold = sub { return grep { /MADV_COLD/ } split /\n/, slurp_file($file) };
	$node->append_conf('postgresql.conf', 'pg_calm.split_large_folios = on');
	$node->reload;
	ok(wait_for(sub { $cold->() > 100 }), 'the patrol begins when it may');
	finish_trace($handle);
	# of half a block that is evicted the server has to read that half
	is_deeply([ grep { !/, $block, MADV_COLD/ } $cold->() ], [], 'it names whole blocks');
}

# --- a new WAL segment

$segment = new_segment();
$node->stop;
SKIP:
{
	skip "segments have no large folios here: $segment_inflated pages for each block", 1
	  if $segment_inflated < 8;
	cmp_ok(dirty_per_block($segment), '<=', 4, 'and in a new WAL segment');
}
$node->start;
is($node->safe_psql('postgres', 'SELECT count(*) FROM t'), 30000, 'the data is there');
$node->stop;

done_testing();

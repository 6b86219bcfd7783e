
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

# --- a region that is written back is split after that

read_ahead($path);
$node->append_conf('postgresql.conf', q{
pg_calm.split_large_folios = on
pg_calm.flush_age = '100ms'
shared_buffers = 1MB
});
$node->start;
my $block = $node->safe_psql('postgres', 'SHOW block_size');
my $why = cannot_trace();
my ($handle, $file) = $why ? () : trace(status_of($node)->{worker_pid}, '-e', 'trace=madvise');
# Rows in one of ten blocks or so, of more than there are buffers, until no region has far more
# dirty memory than pages: what is still being written can't be split
my $split = 0;
ok( wait_for(
		sub {
			my $before = status_of($node)->{large_folio_regions};

			$node->safe_psql('postgres', 'UPDATE t SET i = i WHERE i % 70 = 0');
			wait_for(
				sub {
					my $status = status_of($node);
					return $status->{unflushed_pages} + $status->{in_flight_pages} == 0;
				});
			my $more = status_of($node)->{large_folio_regions} - $before;
			$split += $more;
			return $split > 0 && $more == 0;
		}),
	'regions are split');
finish_trace($handle) if $handle;
$node->safe_psql('postgres', 'CHECKPOINT');
cmp_ok(dirty_per_block($path), '<=', 4, 'and a block in them counts as one');
my ($cached) = cache_state($path);
cmp_ok($cached, '>=', (-s $path) / 4096 * 0.9, 'and all is still in the page cache');
is($node->safe_psql('postgres', 'SELECT count(*) FROM t WHERE length(repeat) = 1000'),
	30000, 'with its content');
SKIP:
{
	skip $why, 2 if $why;
	my @cold = grep { /MADV_COLD/ } split /\n/, slurp_file($file);

	cmp_ok(scalar @cold, '>', 100, 'what is split is named to the kernel as cold');
	# of half a block that is evicted the server has to read that half
	is_deeply([ grep { !/, $block, MADV_COLD/ } @cold ], [], 'in whole blocks');
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

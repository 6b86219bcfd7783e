
# How much waits to be flushed by default: half of the device's part of the
# background threshold, and less where a visit of the kernel flusher would take
# so long that the rest of it is dirtied meanwhile.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use CalmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

# The part is 8 MB, an eighth of 64: half of it is more than is written here
my $root = fake_host();
write_file("$root/proc/vmstat",
	"nr_dirty 0\nnr_dirty_background_threshold 16384\nnr_dirty_threshold 4000000\n");

my $node = draining_node('limit');
# No checkpoints but those asked for: they flush, too. Few buffers: what is changed is written soon
$node->append_conf(
	'postgresql.conf', qq(
pg_calm.unflushed_limit = 0
pg_calm.write_iops = 20
pg_calm.write_bandwidth = '4MB'
max_wal_size = '10GB'
shared_buffers = '1MB'
));
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION pg_calm');

# A row in each block, with room for its next version
$node->safe_psql(
	'postgres', q(
CREATE TABLE t (id int, filler text) WITH (fillfactor = 40, autovacuum_enabled = off);
ALTER TABLE t ALTER filler SET STORAGE plain;
INSERT INTO t SELECT i, repeat('x', 3000) FROM generate_series(0, 12000) AS i;
));
# Or the first scan changes all of it, for hint bits; and the load was fast: let it be forgotten
$node->safe_psql('postgres', 'VACUUM (FREEZE) t');
$node->restart;

# Change 200 blocks in two seconds and more, each so many behind the one before; how many pages are flushed then
sub flushed_of
{
	my ($step) = @_;
	my $before = status_of($node)->{flushed_pages};

	foreach my $part (0 .. 9)
	{
		my ($first, $end) = map { $_ * 20 * $step } $part, $part + 1;

		$node->safe_psql('postgres',
			"UPDATE t SET filler = filler WHERE id % $step = 0 AND id >= $first AND id < $end");
		sleep(0.2);
	}
	sleep(4);
	return status_of($node)->{flushed_pages} - $before;
}

# catalogs may have been changed
cmp_ok(flushed_of(1), '<', 30, 'half of the part waits where it is written in a moment');
$node->restart;
cmp_ok(flushed_of(37), '>', 30, 'less than that where each page takes an operation');

$node->stop;
done_testing();

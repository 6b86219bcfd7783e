
# How much waits to be flushed by default: half of the device's part of the
# background threshold, and less where pages come so fast that they would be
# past it in a few seconds.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use CalmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

# The part is 64 MB, an eighth of 512: half of it is more than is written here
my $root = fake_host();
write_file("$root/proc/vmstat",
	"nr_dirty 0\nnr_dirty_background_threshold 131072\nnr_dirty_threshold 4000000\n");

my $node = draining_node('limit');
# no checkpoints but those asked for: they flush, too
$node->append_conf('postgresql.conf',
	"pg_calm.host_root = '$root'\npg_calm.unflushed_limit = 0\nmax_wal_size = '10GB'\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION pg_calm');

my $tables = 0;

# A new table of so many MB, written past shared buffers
sub write_table
{
	my ($megabytes) = @_;
	my $rows = $megabytes * 128 * 8;

	$tables++;
	$node->safe_psql('postgres',
		"CREATE TABLE t$tables AS SELECT repeat('x', 950) FROM generate_series(1, $rows)");
	return;
}

sub flushed_pages
{
	return status_of($node)->{flushed_pages};
}

# --- they come fast: in less than two seconds, if the machine is not too busy

my $flushed = 0;
foreach (1 .. 10)
{
	my $before = flushed_pages();

	write_table(28);
	last if wait_for(sub { ($flushed = flushed_pages() - $before) > 500 }, 2);
	$node->safe_psql('postgres', 'CHECKPOINT');
}
cmp_ok($flushed, '>', 500, 'less than half of the part waits if pages come fast');

# --- and some time after that, slowly

$node->safe_psql('postgres', 'CHECKPOINT');
sleep(15);
my $before = flushed_pages();
foreach (1 .. 28)
{
	write_table(1);
	sleep(0.3);
}
cmp_ok(flushed_pages() - $before, '<', 500, 'as much waits if they come slowly');

$node->stop;
done_testing();


# A file that is to be dense when the kernel flusher comes: an fsync is not
# the flusher.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use CalmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

# It seems to come 4 s after a file was dirtied, or up to a minute later.  Not
# really: the host's own settings have not changed, and they are longer.
my $root = fake_host();
write_file("$root/proc/sys/vm/dirty_expire_centisecs", "400\n");
write_file("$root/proc/sys/vm/dirty_writeback_centisecs", "6000\n");

my $node = draining_node('guard');
$node->append_conf('postgresql.conf', "pg_calm.host_root = '$root'\n");
$node->start;
scattered_table($node);

# Pages through few buffers, all over the table
sub update
{
	$node->safe_psql('postgres', 'UPDATE t SET n = n + 1 WHERE id % 7 = 0');
	return;
}

# Update until the table's pages are left to the flusher, and not only a few
# of the catalogs.  Returns by how much both counters have risen.
sub update_until_taken
{
	my $before = status_of($node);
	my %risen;

	wait_for(
		sub {
			update();
			my $now = status_of($node);
			%risen = map { $_ => $now->{$_} - $before->{$_} } qw(handed_pages flushed_pages);
			return $risen{handed_pages} > 500;
		},
		30);
	return \%risen;
}

# --- an fsync

cmp_ok(update_until_taken()->{handed_pages}, '>', 500, 'pages are left to the flusher');
# nobody waits for it here, and the file is clean after
$node->safe_psql('postgres', 'CHECKPOINT');
# the worker looks at it meanwhile
usleep(1_000_000);

# a file that is not guarded is flushed at this age, long before it is guarded again
$node->append_conf('postgresql.conf', "pg_calm.flush_age = '500ms'\n");
$node->reload;
my $taken = update_until_taken();
cmp_ok($taken->{flushed_pages}, '<', $taken->{handed_pages}, 'and those written after an fsync, too');

$node->stop;
done_testing();

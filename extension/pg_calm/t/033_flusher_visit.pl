
# Where reads and writes share a volume's limits, what is marked in a file is
# flushed before the kernel flusher may come to it, as it is: no buffer is cleaned
# meanwhile, which would only leave it more.  What would take too long is made dense instead.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use CalmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

# It seems to come 8 s after a file was dirtied, or up to a minute later.  Not
# really: the host's own settings have not changed, and they are longer.
my $root = fake_host();
write_file("$root/proc/sys/vm/dirty_expire_centisecs", "800\n");
write_file("$root/proc/sys/vm/dirty_writeback_centisecs", "6000\n");

# Neither age nor amount nor a checkpoint is a reason to flush
my $node = draining_node('visit');
$node->append_conf(
	'postgresql.conf', qq{
pg_calm.write_iops = 0
pg_calm.write_bandwidth = 0
pg_calm.iops = 500000
pg_calm.bandwidth = '10GB'
max_wal_size = '10GB'
bgwriter_lru_maxpages = 0
});
$node->start;
scattered_table($node);

# Pages through few buffers, all over the table
sub update
{
	$node->safe_psql('postgres', 'UPDATE t SET n = n + 1 WHERE id % 7 = 0');
	return;
}

# --- they are left until the time is near, and then flushed

ok( wait_for(
		sub {
			my $status = status_of($node);
			return $status->{unflushed_pages} < 50;
		},
		60),
	'nothing is left of the time before');
# whatever is marked now starts a clock, or meets one that runs: a minute in which files stay clean
my $before = status_of($node);
update();
ok(wait_for(sub { status_of($node)->{flushed_pages} - $before->{flushed_pages} > 1000 }, 30),
	'pages are flushed before the flusher comes');
my $after = status_of($node);
is($after->{cleaned_buffers}, $before->{cleaned_buffers}, 'and no buffer is cleaned for that');

# --- on a slow device that would take longer than the time before a visit: gaps are filled

SKIP:
{
	my $why = cannot_bridge($node);
	skip $why, 2 if $why;
	$node->append_conf('postgresql.conf', "pg_calm.iops = 50\npg_calm.bandwidth = '100MB'\npg_calm.io_size = '64kB'\n");
	$node->reload;
	usleep(4_000_000);
	$before = status_of($node);
	# a row in every other block, of more blocks than there are buffers
	$node->safe_psql('postgres', 'UPDATE t SET n = n + 1 WHERE id % 14 = 0');
	ok(wait_for(sub { status_of($node)->{bridged_pages} - $before->{bridged_pages} > 300 }, 30),
		'gaps are filled before the flusher comes');
	cmp_ok(status_of($node)->{flushed_pages} - $before->{flushed_pages}, '<', 100, 'and the pages left to it');
	$node->safe_psql('postgres', 'CHECKPOINT');
	$node->append_conf('postgresql.conf', "pg_calm.iops = 500000\npg_calm.bandwidth = '10GB'\n");
	$node->reload;
	usleep(4_000_000);
}

# --- control: it does not come by time

write_file("$root/proc/sys/vm/dirty_expire_centisecs", "0\n");
$node->reload;
# read every 3 s
usleep(4_000_000);
$before = status_of($node);
update();
usleep(4_000_000);
$after = status_of($node);
cmp_ok($after->{unflushed_pages}, '>', 1000, 'else they stay');
cmp_ok($after->{flushed_pages} - $before->{flushed_pages}, '<', 200, 'and are not flushed');

$node->stop;
done_testing();

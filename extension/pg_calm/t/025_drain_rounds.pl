
# Where backends evict as many pages as are flushed meanwhile, rounds of
# flushing don't get shorter, however short they are: a checkpoint does not go
# on with them for as long as it may, but cleans buffers instead.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use CalmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# A device that takes what there is at once, so that rounds take milliseconds;
# and so few buffers that some are evicted in each of them.
my $node = calm_node('drain_rounds', q{
shared_buffers = 1MB
max_wal_size = 64MB
min_wal_size = 32MB
checkpoint_completion_target = 0
log_checkpoints = on
pg_calm.write_iops = 1000000
pg_calm.write_bandwidth = '1GB'
pg_calm.flush_age = '1h'
pg_calm.unflushed_limit = '10GB'
pg_calm.drain_threshold = 0
pg_calm.drain_timeout = '1h'
});
$node->start;
scattered_table($node);

ok(checkpoints_ended($node), 'no checkpoint is under way');
my $load = start_load($node, 't', 40000, 100000);
ok(wait_for(sub { status_of($node)->{unflushed_pages_new} > 1000 }, 60), 'pages are evicted');

# On a busy machine the load may stand still for a round, which then is enough
my $cleaned = 0;
foreach my $attempt (1 .. 5)
{
	my $done = checkpoints_completed($node);
	my $before = status_of($node);
	my $begun = begun_by_wal($node);

	ok(fill_wal($node, $begun), 'WAL causes a checkpoint');
	last unless ok(wait_for(sub { checkpoints_completed($node) > $done }, 60),
		'it completes while pages are evicted');
	ok($load->pumpable, 'the load goes on');
	$cleaned = status_of($node)->{cleaned_buffers} - $before->{cleaned_buffers};
	last if $cleaned > 0;
	note("attempt $attempt: nothing was evicted in a round");
}
cmp_ok($cleaned, '>', 0, 'buffers were cleaned');
$load->kill_kill;
$node->stop('immediate');

done_testing();

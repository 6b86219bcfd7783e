
# Without cachestat the worker waits for what it has started, and a file stays open until then.
# Where more files are due than it has open at once, the others are next as soon as one is free.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use CalmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $why = cannot_trace() || deny_cachestat();
plan skip_all => $why if $why;

# A page of each of 200 tables is due, of a device that takes all of them at once
my $node = calm_node('many_files', q{
shared_buffers = 1MB
max_wal_size = 10GB
pg_calm.bridge = off
pg_calm.clean_buffers = 0
pg_calm.flush_age = '1h'
pg_calm.unflushed_limit = '10GB'
});
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION pg_calm');
paged_tables($node, 'postgres', 200, 150);
mark_pages($node, 'postgres', 200, q{ctid = ''(75,1)''});
ok(wait_for(sub { status_of($node)->{unflushed_pages} >= 200 }), 'pages of many files wait');

my ($handle, $file) = trace(status_of($node)->{worker_pid}, '-y', '-s', '1000', '-e', 'trace=sync_file_range,openat');
$node->safe_psql('postgres', q{ALTER SYSTEM SET pg_calm.flush_age = '1ms'});
$node->reload;
ok( wait_for(
		sub {
			my $status = status_of($node);
			return $status->{unflushed_pages} + $status->{in_flight_pages} == 0;
		}),
	'they are flushed');
finish_trace($handle);

# Files that are begun without a wait; and whether there are more to begin after a wait, before
# the worker looks at the map once more, which it does when it has looked at the host
my %begun;
my $most = 0;
my $state = 'looked';
my $goes_on = 0;
my $looks = 0;
foreach my $line (split /\n/, slurp_file($file))
{
	if ($line =~ m{/proc/vmstat"})
	{
		$looks++;
		$state = 'looked';
	}
	my ($path, $what) = $line =~ /^sync_file_range\(\d+<([^>]*)>.*SYNC_FILE_RANGE_(\w+)\)/ or next;
	if ($what eq 'WRITE')
	{
		$goes_on = 1 if $state eq 'waited';
		$state = 'begun' if $state eq 'looked';
		$begun{$path} = 1;
		$most = keys %begun if keys %begun > $most;
	}
	else
	{
		$state = 'waited' if $state eq 'begun';
		%begun = ();
	}
}
cmp_ok($looks, '>', 0, 'the looks are seen');
cmp_ok($most, '>', 16, 'many files are in flight');
ok($goes_on, 'and more as soon as one of them is free');

$node->stop;
done_testing();

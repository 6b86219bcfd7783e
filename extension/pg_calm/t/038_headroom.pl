
# Where little more may become dirty on the host before the kernel makes writers
# wait, as a fake host shows it, no clean page is made dirty to be written along,
# unless the device has written it in a moment.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use CalmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $root = fake_host();
my $node = draining_node('headroom');

# 800 MB may be dirty or under writeback on the host, 600 MB before writers wait
sub under_writeback
{
	my ($pages) = @_;

	write_file("$root/proc/vmstat.new",
		"nr_dirty 1000\nnr_writeback $pages\nnr_dirty_background_threshold 100000\nnr_dirty_threshold 200000\n");
	rename "$root/proc/vmstat.new", "$root/proc/vmstat" or die "could not rename: $!";
	return;
}

# Pages that are bridged while 500 that are scattered are flushed
sub bridged
{
	my $before = status_of($node);
	my $after;

	wait_for(
		sub {
			$node->safe_psql('postgres', 'UPDATE t SET n = n + 1 WHERE id % 21 = 0');
			$after = status_of($node);
			return $after->{flushed_pages} - $before->{flushed_pages} > 500;
		},
		60);
	die 'pages are not flushed' unless $after->{flushed_pages} - $before->{flushed_pages} > 500;
	return $after->{bridged_pages} - $before->{bridged_pages};
}

sub set_bandwidth
{
	my ($bandwidth) = @_;

	$node->append_conf('postgresql.conf', "pg_calm.write_bandwidth = '$bandwidth'\n");
	$node->reload;
	return;
}

under_writeback(0);
$node->append_conf('postgresql.conf', "pg_calm.flush_age = '500ms'\npg_calm.write_bandwidth = '10MB'\nmax_wal_size = '10GB'\n");
$node->start;
my $why = cannot_bridge($node);
plan skip_all => $why if $why;
scattered_table($node);

# which gaps are worth it is known after some seconds
ok(wait_for(sub { return bridged() > 100 }, 60), 'with room gaps are bridged');
under_writeback(130_000);
# the worker looks several times a second; what it has begun is ended
ok(wait_for(sub { return bridged() == 0 }, 60), 'without room bridging comes to an end');
is(bridged(), 0, 'and stays so');
set_bandwidth('1GB');
ok(wait_for(sub { return bridged() > 100 }, 60), 'but where that takes a moment');
set_bandwidth('10MB');
under_writeback(0);
ok(wait_for(sub { return bridged() > 100 }, 60), 'and again with room');

$node->stop;
done_testing();

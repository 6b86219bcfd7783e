
# A step of the worker is bounded in time: whatever a call takes that starts to write, the worker
# is heard of, within a region of many runs and from region to region.  test/harmful_flush.c has
# each such call take longer.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use CalmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'PG_CALM_HARMFUL_FLUSH is not set: see test/run_tests.sh'
  unless $ENV{PG_CALM_HARMFUL_FLUSH};

my $control = fake_host() . '/control';
write_file($control, "\0" x 16);

# Each page is a run.  A worker that is not heard of for half of the time that all calls of a test
# take counts as one that does not respond.
my $node = calm_node('step_bounded', q{
shared_buffers = 1MB
max_wal_size = 10GB
pg_calm.iops = 3000
pg_calm.bridge = off
pg_calm.clean_buffers = 0
pg_calm.flush_age = '1h'
pg_calm.unflushed_limit = '10GB'
pg_calm.worker_timeout = '4s'
});

sub plant
{
	my ($fault) = @_;

	open(my $file, '+<', $control) or die "could not open $control: $!";
	syswrite($file, $fault);
	close $file;
	return;
}

sub set_age
{
	my ($age) = @_;

	$node->safe_psql('postgres', "ALTER SYSTEM SET pg_calm.flush_age = '$age'");
	$node->reload;
	return;
}

# Calls that wrote pages, each of which is a run; on a busy machine the kernel writes some first
sub written
{
	my $status = status_of($node);

	return $status->{device_operations} + $status->{kernel_flushed_pages};
}

# Mark pages, and have them flushed by slow calls
sub flushes
{
	my ($name, $database, $tables, $where, $pages) = @_;
	my $silent = 0;
	my $before = written();

	mark_pages($node, $database, $tables, $where);
	ok(wait_for(sub { status_of($node)->{unflushed_pages} >= $pages }), "$name: pages wait");
	plant('s');
	set_age('1ms');
	ok( wait_for(
			sub {
				my $status = status_of($node);
				$silent++ if ($status->{degraded} // '') =~ /does not respond/;
				return $status->{unflushed_pages} + $status->{in_flight_pages} == 0;
			}),
		"$name: they are flushed");
	is($silent, 0, "$name: the worker is heard of all the time");
	cmp_ok(written(), '>=', $before + $pages, "$name: by many calls");
	plant('-');
	set_age('1h');
	return;
}

{
	local $ENV{LD_PRELOAD} = $ENV{PG_CALM_HARMFUL_FLUSH};
	local $ENV{HARMFUL_FLUSH} = $control;
	local $ENV{HARMFUL_DEVICE} = '8 0 disk';
	$node->start;
}
$node->safe_psql('postgres', 'CREATE EXTENSION pg_calm; CREATE DATABASE many');
paged_tables($node, 'postgres', 1, 1100);
flushes('many runs', 'postgres', 1, 'mod(id, 2) = 0', 450);
# four of each
paged_tables($node, 'many', 100, 150);
flushes('many regions', 'many', 100,
	q{ctid = ANY (''{"(10,1)","(50,1)","(90,1)","(130,1)"}'')}, 350);

$node->stop;
done_testing();

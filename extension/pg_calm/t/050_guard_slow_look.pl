
# A look of the guard that waits, as for a directory in which a checkpoint removes segments, is
# followed by the next one all the same: a guard that is silent lets all writers go.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use CalmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

plan skip_all => 'PG_CALM_SMALL_FILESYSTEM is not set: see test/run_tests.sh'
  unless $ENV{PG_CALM_SMALL_FILESYSTEM};

my $node = calm_node(
	'slow_look', q{
shared_preload_libraries = 'pg_calm_guard'
archive_mode = on
archive_command = 'false'
max_wal_size = 1GB
pg_calm_guard.exempt_superusers = off
}, '--wal-segsize=1');
{
	local $ENV{LD_PRELOAD} = $ENV{PG_CALM_SMALL_FILESYSTEM};
	# less than what makes a guard silent, but not twice that
	local $ENV{PG_CALM_SLOW_LOOK} = 3000;
	$node->start;
}
$node->safe_psql('postgres', 'CREATE EXTENSION pg_calm_guard; CREATE TABLE filler (t text)');

sub state
{
	return $node->safe_psql('postgres', "SELECT state FROM pg_calm_guard WHERE input = 'wal_space'");
}

sub presses
{
	return state() =~ /^(pacing|refusing)$/;
}

sub make_wal
{
	$node->safe_psql('postgres',
		"INSERT INTO filler SELECT repeat(md5(i::text), 30) FROM generate_series(1, 900) i; SELECT pg_switch_wal()"
	);
	return;
}

ok(wait_for(sub { make_wal(); return presses() }, 120), 'in shadow: writers would be held');
$node->safe_psql('postgres', "ALTER SYSTEM SET pg_calm_guard.mode = on");
$node->reload;
ok(wait_for(\&presses, 30), 'they are');

# the longest time between looks of one that is not watching
my %states;
for (1 .. 48)
{
	$states{ state() }++;
	usleep(250_000);
}
is($states{unknown} // 0, 0, 'and stay held') or note explain \%states;

$node->stop;
done_testing();

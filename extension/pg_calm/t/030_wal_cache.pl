
# WAL that has been flushed is dropped from the page cache, if nobody will read it.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use CalmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'fincore is not installed' if system('command -v fincore >/dev/null 2>&1') != 0;

my $node = calm_node('wal_cache', q{
max_wal_size = 4GB
max_prepared_transactions = 2
});
my $wal = $node->data_dir . '/pg_wal';

$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION pg_calm');

# Fills some segments; returns the names of those that are full, in order
sub fill
{
	my $first = $node->safe_psql('postgres', 'SELECT pg_walfile_name(pg_current_wal_lsn())');
	my $last;

	$node->safe_psql('postgres',
		q{SELECT count(pg_logical_emit_message(true, 'fill', repeat('w', 1000000))) FROM generate_series(1, 60)});
	$last = $node->safe_psql('postgres', 'SELECT pg_walfile_name(pg_current_wal_lsn())');
	opendir(my $directory, $wal) or die "could not open $wal: $!";
	return sort grep { /^[0-9A-F]{24}$/ && $_ gt $first && $_ lt $last } readdir $directory;
}

# Bytes of them in the page cache
sub cached
{
	my $bytes = 0;

	foreach my $segment (@_)
	{
		my ($out, $err) =
		  run_command([ 'fincore', '--bytes', '--noheadings', '--output', 'RES', "$wal/$segment" ]);
		note "$segment: $out $err";
		$bytes += $out;
	}
	return $bytes;
}

sub settle
{
	my ($name, $setting) = @_;

	$node->safe_psql('postgres', "ALTER SYSTEM SET $name = $setting");
	$node->reload;
	sleep 1;
	return;
}

my @segments;

# What was written before the worker began to look stays
sub is_dropped
{
	@segments = fill();
	return wait_for(sub { cached(@segments) == 0 }, 3);
}

ok(wait_for(\&is_dropped, 60), 'what is flushed is dropped');
cmp_ok(scalar @segments, '>=', 2, 'segments are full');

# --- others who read

$node->safe_psql('postgres', q{SELECT pg_create_physical_replication_slot('reader', true)});
@segments = fill();
sleep 2;
cmp_ok(cached(@segments), '>', 16 * 1024 * 1024, 'with a slot it stays');
$node->safe_psql('postgres', q{SELECT pg_drop_replication_slot('reader')});

# a prepared transaction is read back from WAL when it is committed
$node->safe_psql('postgres', q{CREATE TABLE two (i int); BEGIN; INSERT INTO two VALUES (1); PREPARE TRANSACTION 'two'});
@segments = fill();
sleep 2;
cmp_ok(cached(@segments), '>', 16 * 1024 * 1024, 'with a prepared transaction it stays');
$node->safe_psql('postgres', q{COMMIT PREPARED 'two'});

SKIP:
{
	skip 'the server has no WAL summarizer', 1 if $node->pg_version < 17;
	settle('summarize_wal', 'on');
	@segments = fill();
	sleep 2;
	cmp_ok(cached(@segments), '>', 16 * 1024 * 1024, 'nor is what the summarizer reads');
	settle('summarize_wal', 'off');
}
ok(wait_for(\&is_dropped, 60), 'without any of them it is dropped');

# --- off

settle('pg_calm.drop_wal_cache', 'off');
@segments = fill();
sleep 2;
cmp_ok(cached(@segments), '>', 16 * 1024 * 1024, 'off: it stays');
settle('pg_calm.drop_wal_cache', 'on');
ok(wait_for(\&is_dropped, 60), 'on: it is dropped');

# --- recovery reads it from the disk

$node->safe_psql('postgres', 'CREATE TABLE t AS SELECT generate_series(1, 100000) i');
ok(kill_node($node), 'killed');
$node->start;
is($node->safe_psql('postgres', 'SELECT count(*) FROM t'), '100000', 'recovery finds all');
$node->stop;

done_testing();

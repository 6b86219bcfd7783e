# WAL segments that no checkpoint has left to recycle are filled before they are needed, by the
# cleaner; and not in mode off.  A server that stops leaves none half filled.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use CalmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# Segments of 1 MB, which a host that is busy fills in time as well
my $node = calm_node('wal_ahead', q{
max_wal_size = 10GB
shared_buffers = 32MB
bgwriter_lru_maxpages = 0
checkpoint_timeout = 1h
pg_calm.write_iops = 1000
pg_calm.write_bandwidth = '100MB'
}, '--wal-segsize=1');
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION pg_calm');

# So many MB of WAL, as fast as it goes
sub write_wal
{
	my ($megabytes) = @_;

	$node->safe_psql('postgres',
		"SELECT count(pg_logical_emit_message(false, 'x', repeat('x', 1000000))) FROM generate_series(1, $megabytes)");
	return;
}

# Segments that are there after the one in use
sub ahead
{
	return $node->safe_psql(
		'postgres', q{
SELECT count(*) FROM pg_ls_waldir()
 WHERE name ~ '^[0-9A-F]{24}$' AND name > pg_walfile_name(pg_current_wal_insert_lsn())});
}

sub half_filled { return join ' ', glob($node->data_dir . '/pg_wal/xlogtemp.*') }

$node->safe_psql('postgres', q{ALTER SYSTEM SET pg_calm.mode = off});
$node->reload;
write_wal(50);
cmp_ok(ahead(), '<=', 1, 'mode off: whoever needs a segment makes it');
$node->safe_psql('postgres', q{ALTER SYSTEM SET pg_calm.mode = on});
$node->reload;
# What comes next is filled between two bursts, as soon as the cleaner gets to it
ok(wait_for(sub { write_wal(20); wait_for(sub { ahead() >= 2 }, 3) }, 60),
	'mode on: the next ones are there before that');
SKIP:
{
	my $why = cannot_trace();
	skip $why, 2 if $why;
	my $cleaner = process_id($node, 'pg_calm cleaner');
	my ($handle) = trace($cleaner, '-e', 'trace=pwritev', '-e', 'inject=pwritev:delay_exit=2000000');
	ok(wait_for(sub { write_wal(5); half_filled() =~ /xlogtemp\.$cleaner\b/ }), 'one is being filled');
	# with all that is in pg_stat_activity, as administrators do
	$node->safe_psql('postgres', "SELECT pg_cancel_backend($cleaner)");
	finish_trace($handle);
	ok(wait_for(sub { half_filled() !~ /xlogtemp\.$cleaner\b/ }, 30), 'a cleaner that is cancelled leaves none, either');
}
# Of buffers that are written meanwhile, for a stop
SKIP:
{
	my $why = cannot_trace();
	skip $why, 4 if $why;
	$node->safe_psql('postgres', q{CREATE TABLE d AS SELECT i, repeat('x', 500) FROM generate_series(1, 20000) i});
	$node->safe_psql('postgres', "ALTER SYSTEM SET $_") foreach q{pg_calm.stop_target = '1s'}, q{pg_calm.write_bandwidth = '1MB'};
	$node->safe_psql('postgres', 'CHECKPOINT');
	$node->reload;
	ok(wait_for(sub { status_of($node)->{write_bandwidth} == 1024 * 1024 }), 'little is written in a second');
	my $cleaner = process_id($node, 'pg_calm cleaner');
	my ($handle) = trace($cleaner, '-e', 'trace=pwritev,pwrite64', '-e', 'inject=pwritev:delay_exit=2000000', '-e', 'inject=pwrite64:error=EIO');
	ok(wait_for(sub { write_wal(5); half_filled() =~ /xlogtemp\.$cleaner\b/ }), 'one is being filled');
	$node->safe_psql('postgres', 'UPDATE d SET i = i + 1');
	ok(wait_for(sub { !kill 0, $cleaner }), 'a write of a page fails, and so does the cleaner');
	finish_trace($handle);
	unlike(half_filled(), qr/xlogtemp\.$cleaner\b/, 'which leaves none half filled');
	$node->safe_psql('postgres', "ALTER SYSTEM RESET $_") foreach 'pg_calm.stop_target', 'pg_calm.write_bandwidth';
	$node->reload;
}
write_wal(20);
$node->stop('fast');
is(half_filled(), '', 'a server that stops leaves none half filled');
(my $log = slurp_file($node->logfile)) =~ s/^.*ERROR:  could not write block.*$//mg;
unlike($log, qr/ERROR|FATAL:(?!.*(shutting down|administrator command))|PANIC/, 'and nothing failed');
$node->start;
write_wal(20);
is($node->safe_psql('postgres', 'SELECT degraded IS NULL OR degraded NOT LIKE \'%worker%\' FROM pg_calm_status'), 't', 'it starts again, and goes on');
$node->stop;

done_testing();

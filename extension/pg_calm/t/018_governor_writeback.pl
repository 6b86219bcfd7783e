
# The governor and the data volume: writers are held to what it takes, and a
# checkpoint in its fsync phase is left alone.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use CalmTest;
use IPC::Run qw(start);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

# A device of 300 kB per second, by the settings: what is unflushed takes minutes,
# as far as the governor knows
my $node = calm_node('writeback', q{
shared_buffers = 16MB
max_wal_size = 1GB
log_checkpoints = on
pg_calm.write_bandwidth = '300kB'
pg_calm.flush_age = '1h'
pg_calm.unflushed_limit = '1GB'
pg_calm.drain_threshold = 0
pg_calm.drain_timeout = '1h'
pg_calm.governor_patience = '1h'
pg_calm.governor_writeback = on
});
$node->start;
$node->safe_psql(
	'postgres', q{
CREATE EXTENSION pg_calm;
CREATE ROLE app LOGIN;
GRANT CREATE ON SCHEMA public TO app;
SET ROLE app;
CREATE TABLE t (id int PRIMARY KEY, n int, filler text) WITH (fillfactor = 50);
INSERT INTO t SELECT i, 0, repeat('x', 500) FROM generate_series(1, 40000) i;
RESET ROLE;
CHECKPOINT});

# More pages than shared_buffers has, so that most are written by the backend
my $update = 'UPDATE t SET n = n + 1';

sub set
{
	my (@settings) = @_;

	$node->safe_psql('postgres', "ALTER SYSTEM SET $_") foreach @settings;
	$node->reload;
	return;
}

sub governor
{
	my ($input, $column) = @_;

	return $node->safe_psql('postgres',
		"SELECT coalesce(($column)::text, 'null') FROM pg_calm_governor WHERE input = '$input'");
}

sub becomes
{
	my ($input, $column, $value, $name) = @_;
	my $ok = wait_for(sub { return governor($input, $column) eq $value }, 60);

	diag($node->safe_psql('postgres', "SELECT * FROM pg_calm_governor WHERE input = '$input'")) unless $ok;
	return ok($ok, $name);
}

sub held
{
	return $node->safe_psql('postgres',
		"SELECT count(*) FROM pg_calm_governor_holds WHERE moment = 'committed' AND input = 'writeback'");
}

becomes('writeback', 'state', 'watched', 'the data volume is watched');
$node->safe_psql('postgres', $update);
# no more than the cap, but for what is lost in rounding
becomes('writeback', 'drain_rate BETWEEN 1 AND 301 * 1024', 'true',
	'what it takes per second is worked out from its caps and the page map');
is(governor('writeback', 'allowed_rate'), 'null', 'far from the limit there is no rate');

# --- pages gather that the worker does not flush

my $worker = status_of($node)->{worker_pid};
kill 'STOP', $worker;
set("pg_calm.unflushed_limit = '4MB'");
$node->safe_psql('postgres', $update);
becomes('writeback', 'state', 'pacing', 'beyond the limit writers get a rate');
my ($err, $out) = ('', '');
my $session = start(
	[ 'psql', '-XAt', '-U', 'app', '-h', $node->host, '-p', $node->port, '-c', $update, 'postgres' ],
	'<', \undef, '>', \$out, '2>', \$err, IPC::Run::timer(600));
ok(wait_for(sub { $session->pump_nb; return held() eq '1' }, 120), 'who writes is held after his transaction');
is($node->safe_psql('postgres', 'SELECT min(n) FROM t'), '3', 'which is visible');

# --- nothing is known of a device that nothing is flushed to

set("pg_calm.mode = 'shadow'");
becomes('writeback', 'state', 'unknown', 'in shadow mode nothing is known of the device');
ok(wait_for(sub { $session->pump_nb; return !$session->pumpable }, 60), 'and nobody is held');
$session->finish;
is($err, '', 'without an error');

# --- a checkpoint that only waits can't be made to hurry

set("pg_calm.governor_writeback = off", "pg_calm.mode = 'on'", "pg_calm.governor_max_wal = '10GB'");
becomes('writeback', 'state', 'off', 'switched off');
$node->safe_psql('postgres', 'CHECKPOINT');
$node->safe_psql('postgres', $update);

# one by the amount of WAL, whose writing is over soon
set("max_wal_size = '32MB'", 'checkpoint_completion_target = 0.01');
fill_wal($node, begun_by_wal($node));
ok(wait_for(sub { drains($node) }, 60), 'with a worker that stands still a checkpoint waits before its fsync calls');
# more WAL, but not so much that it asks for the next one, which ends the wait
set("max_wal_size = '4GB'");
$node->safe_psql('postgres',
	"SELECT pg_logical_emit_message(false, 'fill', repeat('w', 1000000)) FROM generate_series(1, 70)");
set("pg_calm.governor_max_wal = '64MB'");
becomes('max_wal', 'state', 'pacing', 'the governor sees that WAL is not freed');
usleep(2_000_000);
ok(drains($node), 'it does not end that wait, which would be to write all at once');
kill 'CONT', $worker;
ok(wait_for(sub { return slurp_file($node->logfile) =~ /checkpoint complete/ && !drains($node) }, 120),
	'it ends when the pages are flushed');

$node->stop;
done_testing();

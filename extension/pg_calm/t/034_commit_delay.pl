
# Fuller flushes of WAL: who waits for whom, what that brings, and who never waits.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use CalmTest;
use IPC::Run qw(start);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'PG_CALM_SLOW_FDATASYNC is not set: see test/run_tests.sh'
  unless $ENV{PG_CALM_SLOW_FDATASYNC};

my $node = calm_node(
	'commits', q{
wal_sync_method = fdatasync
max_prepared_transactions = 5
synchronous_commit = on
});
my $script = PostgreSQL::Test::Utils::tempdir() . '/insert.sql';
write_file($script, "INSERT INTO t VALUES (:client_id);\n");

# A volume on which a flush takes 10 ms
sub start_slow
{
	local $ENV{LD_PRELOAD} = $ENV{PG_CALM_SLOW_FDATASYNC};
	local $ENV{SLOW_FDATASYNC_US} = 10000;

	$node->start;
	return;
}

sub set
{
	my (@settings) = @_;

	$node->safe_psql('postgres', "ALTER SYSTEM SET $_") foreach @settings;
	$node->reload;
	return;
}

# A column of pg_calm_wal
sub wal
{
	my ($column) = @_;

	return $node->safe_psql('postgres', "SELECT coalesce(($column)::text, 'null') FROM pg_calm_wal");
}

sub pgbench
{
	my ($clients, @options) = @_;

	return (
		'pgbench', '-n', '-c', $clients, '-j', 1, '-f', $script, @options, '-h', $node->host, '-p',
		$node->port, 'postgres');
}

# Commits per flush of clients with so many transactions each
sub fill
{
	my ($clients, $transactions) = @_;
	my $flushes = wal('flushes');

	command_ok([ pgbench($clients, '-t', $transactions) ], "$clients clients");
	return $clients * $transactions / (wal('flushes') - $flushes);
}

# Clients that go on until they are told
sub start_clients
{
	my ($clients, $options) = @_;
	my $load = { out => '', err => '' };

	local $ENV{PGOPTIONS} = $options // '';
	$load->{handle} =
	  start([ pgbench($clients, '-T', 300) ], '>', \$load->{out}, '2>', \$load->{err});
	return $load;
}

sub stop_clients
{
	my ($load) = @_;

	# INT is ignored where the test was started in the background of a shell
	$load->{handle}->signal('TERM');
	$load->{handle}->finish;
	return;
}

# While they go on: how a counter has grown by when so many flushes more were made
sub growth
{
	my ($column, $flushes) = @_;
	my $before = wal($column);
	my $until = wal('flushes') + $flushes;

	wait_for(sub { return wal('flushes') >= $until }, 60) or diag('there are no flushes');
	return wal($column) - $before;
}

sub reaches
{
	my ($state, $name) = @_;
	my $ok = wait_for(sub { return wal('state') eq $state }, 60);

	diag('it is: ' . $node->safe_psql('postgres', 'SELECT * FROM pg_calm_wal')) unless $ok;
	return ok($ok, $name);
}

start_slow();
$node->safe_psql(
	'postgres', q{
CREATE EXTENSION pg_calm;
CREATE ROLE app LOGIN;
CREATE TABLE t (i int);
GRANT ALL ON t TO app});

# --- off, as it comes

my $fill_off = fill(8, 60);
note "off: $fill_off commits per flush";
is(wal("state || ', ' || reason"), 'off, nobody asks for it', 'off by default');
is(wal('waits'), 0, 'nobody waits');
is(wal('commits'), 0, 'nor is counted');

# --- auto

set("pg_calm.commit_delay = 'auto'");
reaches('idle', 'auto: it looks');
my $fill_one = fill(1, 60);
is(wal('waits'), 0, 'one client never waits');
is(wal('trials'), 0, 'nor is that tried');
cmp_ok($fill_one, '<=', 1, 'and has a flush for each commit');

my $load = start_clients(8);
reaches('waiting', 'eight clients: a wait is found');
my $flushes = wal('flushes');
my $commits = growth('commits', 100);
my $fill_auto = $commits / (wal('flushes') - $flushes);
note "auto: $fill_auto commits per flush, delay " . wal('delay') . ', gain ' . wal('measured_gain');
cmp_ok($fill_auto, '>', $fill_off * 1.3, 'flushes are fuller');
cmp_ok(wal('waits'), '>', 50, 'since somebody waits before them');
cmp_ok(wal('operations_saved'), '>', 20, 'which saved flushes');
like(wal('reason'), qr/there are more commits per second with it/, 'the view says why');
cmp_ok(wal('measured_gain'), '>', 0.1, 'and by how much');

# --- the variables of the server are as before after each commit

my $shown = $node->safe_psql(
	'postgres', q{
SET pg_calm.commit_delay = 3000;
INSERT INTO t SELECT 1;
INSERT INTO t SELECT 2;
SELECT pg_sleep(0.1);
INSERT INTO t SELECT 3;
SELECT current_setting('commit_delay') || ' ' || current_setting('commit_siblings');
BEGIN;
SET LOCAL commit_delay = 70;
INSERT INTO t SELECT 4;
SELECT current_setting('commit_delay');
COMMIT;
SET commit_delay = 50;
INSERT INTO t SELECT 5;
SELECT current_setting('commit_delay') || ' ' || current_setting('commit_siblings')});
is($shown, "\n0 5\n70\n50 5", 'commit_delay and commit_siblings are the user\'s');

# PREPARE TRANSACTION refuses temporary tables after it was decided how long it would wait
my (undef, $after, $refused) = $node->psql(
	'postgres', q{
SET pg_calm.commit_delay = 3000;
INSERT INTO t SELECT 1;
SELECT pg_sleep(0.1);
BEGIN;
CREATE TEMP TABLE gone (i int);
INSERT INTO t SELECT 2;
PREPARE TRANSACTION 'gone';
SELECT current_setting('commit_delay') || ' ' || current_setting('commit_siblings')},
	on_error_stop => 0);
like($refused, qr/temporary objects/, 'a transaction fails on its way to its flush');
is($after, "\n0 5", 'and leaves the variables as they were');

# --- those who never wait

set("pg_calm.mode = 'shadow'");
reaches('watching', 'shadow mode: it looks');
is(growth('waits', 50), 0, 'but nobody waits');
is(wal('delay'), 0, 'nor would');
cmp_ok(wal('proposed_delay'), '>', 0, 'the view says what would be');
set("pg_calm.mode = 'on'");
reaches('waiting', 'mode on again');
stop_clients($load);
wait_for(sub { return wal('state') eq 'idle' }) or diag('it is not idle');

$load = start_clients(8, '-c commit_delay=1 -c commit_siblings=1000');
is(growth('waits', 100), 0, 'with commit_delay of their own they wait by that alone');
stop_clients($load);
wait_for(sub { return wal('state') eq 'idle' }) or diag('it is not idle');

$commits = wal('commits');
$node->safe_psql(
	'postgres', q{
SET synchronous_commit = off;
INSERT INTO t SELECT 1;
RESET synchronous_commit;
SELECT count(*) FROM t});
is(wal('commits'), $commits, 'without a flush a commit does not count');
$node->safe_psql('postgres', "BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION 'p'");
is(wal('commits'), $commits + 1, 'PREPARE TRANSACTION does');
$node->safe_psql('postgres', "COMMIT PREPARED 'p'");
$node->safe_psql('postgres', "SET synchronous_commit = 'local'; INSERT INTO t SELECT 1");
is(wal('commits'), $commits + 2, 'as do other values of synchronous_commit');

# --- a role's own, and a number

set("pg_calm.commit_delay = 'off'");
$node->safe_psql('postgres', 'ALTER ROLE app SET pg_calm.commit_delay = 2000');
my $waits = wal('waits');
command_ok([ pgbench(1, '-t', 20, '-U', 'app') ], 'a role with a number, alone');
is(wal('waits'), $waits, 'does not wait');
command_ok([ pgbench(4, '-t', 20, '-U', 'app') ], 'four clients of it');
cmp_ok(wal('waits'), '>', $waits, 'wait');
$node->safe_psql('postgres', "ALTER ROLE app SET pg_calm.commit_delay = 'auto'");
set('pg_calm.commit_delay = off');
my ($result, undef, $err) = $node->psql('postgres', 'SET pg_calm.commit_delay = off',
	extra_params => [ '-U', 'app' ]);
like($err, qr/permission denied/, 'a user can\'t change it');
$waits = wal('waits');
set("pg_calm.mode = 'off'");
command_ok([ pgbench(4, '-t', 20, '-U', 'app') ], 'mode off');
is(wal('waits'), $waits, 'nobody waits');
is(wal("state || ', ' || reason"), 'off, pg_calm.mode is off', 'as the view says');
set("pg_calm.mode = 'on'", "pg_calm.commit_delay = 'auto'");

# --- the server's own, and other methods

reaches('idle', 'on again');
set('commit_delay = 10');
ok(wait_for(sub { return wal('reason') eq 'commit_delay is set' }), 'the server\'s own setting is left alone');
set('commit_delay = 0');
set("wal_sync_method = 'open_datasync'");
ok(wait_for(sub { return wal('reason') eq 'wal_sync_method is neither fdatasync nor fsync' }),
	'with open_datasync there is no wait');
is(wal('state'), 'off', 'it is off');
set("wal_sync_method = 'fsync'");
reaches('idle', 'with fsync it is not');
$flushes = wal('flushes');
$node->safe_psql('postgres', 'INSERT INTO t SELECT 1');
cmp_ok(wal('flushes'), '>', $flushes, 'and flushes are seen');

$node->stop;
done_testing();


# The guard: who is held, when and where, who never is, how a hold ends, and
# that nothing holds writers for ever.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use CalmTest;
use IPC::Run qw(start);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# Statements that must not be held are given so long before it counts as one
my $bound = 60;

my $node = calm_node(
	'governed', q{
archive_mode = on
archive_command = 'true'
max_wal_size = 512MB
max_wal_senders = 4
hot_standby = on
wal_sender_timeout = 0
log_checkpoints = on
shared_preload_libraries = 'pg_calm_guard'
pg_calm_guard.mode = on
pg_calm_guard.wal_space = 0
}, '--wal-segsize=1');
$node->start;
$node->safe_psql(
	'postgres', q{
CREATE EXTENSION pg_calm_guard;
CREATE ROLE app LOGIN;
CREATE ROLE exempt LOGIN;
ALTER ROLE exempt SET pg_calm_guard.hold = off;
GRANT CREATE ON SCHEMA public TO app;
SET ROLE app;
CREATE TABLE filler (t text);
CREATE TABLE other (t text);
CREATE TABLE gone (i int);
CREATE TABLE dropped (i int);
CREATE PROCEDURE drops() LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO filler SELECT repeat(md5(i::text), 30) FROM generate_series(1, 1000) i;
	DROP TABLE dropped;
	COMMIT;
END $$;
GRANT ALL ON filler TO exempt;
});

sub set
{
	my (@settings) = @_;

	$node->safe_psql('postgres', "ALTER SYSTEM SET $_") foreach @settings;
	$node->reload;
	return;
}

# A column of the row of pg_calm_guard for an input
sub guard { return guard_input($node, @_); }

sub reaches { return guard_reaches($node, @_); }

# Wait until an input is beyond its limit, and does not drain
sub stands_still
{
	my ($input) = @_;

	return wait_for(
		sub { return guard($input, 'value > value_limit AND allowed_rate < 1024') eq 'true' }, 120);
}

# Start statements as a role; each is a transaction of its own
sub statements
{
	my ($role, @statements) = @_;
	my $session = { out => '', err => '' };

	$session->{handle} = start(
		[
			'psql', '-XAt', '-v', 'VERBOSITY=verbose', '-U', $role, '-h', $node->host, '-p', $node->port,
			map({ ('-c', $_) } @statements), 'postgres'
		],
		'<', \undef,
		'>', \$session->{out},
		'2>', \$session->{err},
		IPC::Run::timer(600));
	return $session;
}

# Wait until they are over; returns what they printed and their errors
sub ended
{
	my ($session) = @_;

	$session->{handle}->pump_nb;
	return 0 if !wait_for(
		sub { $session->{handle}->pump_nb; return !$session->{handle}->pumpable; }, $bound);
	$session->{handle}->finish;
	return 1;
}

# The session that is held at a moment, or ''
sub held
{
	my ($moment, $input) = @_;
	my $pid = '';

	wait_for(
		sub {
			$pid = $node->safe_psql('postgres',
				"SELECT min(pid) FROM pg_calm_guard_holds WHERE moment = '$moment' AND input = '$input'");
			return $pid ne '';
		},
		60) or diag('nobody is held: ' . $node->safe_psql('postgres', 'SELECT * FROM pg_calm_guard'));
	return $pid;
}

# As app, with a limit of time that no statement which is not held needs
sub passes
{
	my ($statement, $name, $role) = @_;
	my ($result, $out, $err) = $node->psql('postgres', $statement,
		extra_params => [ '-U', $role // 'app' ], timeout => $bound, timed_out => \my $timed_out);

	return is($timed_out ? 'held' : $result, 0, $name) || diag($err);
}

my $superuser = getpwuid($<);
my $megabyte = "INSERT INTO filler SELECT repeat(md5(i::text), 30) FROM generate_series(1, 1000) i";

# Write until the guard sees too much of something
sub write_until_held
{
	my ($input) = @_;

	$node->safe_psql('postgres', $megabyte) foreach 1 .. 4;
	return reaches($input, 'pacing', "$input: pacing");
}

is($node->safe_psql('postgres', "SELECT string_agg(input, ' ') FROM pg_calm_guard WHERE state <> 'off'"),
	'', 'nothing is governed by default');
passes($megabyte, 'nor is anybody held');

# --- lag of a standby that stands still

$node->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
$standby->append_conf('postgresql.conf', "archive_mode = off\nwal_receiver_timeout = 0");
$standby->start;
$node->wait_for_catchup($standby);
set("pg_calm_guard.max_lag = 'stand* = 2MB'", "pg_calm_guard.patience = '1h'");
reaches('lag', 'watched', 'a standby with a limit is watched');
is(guard('lag', 'object'), 'standby', 'by its application_name');
my $receiver = $standby->safe_psql('postgres', 'SELECT pid FROM pg_stat_wal_receiver');
kill 'STOP', $receiver;
write_until_held('lag');
ok(stands_still('lag'), 'a superuser is not held, and takes it beyond the limit');
is(guard('lag', 'binding'), 'true', 'it sets the rate');

my $session = statements('app', $megabyte, "INSERT INTO other VALUES ('second')");
my $pid = held('committed', 'lag');
is($node->safe_psql('postgres', "SELECT count(*) FROM pg_locks WHERE pid = $pid"),
	'0', 'a session is held after its transaction, without a lock');
is($node->safe_psql('postgres', "SELECT wait_event FROM pg_stat_activity WHERE pid = $pid"),
	$node->safe_psql('postgres', 'SHOW server_version_num') >= 170000
	? 'PgCalmGuardHold'
	: 'Extension', 'with a wait event');
passes('SELECT count(*) FROM filler', 'who reads is not held');
passes('TRUNCATE filler', 'nor who frees space, in the table that was written to');
passes("BEGIN; $megabyte; TRUNCATE filler; COMMIT", 'nor a transaction that writes and frees space');
passes("BEGIN; $megabyte; NOTIFY somebody; COMMIT", 'nor one that notifies somebody');
passes("BEGIN; $megabyte; SELECT pg_notify('somebody', ''); COMMIT", 'by a function, too');
passes("BEGIN; CREATE TABLE own (i int); $megabyte; ALTER TABLE own ALTER i TYPE bigint; COMMIT",
	'nor one that has files to drop');
passes("BEGIN; CREATE TEMP TABLE own (i int) ON COMMIT DROP; $megabyte; COMMIT", 'though it is not said before the end');
passes('VACUUM other', 'nor VACUUM');
passes('VACUUM (ANALYZE) other, filler', 'nor the transactions that it makes of several tables');
passes('DROP TABLE gone', 'nor DROP');
passes('CALL drops()', 'nor a procedure at a COMMIT after which files go');
passes($megabyte, 'nor a role that is exempt', 'exempt');
passes("BEGIN; INSERT INTO other VALUES ('prepared'); ROLLBACK", 'nor who has no debt and rolls back');

$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
is(held('before statement', 'lag'), $pid, 'cancelled, it goes on, and is held before the next statement');
is( $node->safe_psql('postgres', "SELECT string_agg(DISTINCT mode, ' ') FROM pg_locks WHERE pid = $pid AND NOT fastpath"),
	'', 'with no lock but of the fast path');
$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
ok(ended($session), 'cancelled again, it ends');
like($session->{err}, qr/57014: canceling statement due to user request/, 'with an error');
is($node->safe_psql('postgres', "SELECT count(*) FROM other WHERE t = 'second'"), '0', 'and has not run');

$session = statements('app', $megabyte);
$pid = held('committed', 'lag');
$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
ok(ended($session), 'a session that is terminated ends');
is($node->safe_psql('postgres', "SELECT count(*) FROM pg_calm_guard_holds WHERE pid = $pid"),
	'0', 'and is held no longer');
$session = statements('app', $megabyte, $megabyte);
$pid = held('committed', 'lag');
$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
is(held('before statement', 'lag'), $pid, 'another is held before its statement');
$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
ok(ended($session), 'terminated, it ends too');
like($session->{err}, qr/57P01: terminating connection/, 'with an error');

$session = statements('app', $megabyte, "INSERT INTO other VALUES ('given way')");
$pid = held('committed', 'lag');
$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
is(held('before statement', 'lag'), $pid, 'one that is held has a weak lock on its table');
passes('ALTER TABLE other ADD COLUMN more int', 'whoever wants a strong one gets it', $superuser);
ok(ended($session), 'since the wait is given up');
is($node->safe_psql('postgres', "SELECT count(*) FROM other WHERE t = 'given way'"),
	'1', 'and the statement runs');
is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_calm_guard_holds'), '0', 'nobody is held');

$session =
  statements('app', "SET statement_timeout = '3s'", $megabyte, "INSERT INTO other VALUES ('third')");
ok(ended($session), 'statement_timeout ends holds');
like(
	$session->{err},
	qr/\A[^\n]*57014: canceling statement due to statement timeout/,
	'by an error before a statement, and none after a commit');
is($node->safe_psql('postgres', "SELECT count(*) FROM other WHERE t = 'third'"), '0', 'which has not run');

# a transaction waits at its end only
$session = statements('app', "BEGIN; $megabyte; $megabyte; INSERT INTO other VALUES ('whole'); COMMIT");
ok(held('committed', 'lag') ne '', 'a transaction of several statements is held after its commit');
is($node->safe_psql('postgres', "SELECT count(*) FROM other WHERE t = 'whole'"), '1', 'which all can see');
cmp_ok(guard('lag', 'holds'), '>=', 4, 'holds are counted');

# --- patience

my $offset = -s $node->logfile;
set("pg_calm_guard.patience = '1s'");
reaches('lag', 'released', 'patience is over');
ok(ended($session), 'the session is released');
like(
	slurp_file($node->logfile, $offset),
	qr/LOG: .*"standby" \(lag\) has not drained for 1 s: the guard releases writers/,
	'the log says so');
cmp_ok(guard('lag', 'releases'), '==', 1, 'and the view');
passes($megabyte, 'nobody is held any more');
kill 'CONT', $receiver;
reaches('lag', 'watched', 'when the standby has caught up it is watched again');

# --- shadow

set("pg_calm_guard.patience = '1h'", "pg_calm_guard.mode = 'shadow'");
$node->wait_for_catchup($standby);
kill 'STOP', $receiver;
write_until_held('lag');
my $holds = guard('lag', 'holds');
passes($megabyte, 'in shadow mode nobody is held');
cmp_ok(guard('lag', 'holds'), '>', $holds, 'but it is counted');
set("pg_calm_guard.mode = 'off'");
reaches('lag', 'off', 'in mode off nothing is looked at');
set("pg_calm_guard.mode = 'on'");

# --- the standby is gone

reaches('lag', 'pacing', 'back in mode on');
ok(stands_still('lag'), 'it still holds writers');
$session = statements('app', $megabyte);
$pid = held('committed', 'lag');
$offset = -s $node->logfile;
$standby->stop('immediate');
ok(ended($session), 'a standby that is gone holds nobody');
reaches('lag', 'unknown', 'its lag is unknown');
like(slurp_file($node->logfile, $offset),
	qr/LOG: .*the guard has lost its input lag, and releases writers\n.*DETAIL: .*"standby"/, 'the log says so');
set("pg_calm_guard.max_lag = ''");

# --- the archive

set("archive_command = 'false'", "pg_calm_guard.archive_backlog = '4MB'");
foreach (1 .. 8)
{
	$node->safe_psql('postgres', "$megabyte; SELECT pg_switch_wal()");
}
ok(stands_still('archive'), 'an archive that takes nothing holds writers');
$session = statements('app', $megabyte);
ok(held('committed', 'archive') ne '', 'and is the reason');
set("archive_command = 'true'");
ok(ended($session), 'when it takes files again, writers go on');
reaches('archive', 'watched', 'the backlog is gone');
set('pg_calm_guard.archive_backlog = 0');
reaches('archive', 'off', 'without a limit nobody is held for it');

# --- a checkpoint that does not come on

my $checkpointer = process_id($node, 'checkpointer');
$node->safe_psql('postgres', 'CHECKPOINT');
kill 'STOP', $checkpointer;
set("pg_calm_guard.max_wal = '4MB'");
write_until_held('max_wal');
$node->safe_psql('postgres', $megabyte) foreach 1 .. 2;
$session = statements('app', $megabyte);
ok(held('committed', 'max_wal') ne '', 'with a checkpointer that stands still writers are held');
is(guard('max_wal', 'object'), 'checkpoint', 'the view says for what');
kill 'CONT', $checkpointer;
ok(ended($session), 'the guard has asked for a checkpoint, after which they go on');
set('pg_calm_guard.max_wal = 0');

# --- no space for WAL

set("pg_calm_guard.wal_space = '1000TB'");
reaches('wal_space', 'pacing', 'no space');
$session = statements('app', "INSERT INTO other VALUES ('refused')", 'SELECT 42');
ok(held('before statement', 'wal_space') ne '', 'not even the first statement begins to write');
passes('SELECT count(*) FROM filler', 'who reads is not held');
passes('TRUNCATE filler', 'who frees space is not held');
set("pg_calm_guard.patience = '1s'");
ok(ended($session), 'patience is over');
like($session->{err}, qr/53100: pg_calm_guard: no space is left for WAL/, 'the statement is refused');
like($session->{out}, qr/^42$/m, 'the session lives on');
is(guard('wal_space', 'state'), 'refusing', 'the view says so');
passes("INSERT INTO other VALUES ('superuser')", 'a superuser may go on', $node->safe_psql('postgres', 'SELECT current_user'));
set('pg_calm_guard.exempt_superusers = off');
my ($result, undef, $err) = $node->psql('postgres', "INSERT INTO other VALUES ('superuser')");
like($err, qr/no space is left for WAL/, 'unless superusers are not exempt');

# --- a guard that stands still holds nobody

set("pg_calm_guard.patience = '1h'", "pg_calm_guard.wal_space = 0");
reaches('wal_space', 'off', 'reset');
set("pg_calm_guard.wal_space = '1000TB'");
reaches('wal_space', 'pacing', 'no space again');
my $guard = (
	map { /^\s*(\d+)/ } grep { /pg_calm_guard/ }
	  `ps --no-headers -o pid,args --ppid @{[ (split /\n/, slurp_file($node->data_dir . '/postmaster.pid'))[0] ]}`
)[0];
kill 'STOP', $guard;
passes("INSERT INTO other VALUES ('stale')", 'a guard that stands still holds nobody');
is(guard('wal_space', 'state'), 'unknown', 'and the view says so');
kill 'CONT', $guard;

$node->stop;
done_testing();

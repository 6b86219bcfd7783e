
# The guard's limit of lag in seconds, and by what standbys have replayed: who
# is held, that an idle primary is not taken for a lagging one, and which of
# several limits counts.  What holding does is in 017_guard.pl.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use CalmTest;
use IPC::Run qw(start);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = calm_node(
	'lagged', q{
wal_level = logical
max_wal_senders = 4
hot_standby = on
wal_sender_timeout = 0
shared_preload_libraries = 'pg_calm_guard'
pg_calm_guard.mode = on
pg_calm_guard.wal_space = 0
pg_calm_guard.patience = '1h'
}, '--wal-segsize=1');
$node->start;
$node->safe_psql(
	'postgres', q{
CREATE EXTENSION pg_calm_guard;
CREATE ROLE app LOGIN;
GRANT CREATE ON SCHEMA public TO app;
SET ROLE app;
CREATE TABLE filler (t text);
});
my $megabyte = "INSERT INTO filler SELECT repeat(md5(i::text), 30) FROM generate_series(1, 1000) i";

$node->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
$standby->append_conf('postgresql.conf', 'wal_receiver_timeout = 0');
$standby->start;
$node->wait_for_catchup($standby);

sub set
{
	my (@settings) = @_;

	$node->safe_psql('postgres', "ALTER SYSTEM SET $_") foreach @settings;
	$node->reload;
	return;
}

# A column of the row of pg_calm_guard for lag
sub lag
{
	my ($column) = @_;

	return $node->safe_psql('postgres',
		"SELECT coalesce(($column)::text, 'null') FROM pg_calm_guard WHERE input = 'lag'");
}

sub reaches
{
	my ($condition, $name) = @_;
	my $ok = wait_for(sub { return lag($condition) eq 'true' }, 60);

	diag('lag: ' . $node->safe_psql('postgres', "SELECT * FROM pg_calm_guard WHERE input = 'lag'"))
	  unless $ok;
	return ok($ok, $name);
}

# Start to write as a role that is not exempt
sub writer
{
	my $session = {};

	$session->{handle} = start(
		[
			'psql', '-XAtq', '-U', 'app', '-h', $node->host, '-p', $node->port, '-c', $megabyte, 'postgres'
		],
		'<', \undef,
		'>', \$session->{out},
		'2>', \$session->{err},
		IPC::Run::timer(600));
	return $session;
}

sub is_held
{
	my ($name) = @_;

	return ok(
		wait_for(
			sub {
				return $node->safe_psql('postgres',
					"SELECT count(*) FROM pg_calm_guard_holds WHERE input = 'lag'") eq '1';
			},
			60),
		$name);
}

sub goes_on
{
	my ($session, $name) = @_;
	my $ended = wait_for(
		sub { $session->{handle}->pump_nb; return !$session->{handle}->pumpable; }, 60);

	$session->{handle}->finish if $ended;
	return ok($ended, $name);
}

# --- which limit counts

set("pg_calm_guard.max_lag = 'near* = 1MB, stand* = 64MB, * = 1MB'");
reaches("state = 'watched' AND object = 'standby'", 'a standby that a pattern fits is watched');
is(lag('value_limit = 64 * 1024 * 1024'), 'true', 'the first that fits counts');
set("pg_calm_guard.max_lag = 'near* = 1MB'");
reaches("state = 'unknown'", 'without one that fits its lag is not looked at');

# --- a subscriber is no standby

my $subscriber = PostgreSQL::Test::Cluster->new('subscriber');
$subscriber->init;
$subscriber->start;
$subscriber->safe_psql('postgres', 'CREATE TABLE filler (t text)');
$node->safe_psql('postgres', 'CREATE PUBLICATION all_tables FOR TABLE filler');
$subscriber->safe_psql('postgres',
	"CREATE SUBSCRIPTION subscriber CONNECTION '"
	  . $node->connstr
	  . " dbname=postgres' PUBLICATION all_tables WITH (copy_data = false)");
$node->safe_psql('postgres', 'INSERT INTO filler VALUES (1)');
$node->wait_for_catchup('subscriber');
my $applies = $subscriber->safe_psql('postgres', 'SELECT pid FROM pg_stat_subscription');
kill 'STOP', $applies;
set("pg_calm_guard.max_lag = '* = 1MB'");
$node->safe_psql('postgres', $megabyte) foreach 1 .. 4;
$node->wait_for_catchup($standby, 'flush', $node->lsn('flush'));
reaches("state = 'watched' AND object = 'standby'", 'a limit for standbys is none for a subscriber');
set("pg_calm_guard.max_lag = 'subs* = 1MB'");
reaches("state = 'pacing' AND object = 'subscriber'", 'by its name it has one');
kill 'CONT', $applies;
$node->wait_for_catchup('subscriber');
$subscriber->safe_psql('postgres', 'DROP SUBSCRIPTION subscriber');
$subscriber->stop;

# --- an idle primary

set("pg_calm_guard.max_lag = '* = 1s'");
$node->safe_psql('postgres', $megabyte);
$node->wait_for_catchup($standby, 'replay', $node->lsn('flush'));
reaches("state = 'watched'", 'a standby with a limit in seconds is watched');
# The next record begins behind the header of a page, which nobody has to send
$node->safe_psql('postgres', 'SELECT pg_switch_wal()');
$node->wait_for_catchup($standby, 'replay', $node->lsn('flush'));
$node->safe_psql('postgres', 'SELECT pg_sleep(4)');
is(lag("state || ', ' || (value < value_limit)"),
	'watched, true', 'a standby that has all does not age while the primary is idle');

# --- seconds

set("pg_calm_guard.max_lag = 'stand* = 3s'");
my $receiver = $standby->safe_psql('postgres', 'SELECT pid FROM pg_stat_wal_receiver');
kill 'STOP', $receiver;
$node->safe_psql('postgres', 'INSERT INTO filler VALUES (1)');
reaches("value > value_limit AND value_limit = 3 AND state = 'pacing'",
	'WAL that a standby does not take grows old, however little it is');
my $value = lag('value');
reaches("value > $value", 'and older');
my $session = writer();
is_held('who writes is held');
kill 'CONT', $receiver;
goes_on($session, 'until the standby has taken it');
reaches("state = 'watched' AND value < value_limit", 'which is seen');

# --- replay

set("pg_calm_guard.max_lag = 'stand* = 2MB'");
$standby->safe_psql('postgres', 'SELECT pg_wal_replay_pause()');
$node->safe_psql('postgres', $megabyte) foreach 1 .. 4;
$node->wait_for_catchup($standby, 'flush', $node->lsn('flush'));
reaches("state = 'watched' AND value < value_limit", 'WAL that is on its disk is not lag by default');
set("pg_calm_guard.lag_position = 'replay'");
reaches("state = 'pacing' AND value > value_limit", 'but is as long as it is not replayed, if that counts');
$session = writer();
is_held('who writes is held');
set("pg_calm_guard.max_lag = 'stand* = 1s'");
reaches("state = 'pacing' AND value > value_limit AND value_limit = 1", 'likewise by its age');
$standby->safe_psql('postgres', 'SELECT pg_wal_replay_resume()');
goes_on($session, 'until it is replayed');
reaches("state = 'watched' AND value < value_limit", 'which is seen');

# --- a standby that is given up

my $other = PostgreSQL::Test::Cluster->new('other');
$other->init_from_backup($node, 'backup', has_streaming => 1);
$other->start;
$node->wait_for_catchup($other, 'replay', $node->lsn('flush'));
$standby->safe_psql('postgres', 'SELECT pg_wal_replay_pause()');
set("pg_calm_guard.max_lag = '* = 1s'", "pg_calm_guard.patience = '2s'");
$node->safe_psql('postgres', 'INSERT INTO filler VALUES (1)');
reaches("state = 'released' AND object = 'standby'", 'nobody waits for a standby that does not come on');
$other->append_conf('postgresql.conf', "recovery_min_apply_delay = '4s'");
$other->reload;
# Exempt from being held, as superusers are: both fall behind all the time
my $load = start(
	[
		'psql', '-XAtq', '-h', $node->host, '-p', $node->port, '-c',
		q{DO $$ BEGIN
			LOOP
				INSERT INTO filler SELECT repeat(md5(i::text), 30) FROM generate_series(1, 100) i;
				COMMIT;
				PERFORM pg_sleep(0.05);
			END LOOP;
		END $$}, 'postgres'
	],
	'<', \undef,
	'>', \my $out,
	'2>', \my $err,
	IPC::Run::timer(600));
reaches("state = 'pacing' AND object = 'other'", 'but for one that does, however little it is behind');
$load->signal('INT');
$other->append_conf('postgresql.conf', 'recovery_min_apply_delay = 0');
$other->reload;
reaches("state = 'released' AND object = 'standby'", 'which leaves the other one given up');
eval { $load->finish };

# --- what is no standby

# It flushes whole segments, and the last one is not whole
sub receive
{
	my ($directory) = @_;

	return start(
		[
			'pg_receivewal', '-S', 'receiver', '--status-interval=1', '-D', $directory,
			'-d', "application_name=receiver host=" . $node->host . ' port=' . $node->port
		],
		'<', \undef,
		'>', \my $said,
		'2>', \my $why,
		IPC::Run::timer(600));
}

$node->safe_psql('postgres', "SELECT pg_create_physical_replication_slot('receiver', true)");
mkdir(my $received = $node->basedir . '/received');
set("pg_calm_guard.lag_position = 'flush'", "pg_calm_guard.max_lag = '1s'");
$_->safe_psql('postgres', 'SELECT pg_wal_replay_resume()') foreach $standby;
my $stream = receive($received);
$node->safe_psql('postgres', 'SELECT pg_switch_wal()');
ok( $node->poll_query_until(
		'postgres', "SELECT flush_lsn IS NOT NULL FROM pg_stat_replication WHERE application_name = 'receiver'"),
	'a receiver tells what it has flushed');
$node->safe_psql('postgres', 'INSERT INTO filler VALUES (1)');
reaches("state = 'watched'", 'the limit is for standbys');
$node->safe_psql('postgres', 'SELECT pg_sleep(4)');
is(lag("state || ', ' || (object <> 'receiver')"), 'watched, true', 'a receiver is none, though it is further behind');

# --- unless it is named, and one that comes and goes

set("pg_calm_guard.max_lag = 'receiver = 1s'");
reaches("state IN ('pacing', 'released') AND object = 'receiver'", 'by its name it has one, too');
$stream->kill_kill;
set("pg_calm_guard.patience = '4s'");
$node->safe_psql('postgres', 'INSERT INTO filler VALUES (1)');
my $state = '';
for (my $times = 0; $state ne 'released' && $times < 20; $times++)
{
	$stream = receive($received);
	$node->safe_psql('postgres', 'SELECT pg_sleep(1)');
	$state = lag("CASE WHEN object = 'receiver' THEN state END");
	$stream->kill_kill;
}
is($state, 'released', 'nor for one that comes again and again, and is as far behind as before');

$other->stop('immediate');
$standby->stop('immediate');
$node->stop('immediate');
done_testing();


# What must not get past the guard while there is no room for WAL, nor take it away; and what must
# end a hold.

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

my $node = calm_node(
	'firm', q{
archive_mode = on
archive_command = 'false'
max_wal_size = 512MB
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
GRANT pg_monitor TO app;
GRANT CREATE ON SCHEMA public TO app;
SET ROLE app;
CREATE TABLE filler (t text);
CREATE TABLE other (t text);
});
my $megabyte = "INSERT INTO filler SELECT repeat(md5(i::text), 30) FROM generate_series(1, 1000) i";

sub set
{
	my (@settings) = @_;

	$node->safe_psql('postgres', "ALTER SYSTEM SET $_") foreach @settings;
	$node->reload;
	return;
}

sub guard { return guard_input($node, @_); }

sub reaches { return guard_reaches($node, @_); }

# A session of app that runs a script
sub session
{
	my ($script) = @_;
	my $session = { in => "$script\n\\q\n", out => '', err => '' };

	$session->{handle} = start(
		[
			'psql', '-XAtq', '-v', 'VERBOSITY=verbose', '-U', 'app', '-h', $node->host, '-p', $node->port, 'postgres'
		],
		'<', \$session->{in},
		'>', \$session->{out},
		'2>', \$session->{err},
		IPC::Run::timer(600));
	return $session;
}

# Whether it ends
sub ended
{
	my ($session) = @_;

	return 0
	  if !wait_for(sub { $session->{handle}->pump_nb; return !$session->{handle}->pumpable; }, 60);
	$session->{handle}->finish;
	return 1;
}

# Whether it is held
sub held
{
	my ($session) = @_;

	$session->{handle}->pump_nb if $session->{handle}->pumpable;
	return $node->safe_psql('postgres', 'SELECT count(*) > 0 FROM pg_calm_guard_holds') eq 't';
}

# Who waits for it goes on when the guard is in a state
sub until_space
{
	my ($state) = @_;

	return "PERFORM pg_sleep(0.05); EXIT WHEN (SELECT state = '$state' FROM pg_calm_guard WHERE input = 'wal_space');";
}

sub begun
{
	my ($session) = @_;

	return wait_for(sub { $session->{handle}->pump_nb; return $session->{out} =~ /begun/ }, 60);
}

# --- transactions that began before there was no room

my $wait = 'DO $$BEGIN LOOP ' . until_space('refusing') . ' END LOOP; END$$;';
my $transaction = session(
	"BEGIN; INSERT INTO other VALUES ('row by row'); SELECT 'begun'; $wait INSERT INTO other VALUES ('more'); COMMIT;");
my $block = session(
	"SELECT 'begun'; DO \$\$BEGIN INSERT INTO other VALUES ('nested'); LOOP "
	  . until_space('refusing')
	  . " END LOOP; INSERT INTO other VALUES ('more'); END\$\$;");
my $frees =
  session("BEGIN; INSERT INTO other VALUES ('frees'); TRUNCATE filler; SELECT 'begun'; $wait INSERT INTO other VALUES ('freed'); COMMIT;");
ok(begun($_), 'a transaction has begun') foreach $transaction, $block, $frees;
# of what is kept free two fifths are left
my ($free) = (`df -BM --output=avail @{[$node->data_dir]}/pg_wal`)[1] =~ /(\d+)/;
set("pg_calm_guard.patience = '1s'", "pg_calm_guard.wal_space = '" . int($free * 2.5) . "MB'");
reaches('wal_space', 'refusing', 'writers are refused');
ok(ended($transaction), 'a transaction that has written is not held');
like($transaction->{err}, qr/53100: pg_calm_guard: no space is left for WAL/, 'but its next statement is refused');
ok(ended($block), 'nor is a block of code');
like($block->{err}, qr/53100: pg_calm_guard: no space is left for WAL/, 'whose next one is, too');
ok(ended($frees), 'one that frees space is neither');
is($frees->{err}, '', 'held nor refused');
is($node->safe_psql('postgres', "SELECT string_agg(t, ', ' ORDER BY t) FROM other"), 'freed, frees', 'and none has gone on');

set("pg_calm_guard.wal_space = '1000TB'");
ok(wait_for(sub { return guard('wal_space', 'value < value_limit / 4') eq 'true' }, 60), 'less is left');
$frees = session("BEGIN; TRUNCATE filler; $megabyte; COMMIT;");
ok(ended($frees), 'then one that frees space');
like($frees->{err}, qr/53100:/, 'is refused what it writes');

# a command is refused wherever it is
$node->safe_psql('postgres',
	q{CREATE FUNCTION public.copies() RETURNS void LANGUAGE plpgsql AS $$BEGIN CREATE TABLE copied AS SELECT 1; END$$});
foreach ([ 'a function' => 'SELECT copies();' ],
	[ 'a string of two' => 'SET work_mem = \'4MB\'\; CREATE TABLE copied AS SELECT 1;' ])
{
	my ($where, $statement) = @$_;
	my $copy = session($statement);

	ok(ended($copy), "CREATE TABLE AS in $where is not held");
	like($copy->{err}, qr/53100:/, 'but refused');
}
my $part = session('CREATE TABLE empty (i int PRIMARY KEY);');
ok(ended($part), 'what is part of another command');
is($part->{err}, '', 'is not');

# VACUUM frees space, unless it writes the table anew
foreach ([ '', qr/^$/ ], [ '(FULL off)', qr/^$/ ], [ 'FULL', qr/53100:/ ], [ '(FULL, ANALYZE)', qr/53100:/ ])
{
	my ($options, $error) = @$_;
	my $vacuum = session("VACUUM $options other;");

	ok(ended($vacuum), "VACUUM $options is not held");
	like($vacuum->{err}, $error, 'and refused if it is full');
}

# a superuser's, with what his statement does in the name of others
is( ( $node->psql('postgres',
			q{CREATE FUNCTION writes() RETURNS void LANGUAGE sql SECURITY DEFINER AS $$INSERT INTO other VALUES ('app')$$;
ALTER FUNCTION writes OWNER TO app; SELECT writes(); DELETE FROM other})
	)[0],
	0,
	'a superuser is not refused, in whoever\'s functions');

set("pg_calm_guard.patience = '1h'", 'pg_calm_guard.wal_space = 0');
reaches('wal_space', 'off', 'reset');
$wait =~ s/refusing/pacing/;
$transaction = session(
	"BEGIN; INSERT INTO other VALUES ('row by row'); SELECT 'begun'; $wait INSERT INTO other VALUES ('more'); COMMIT;");
ok(begun($transaction), 'another has begun');
set("pg_calm_guard.wal_space = '1000TB'");
ok(ended($transaction), 'while others wait it is not held');
like($transaction->{err}, qr/53100:/, 'but refused: more than half of the reserve is used');
set('pg_calm_guard.wal_space = 0');
reaches('wal_space', 'off', 'reset');

# --- who writes without a statement of his own

# the client looks for the functions with its first one
my $file = PostgreSQL::Test::Utils::tempdir() . '/object';
write_file($file, 'x' x 100_000);
$wait =~ s/pacing/refusing/;
my $importer = session("\\lo_import $file\nSELECT 'begun';\n$wait\n\\lo_import $file\n\\lo_import $file");
ok(begun($importer), 'another client has begun to write large objects');
set("pg_calm_guard.patience = '5s'", "pg_calm_guard.wal_space = '1000TB'");
reaches('wal_space', 'refusing', 'writers are refused');
ok(wait_for(sub { return held($importer) }, 60), 'it is held instead');
ok(ended($importer), 'for no longer than the patience, though nothing is given out');
is($importer->{err}, '', 'and not refused: it is no statement');
set("pg_calm_guard.patience = '1h'", 'pg_calm_guard.wal_space = 0');
reaches('wal_space', 'off', 'reset');
$wait =~ s/refusing/pacing/;

(my $behind = $wait) =~ s/wal_space/archive/;
my $session = session("\\lo_import $file\nSELECT 'begun';\n$behind\n\\lo_import $file");
ok(begun($session), 'a client has begun to write large objects');
set("pg_calm_guard.archive_backlog = '2MB'");
$node->safe_psql('postgres', "$megabyte; SELECT pg_switch_wal()") foreach 1 .. 4;
ok(wait_for(sub { return guard('archive', 'value > value_limit AND allowed_rate < 1024') eq 'true' }, 120),
	'an archive that takes nothing');
ok(wait_for(sub { return held($session) }, 60), 'holds it, too') or diag($session->{err});

# --- a look that can't be made, as when the host has no descriptor left, and a worker that ends

sub worker
{
	my $postmaster = (split /\n/, slurp_file($node->data_dir . '/postmaster.pid'))[0];
	my ($pid) = map { /^\s*(\d+)/ } grep { /pg_calm_guard/ } `ps --no-headers -o pid,args --ppid $postmaster`;

	return $pid // 0;
}

my $before = worker();
my $since = $node->safe_psql('postgres', 'SELECT since FROM pg_calm_guard_holds');
chmod 0000, $node->data_dir . '/global/pg_control';
usleep(2_000_000);
chmod 0600, $node->data_dir . '/global/pg_control';
is(worker(), $before, 'the guard outlives a control file that it cannot read');
kill 'TERM', $before;
ok(wait_for(sub { my $now = worker(); return $now != 0 && $now != $before }), 'ended, it comes back');
reaches('archive', 'pacing', 'to what it had limited');
is($node->safe_psql('postgres', 'SELECT since FROM pg_calm_guard_holds'), $since, 'and nobody was let go');
set("pg_calm_guard.wal_space = '1000TB'");
reaches('wal_space', 'pacing', 'no space');
my $offset = -s $node->logfile;
chmod 0300, $node->data_dir . '/pg_wal';
usleep(2_000_000);
my $state = guard('wal_space', 'state');
chmod 0700, $node->data_dir . '/pg_wal';
is($state, 'pacing', 'nor for a directory that it cannot read');
unlike(slurp_file($node->logfile, $offset), qr/has lost its input/, 'not for a moment');
set('pg_calm_guard.wal_space = 0');
reaches('wal_space', 'off', 'reset');

# --- a way out by reload

set("pg_calm_guard.mode = 'shadow'");
ok(ended($session), 'mode shadow ends a hold');
set("pg_calm_guard.mode = 'on'", "archive_command = 'true'");
reaches('archive', 'watched', 'the backlog is gone');

$node->stop('immediate');
done_testing();


# Before a region is flushed its dirty shared buffers are written: which those
# are, that it goes on beside tables and databases that are dropped, on a standby,
# and that regions are flushed without a cleaner, too.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use CalmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

# Nobody else writes buffers, but those that evict them: there are fewer than pages.
# A page is flushed a second after it was written.
my $node = calm_node('cleaner', q{
shared_buffers = 8MB
max_wal_size = 4GB
bgwriter_lru_maxpages = 0
pg_calm.write_iops = 1000
pg_calm.write_bandwidth = '100MB'
pg_calm.flush_age = '1s'
pg_calm.unflushed_limit = '10GB'
});
my $rows = 40000;

$node->append_conf("postgresql.conf", "max_wal_senders = 4");
$node->start;
scattered_table($node);
$node->safe_psql('postgres', 'CREATE EXTENSION pg_buffercache; CREATE EXTENSION amcheck');

sub set_for_all
{
	my ($setting) = @_;

	$node->safe_psql('postgres', "ALTER SYSTEM SET $setting");
	$node->reload;
	usleep(300_000);
	return;
}

# Dirty buffers of the table
sub dirty
{
	return $node->safe_psql(
		'postgres', q{
SELECT count(*) FROM pg_buffercache
 WHERE relfilenode = pg_relation_filenode('t') AND relforknumber = 0 AND isdirty});
}

# More pages than there are buffers
sub update
{
	$node->safe_psql('postgres', 'UPDATE t SET n = n + 1 WHERE id % 20 = 0');
	return;
}

# A test: that pages which are dirtied now are flushed without those between them
sub bridges_nothing
{
	my ($where, $name) = @_;

	# regions that the worker began with before are done
	wait_for(sub { status_of($where)->{in_flight_pages} == 0 });
	my $before = status_of($where);
	my $flushed = wait_for(sub { update(); status_of($where)->{flushed_pages} > $before->{flushed_pages} + 500 });
	my $after = status_of($where);
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	ok($flushed, "$name, and pages are flushed");
	is($after->{bridged_pages}, $before->{bridged_pages}, "$name: none is bridged");
	return;
}

sub cleaned { return status_of($node)->{cleaned_buffers} }
sub flushed { return status_of($node)->{flushed_pages} }

# --- what is cleaned

ok(wait_for(sub { process_id($node, 'pg_calm cleaner') ne '' }), 'there is a cleaner');
my $before = cleaned();
# No region is flushed before the last of its buffers is dirty.  Twice: what stays in the buffers
# of the first time may be all that is dirty of a region.
set_for_all("pg_calm.flush_age = '1h'");
update();
update();
cmp_ok(dirty(), '>', 0, 'buffers are dirty');
set_for_all("pg_calm.flush_age = '1s'");
ok(wait_for(sub { cleaned() > $before }), 'they are cleaned when their regions are flushed');
ok(wait_for(sub { dirty() == 0 }), 'all of them');
SKIP:
{
	skip 'pg_stat_io came in 16', 2 if $node->pg_version < 16;
	my $writes = q{(SELECT sum(writes) FROM pg_stat_io WHERE backend_type = 'background worker')};

	ok($node->poll_query_until('postgres', "SELECT $writes > 0"),
		'and the server counts what the cleaner has written');
	# more than once: what it wrote before is counted by then
	usleep(3_000_000);
	my $counted = $node->safe_psql('postgres', "SELECT $writes");
	$before = cleaned();
	update();
	ok(wait_for(sub { cleaned() > $before }) && $node->poll_query_until('postgres', "SELECT $writes > $counted"),
		'again and again');
}

# --- without it

my $cleaner = process_id($node, 'pg_calm cleaner');
set_for_all('pg_calm.clean_buffers = 0');
$before = cleaned();
my $flushed = flushed();
update();
ok(wait_for(sub { flushed() > $flushed }), 'off: regions are flushed');
usleep(1_500_000);
is(cleaned(), $before, 'off: no buffer is cleaned');
cmp_ok(dirty(), '>', 0, 'off: buffers stay dirty');
set_for_all('pg_calm.clean_buffers = 1');

# a page for an operation: none is saved by writing a buffer that may be written again
set_for_all("pg_calm.write_bandwidth = '4MB'");
$before = cleaned();
$flushed = flushed();
update();
ok(wait_for(sub { flushed() > $flushed }), 'few bytes: regions are flushed');
usleep(1_500_000);
is(cleaned(), $before, 'few bytes: no buffer is cleaned');
set_for_all("pg_calm.write_bandwidth = '100MB'");

kill 'STOP', $cleaner;
$flushed = flushed();
update();
ok(wait_for(sub { flushed() > $flushed }), 'stopped: regions are flushed');
kill 'CONT', $cleaner;
ok(wait_for(sub { update(); cleaned() > $before }, 60), 'and cleaned when it goes on');

kill 'TERM', $cleaner;
ok( wait_for(sub { process_id($node, 'pg_calm cleaner') !~ /^($cleaner)?$/ }, 30),
	'one that ends is started again');
$before = cleaned();
ok(wait_for(sub { update(); cleaned() > $before }, 60), 'and cleans');

# --- what goes while it is at work

my $load = start_load($node, 't', $rows, 2000);
foreach my $round (1 .. 4)
{
	my $fill = 'CREATE TABLE filled AS SELECT i, repeat(\'x\', 300) FROM generate_series(1, 20000) i';

	$node->safe_psql('postgres', 'CREATE DATABASE victim');
	$node->safe_psql('victim', $fill);
	$node->safe_psql('postgres', $fill);
	update();
	usleep(1_200_000);
	$node->safe_psql('postgres', 'TRUNCATE filled');
	$node->safe_psql('postgres', 'DROP DATABASE victim');
	$node->safe_psql('postgres', 'DROP TABLE filled');
}
pass('tables and databases are dropped');

# --- switched off while it is asked for regions

# Times per second that the worker is woken
sub wakes
{
	my @count;

	foreach (1, 2)
	{
		usleep(1_000_000) if @count;
		push @count, slurp_file('/proc/' . status_of($node)->{worker_pid} . '/status') =~
		  /^voluntary_ctxt_switches:\s+(\d+)/m;
	}
	return $count[1] - $count[0];
}

$cleaner = process_id($node, 'pg_calm cleaner');
set_for_all("pg_calm.flush_age = '10ms'");
# each region waits for it then, and there is one at most times
kill 'STOP', $cleaner;
ok(wait_for(sub { wakes() > 50 }), 'the worker waits for the cleaner');
my $quiet = 1;
foreach my $round (1 .. 5)
{
	set_for_all('pg_calm.mode = off');
	$quiet &&= wait_for(sub { wakes() < 20 }, 15);
	set_for_all('pg_calm.mode = on');
}
ok($quiet, 'and does not when it is off');
kill 'CONT', $cleaner;
$load->kill_kill;
ok( $node->poll_query_until(
		'postgres',
		q{SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'pgbench'}),
	'the load has ended');
set_for_all("pg_calm.flush_age = '1s'");

# --- on a standby

$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
ok(wait_for(sub { process_id($standby, 'pg_calm cleaner') ne '' }), 'a standby has one');
update();
$node->wait_for_catchup($standby);
ok(wait_for(sub { update(); status_of($standby)->{flushed_pages} > 0 }, 60), 'and flushes');
$node->wait_for_catchup($standby);
$standby->command_ok([ 'pg_amcheck', '--heapallindexed', '-d', 'postgres' ], 'pg_amcheck on it');

# what repairs a torn page there is what the primary has put into WAL
unlike(status_of($standby)->{degraded} // '', qr/full_page_writes/, 'nothing speaks against bridging on it');
SKIP:
{
	my $why = cannot_bridge($standby);
	skip $why, 1 if $why;
	ok(wait_for(sub { update(); status_of($standby)->{bridged_pages} > 0 }, 60), 'and gaps are bridged on it');
}
# a byte of its nonce, which is there, and in its checksum, in all versions
sub change_control_file
{
	open(my $file, '+<', $standby->data_dir . '/global/pg_control') or die $!;
	sysseek($file, 270, 0);
	sysread($file, my $byte, 1);
	sysseek($file, 270, 0);
	syswrite($file, ~$byte & "\xFF");
	close $file;
	return;
}
change_control_file();
# the worker has looked twice
foreach my $iops (2001, 2002)
{
	$standby->safe_psql('postgres', "ALTER SYSTEM SET pg_calm.write_iops = $iops");
	$standby->reload;
	wait_for(sub { (status_of($standby)->{write_iops} // 0) == $iops }) or die 'timed out';
}
unlike(status_of($standby)->{degraded} // '', qr/full_page_writes/, 'whatever the control file looks like while it is written');
change_control_file();
$standby->safe_psql('postgres', 'ALTER SYSTEM RESET pg_calm.write_iops');
$standby->reload;
$node->safe_psql('postgres', 'ALTER SYSTEM SET full_page_writes = off');
$node->reload;
$node->safe_psql('postgres', 'SELECT pg_sleep(0.5)');
$node->safe_psql('postgres', 'CHECKPOINT');
$node->wait_for_catchup($standby);
$standby->safe_psql('postgres', 'CHECKPOINT');
ok( wait_for(
		sub {
			(status_of($standby)->{degraded} // '') =~ /gaps are not bridged: full_page_writes was off since the last checkpoint/;
		}),
	'but not where the primary has full_page_writes off');
bridges_nothing($standby, 'on a standby whose primary has them off');
$node->safe_psql('postgres', 'ALTER SYSTEM RESET full_page_writes');
$node->reload;
ok( wait_for(
		sub { (status_of($node)->{degraded} // '') =~ /bridged: full_page_writes was off since the last checkpoint/ }),
	'nor there before a checkpoint has begun with it on');
bridges_nothing($node, 'before a checkpoint with them on');
like(status_of($node)->{degraded} // '', qr/full_page_writes/, 'and none has begun meanwhile');
$node->safe_psql('postgres', 'CHECKPOINT');
ok(wait_for(sub { (status_of($node)->{degraded} // '') !~ /full_page_writes/ }), 'from which recovery would begin');
$standby->stop;
command_ok([ 'pg_checksums', '--check', '-D', $standby->data_dir ], 'its checksums are right');

# --- death in the middle

update();
my $sum = $node->safe_psql('postgres', 'SELECT sum(n) FROM t');
kill 'KILL', process_id($node, 'pg_calm cleaner');
ok(kill_node($node), 'killed');
$node->start;
is($node->safe_psql('postgres', 'SELECT sum(n), count(*) FROM t'), "$sum|$rows", 'nothing is lost');
$node->command_ok([ 'pg_amcheck', '--heapallindexed', '-d', 'postgres' ], 'pg_amcheck');
$node->stop;
command_ok([ 'pg_checksums', '--check', '-D', $node->data_dir ], 'checksums are right');
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|WARNING/, 'nothing went wrong');

done_testing();

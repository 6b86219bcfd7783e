
# Crashes while pages are bridged: nothing that was acknowledged is lost, and
# every page is what PostgreSQL wrote.

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

my $rows = 60000;

# Few buffers, so that pages are written all the time; caps under which gaps
# of up to 12 blocks are bridged.
my $node = calm_node('crash', q{
shared_buffers = 2MB
pg_calm.write_iops = 1000
pg_calm.write_bandwidth = '100MB'
pg_calm.flush_age = '200ms'
});
$node->start;
$node->safe_psql(
	'postgres', qq{
CREATE EXTENSION pg_calm;
CREATE TABLE load (id int PRIMARY KEY, n int, filler text);
INSERT INTO load SELECT i, 0, repeat('x', 300) FROM generate_series(1, $rows) i;
CREATE TABLE ledger (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, filler text);
CHECKPOINT});

# contrib need not be there
my $amcheck = $node->safe_psql('postgres',
	q{SELECT count(*) FROM pg_available_extensions WHERE name = 'amcheck'});
$node->safe_psql('postgres', 'CREATE EXTENSION amcheck') if $amcheck;

my $ledger_dir = PostgreSQL::Test::Utils::tempdir();
write_file("$ledger_dir/append.sql",
	"INSERT INTO ledger (filler) VALUES (repeat('y', 200)) RETURNING id;\n" x 20000);

# Append to the ledger as fast as commits go; what is acknowledged is in a file
sub start_ledger
{
	my ($number) = @_;
	my $err = '';

	return start(
		[
			'psql', '-XAtq', '-d', $node->connstr('postgres'), '-f', "$ledger_dir/append.sql"
		],
		'>',
		"$ledger_dir/acknowledged_$number",
		'2>',
		\$err);
}

# Run load until enough was bridged, do what $crash does, and look at the data
sub crash
{
	my ($number, $name, $crash, $checkpoint) = @_;
	my $load = start_load($node, 'load', $rows, 1200);
	my $ledger = start_ledger($number);
	my $before = status_of($node);

  SKIP:
	{
		my $why = cannot_bridge($node);

		skip $why, 1 if $why;
		ok( wait_for(
				sub {
					# where nothing is old enough it takes a checkpoint, and one that takes its time
					$node->safe_psql('postgres', q{SELECT pg_backup_start('calm', false)}) if $checkpoint;
					my $now = status_of($node);
					return $now->{bridged_pages} > $before->{bridged_pages} + 200
					  && $now->{flushed_pages} + $now->{fsynced_pages} >
					  $before->{flushed_pages} + $before->{fsynced_pages} + 200;
				},
				30),
			"$name: pages are being bridged and flushed");
	}
	ok(wait_for(sub { (-s "$ledger_dir/acknowledged_$number" // 0) > 200 }),
		"$name: rows are being acknowledged");
	$crash->();
	$ledger->finish;
	# it hangs on a lost connection sometimes
	$load->kill_kill;

	$node->poll_query_until('postgres', 'SELECT true') or die 'timed out';

	my %acknowledged =
	  map { $_ => 1 } grep { /^\d+$/ } split /\n/, slurp_file("$ledger_dir/acknowledged_$number");
	my %there = map { $_ => 1 } split /\n/, $node->safe_psql('postgres', 'SELECT id FROM ledger');
	my @lost = grep { !$there{$_} } keys %acknowledged;
	note(scalar(keys %acknowledged) . ' rows acknowledged');
	is("@lost", '', "$name: no acknowledged row is lost");
	is($node->safe_psql('postgres', 'SELECT count(*), count(DISTINCT id), max(length(filler)) FROM load'),
		"$rows|$rows|300", "$name: all rows of the table are there");
  SKIP:
	{
		skip 'the server has no amcheck', 1 unless $amcheck;
		command_ok(
			[
				'pg_amcheck', '--heapallindexed', '--parent-check', '-h', $node->host, '-p', $node->port,
				'postgres'
			],
			"$name: pg_amcheck finds nothing");
	}
	$node->safe_psql('postgres', 'CHECKPOINT');
	return;
}

sub check_checksums
{
	my ($name) = @_;

	$node->stop;
	command_ok([ 'pg_checksums', '--check', '-D', $node->data_dir ],
		"$name: checksums are right");
	return;
}

crash(
	1,
	'postmaster killed',
	sub {
		ok(kill_node($node), 'postmaster killed: all processes end');
		$node->start;
	});
check_checksums('postmaster killed');

# A process that dies by signal 9 makes the postmaster restart all
$node->start;
crash(
	2,
	'worker killed',
	sub {
		my $log = -s $node->logfile;
		my $worker = status_of($node)->{worker_pid};

		kill 'KILL', $worker;
		ok( $node->wait_for_log(qr/background worker "pg_calm writeback worker" \(PID $worker\) was terminated by signal 9/, $log),
			'worker killed: the postmaster notices');
		ok($node->wait_for_log(qr/database system is ready to accept connections/, $log),
			'worker killed: the server recovers by itself');
		ok( wait_for(
				sub {
					my $pid = eval { status_of($node)->{worker_pid} };
					return $pid && $pid != $worker;
				}),
			'worker killed: there is a new worker');
	});
check_checksums('worker killed');

# Killed in a checkpoint, with windows being written and the rest being
# bridged before its fsync
$node->append_conf(
	'postgresql.conf', q{
shared_buffers = 32MB
pg_calm.flush_age = '1h'
checkpoint_timeout = 30s
checkpoint_completion_target = 0.1
});
$node->start;
crash(
	3,
	'killed in a checkpoint',
	sub {
		my ($out, $err) = ('', '');
		my $checkpoints = start(
			[
				'psql', '-XAtq', '-d', $node->connstr('postgres'), map { ('-c', 'CHECKPOINT') } (1 .. 200)
			],
			'>',
			\$out,
			'2>',
			\$err);
		usleep(700_000 + int(rand(300_000)));
		ok(runs($checkpoints), 'killed in a checkpoint: there is one under way');
		ok(kill_node($node), 'killed in a checkpoint: all processes end');
		$checkpoints->finish;
		$node->start;
	},
	1);
check_checksums('killed in a checkpoint');

done_testing();

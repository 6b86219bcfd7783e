
# Where reads and writes share a volume's limits, a checkpoint writes no faster
# than that is flushed: the server's flush hints, which would wait for the device,
# wait for the worker instead, within bounds.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use CalmTest;
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

# A volume that takes 50 operations of a page per second, as far as the worker knows, and
# checkpoints that would write all at once
my $node = draining_node('hold');
$node->append_conf(
	'postgresql.conf', qq{
pg_calm.write_iops = 0
pg_calm.write_bandwidth = 0
pg_calm.iops = 50
pg_calm.io_size = '8kB'
pg_calm.bandwidth = '100MB'
pg_calm.unflushed_limit = 0
pg_calm.clean_buffers = 0
pg_calm.drain_threshold = 1000000
bgwriter_lru_maxpages = 0
max_wal_senders = 2
});
$node->start;
scattered_table($node);

# More is unflushed than is flushed in seconds, and buffers are dirty
sub update
{
	$node->safe_psql('postgres', 'UPDATE t SET n = n + 1 WHERE id % 7 = 0');
	# as the worker has seen then, which looks four times a second
	usleep(2_000_000);
	return;
}

# What the view shows of the controller: the volume gives what was told, as far as anybody has seen;
# the worker keeps to a part of it; and some pages may wait
update();
my $status = status_of($node);
is($status->{device_given}, 1, 'the volume gives what was told');
cmp_ok($status->{worker_iops}, '>', 0, 'the worker has a share of its operations');
cmp_ok($status->{worker_iops}, '<=', 50, 'and no more than all');
cmp_ok($status->{worker_bandwidth}, '<=', 100 * 1024 * 1024, 'likewise of its bandwidth');
cmp_ok($status->{held_from_pages}, '>', 0, 'some pages may wait');
cmp_ok($status->{held_most_pages}, '>', $status->{held_from_pages}, 'and some more, while a checkpoint is held');

# What the checkpointer waits for
sub waits_for
{
	return $node->safe_psql('postgres',
		q{SELECT wait_event FROM pg_stat_activity WHERE backend_type = 'checkpointer'});
}

# Begin a checkpoint of what update() leaves; whether it is seen to wait in a flush hint, and the
# handle of who has asked for it
sub is_held
{
	my ($begin) = @_;
	my $ended = checkpoints_completed($node);
	my $held = 0;

	update();
	my $asked = $begin ? $begin->() : begin_checkpoint($node);
	wait_for(
		sub {
			$held ||= waits_for() eq 'DataFileFlush';
			return $held || checkpoints_completed($node) > $ended;
		},
		60);
	return ($held, $asked);
}

sub set
{
	my (@settings) = @_;

	$node->safe_psql('postgres', "ALTER SYSTEM SET $_") foreach @settings;
	$node->reload;
	usleep(4_000_000);    # read every 3 s
	return;
}

# It would take minutes
my ($held, $asked) = is_held();
ok($held, 'a checkpoint waits while too much is unflushed');

# --- what ends it

my $ended = checkpoints_completed($node);
set("max_wal_size = '64MB'");
ok(wait_for(sub { waits_for() eq 'DataFileFlush' }), 'it waits again after a reload');
$node->safe_psql('postgres',
	q{SELECT pg_logical_emit_message(false, 'fill', repeat('w', 1000000)) FROM generate_series(1, 70)});
# at a sixteenth of the device's pace it would take many minutes
ok(wait_for(sub { checkpoints_completed($node) > $ended }, 150), 'once WAL asks for the next one it goes on at the pace of the device') or die;
ok(checkpoints_ended($node), 'which has ended, too');
$asked->finish;
set("max_wal_size = '10GB'");

($held, $asked) = is_held();
ok($held, 'a checkpoint waits');
$ended = checkpoints_completed($node);
$node->safe_psql('postgres', 'CHECKPOINT');
cmp_ok(checkpoints_completed($node), '>=', $ended + 2, 'one that is asked for at once ends that, and does not wait');
$asked->finish;

# pg_basebackup throws away what it reads
foreach my $backup (
	[
		'pg_basebackup', '--dbname', $node->connstr('postgres'), '--checkpoint=fast',
		'--target=blackhole', '--wal-method=none'
	],
	[ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', q{SELECT pg_backup_start('test', true)} ])
{
	my ($out, $err) = ('', '');

	($held, $asked) = is_held(sub { return IPC::Run::start($backup, '>', \$out, '2>', \$err); });
	ok($held, "a fast checkpoint waits for which $backup->[0] alone waits");
	$ended = checkpoints_completed($node);
	$node->safe_psql('postgres', 'CHECKPOINT');
	cmp_ok(checkpoints_completed($node), '>=', $ended + 2, 'not once somebody else waits for one');
	ok($asked->finish, 'and the backup goes on');
}

# a script that wants both
{
	my ($out, $err) = ('', '');

	($held, $asked) = is_held(
		sub {
			return IPC::Run::start(
				[ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', q{CHECKPOINT; SELECT pg_backup_start('test', true)} ],
				'>', \$out, '2>', \$err);
		});
	ok(!$held, 'not a CHECKPOINT beside one');
	$asked->finish;
}

($held, $asked) = is_held();
ok($held, 'a checkpoint waits');
$ended = checkpoints_completed($node);
my $worker = status_of($node)->{worker_pid};
set("pg_calm.worker_timeout = '1s'");
kill 'STOP', $worker;
ok(wait_for(sub { checkpoints_completed($node) > $ended }, 30), 'not for a worker that hangs') or die;
kill 'CONT', $worker;
$asked->finish;

set("pg_calm.drain_timeout = '2s'");
$ended = checkpoints_completed($node);
($held, $asked) = is_held();
ok($held, 'a checkpoint waits');
ok(wait_for(sub { checkpoints_completed($node) > $ended }, 150), 'after as long as it may be drained it goes on') or die;
$asked->finish;
# fifty operations a second, of a few pages each
my ($buffers, $seconds) = slurp_file($node->logfile) =~ /.*checkpoint complete:.*? wrote (\d+) buffers.*? write=([\d.]+) s/s;
cmp_ok($seconds, '>', 2 + $buffers / 50 / 10, 'at the pace of the device, as the hints of stock');

# limits may have been told too low
SKIP:
{
	my $why = cannot_trace();
	skip $why, 2 if $why;
	set("pg_calm.drain_timeout = '1s'");
	my $file = $node->safe_psql('postgres', q{SELECT pg_relation_filenode('t')});
	my ($handle, $trace) = trace(process_id($node, 'checkpointer'), '-y', '-e', 'trace=sync_file_range');
	$ended = checkpoints_completed($node);
	($held, $asked) = is_held();
	ok(wait_for(sub { checkpoints_completed($node) > $ended }, 150), 'after four times as long') or die;
	$asked->finish;
	finish_trace($handle);
	# those of small files it obeys at any time
	like(slurp_file($trace), qr{^sync_file_range\(\d+<[^>]*/\Q$file\E>}m, 'it obeys the hints of the server');
}

# --- where none is held

set("pg_calm.drain_timeout = '1h'", "pg_calm.unflushed_limit = '10GB'");
($held, $asked) = is_held();
ok(!$held, 'nor where all that may be unflushed');
$asked->finish;

$node->stop;
done_testing();

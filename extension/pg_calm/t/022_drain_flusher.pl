
# What is left to the kernel flusher is not marked any more, but fsync would
# have to wait for it: so a checkpoint lets the flusher come first.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use CalmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

# It seems to come 4 s after a file was dirtied, or up to 6 s later.  Not
# really: the host's own settings have not changed, and they are longer.
my $root = fake_host();
write_file("$root/proc/sys/vm/dirty_expire_centisecs", "400\n");
write_file("$root/proc/sys/vm/dirty_writeback_centisecs", "400\n");

# Marked pages are no reason to drain: they are always few
my $node = draining_node('flusher');
$node->append_conf(
	'postgresql.conf', qq{
pg_calm.drain_threshold = 100000
});
$node->start;
scattered_table($node);

sub completed { return checkpoints_completed($node); }

sub max_wal_size
{
	my ($size) = @_;

	$node->safe_psql('postgres', "ALTER SYSTEM SET max_wal_size = '$size'");
	$node->reload;
	return;
}

sub cause_checkpoint
{
	max_wal_size('64MB');
	fill_wal($node, begun_by_wal($node));
	return;
}

# Pages through few buffers, all over the table
sub update
{
	$node->safe_psql('postgres', 'UPDATE t SET n = n + 1 WHERE id % 7 = 0');
	return;
}

# Pages are left to it that are dirty when its time is near; how near it is when they become so, is chance
sub pages_are_left
{
	my ($name) = @_;
	my $handed = status_of($node)->{handed_pages};

	# its WAL shall ask for none
	max_wal_size('4GB');
	ok( wait_for(
			sub {
				update();
				usleep(300_000);
				status_of($node)->{handed_pages} > $handed;
			},
			30),
		$name);
	return;
}

# --- nothing is left to it

# no file's time is near; a catalog's page can be changed right after a checkpoint, and nobody else writes it for half a minute
ok( wait_for(
		sub {
			$node->safe_psql('postgres', 'CHECKPOINT');
			status_of($node)->{unflushed_pages_new} == 0;
		},
		30),
	'nothing is dirty');
my $worker = status_of($node)->{worker_pid};
kill 'STOP', $worker;
my $done = completed();
update();
cause_checkpoint();
ok(wait_for(sub { completed() > $done }, 60), 'a checkpoint waits for nobody');
kill 'CONT', $worker;
ok(checkpoints_ended($node), 'none is under way');

# --- something is, for as long as the worker can't see the visit

pages_are_left('pages are left to the flusher');
kill 'STOP', $worker;
$done = completed();
cause_checkpoint();
ok(wait_for(sub { drains($node) }, 60), 'a checkpoint lets it come');
usleep(2_000_000);
is(completed(), $done, 'and does not sync meanwhile');

# somebody who waits for a checkpoint does not wait for that
$node->safe_psql('postgres', 'CREATE DATABASE victim');
$node->safe_psql('postgres', 'DROP DATABASE victim');
cmp_ok(completed(), '>', $done, 'DROP DATABASE is not held up');

# --- and no longer

kill 'CONT', $worker;
ok(checkpoints_ended($node), 'none is under way');
pages_are_left('pages are left to it again');
$done = completed();
cause_checkpoint();
ok(wait_for(sub { completed() > $done }, 60), 'when it has come, or does not, the checkpoint goes on');

# --- it has not come by its time, and nobody knows when it will

ok(checkpoints_ended($node), 'none is under way');
# what is waited for now is not any more
foreach my $mode (qw(off on))
{
	$node->append_conf('postgresql.conf', "pg_calm.mode = $mode\n");
	$node->reload;
	wait_for(sub { status_of($node)->{mode} eq $mode });
	usleep(1_000_000);
}
pages_are_left('pages are left to it once more');
# how long it is waited for then: a minute
write_file("$root/proc/sys/vm/dirty_expire_centisecs", "6000\n");
$node->reload;
usleep(10_000_000);
$done = completed();
cause_checkpoint();
# the host's own flusher comes half a minute after the update at the earliest
ok(wait_for(sub { completed() > $done }, 10), 'what is overdue is not waited for');

$node->stop;
done_testing();

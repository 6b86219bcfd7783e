
# A file that is to be dense when the kernel flusher comes: an fsync is not
# the flusher, a visit that nobody expected sets our clock right, one that does
# not come by its time is waited for, but not for ever, and one is expected when
# too much is dirty.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use CalmTest;
use IPC::Run qw(start);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

# When the flusher seems to come, in hundredths of a second.  Not really: the host's own settings have not
# changed, and they are longer.
my $root = fake_host();

sub flusher_comes
{
	my ($expire_centisecs, $writeback_centisecs) = @_;

	write_file("$root/proc/sys/vm/dirty_expire_centisecs", "$expire_centisecs\n");
	write_file("$root/proc/sys/vm/dirty_writeback_centisecs", "$writeback_centisecs\n");
	return;
}

sub guarded_node
{
	my ($name) = @_;
	my $node = draining_node($name);

	# no checkpoints but those asked for: they flush, too
	$node->append_conf('postgresql.conf', "max_wal_size = '10GB'\n");
	$node->start;
	scattered_table($node);
	return $node;
}

# Pages through few buffers, all over the table: one of so many rows, seven of
# which are in a page
sub update
{
	my ($node, $every) = @_;

	$node->safe_psql('postgres', 'UPDATE t SET n = n + 1 WHERE id % ' . ($every // 7) . ' = 0');
	return;
}

# By how much each counter has risen
sub risen
{
	my ($before, $now) = @_;

	return map { $_ => $now->{$_} - $before->{$_} } qw(handed_pages flushed_pages bridged_pages);
}

# Update until the table's pages are left to the flusher, or counted by another
# counter, and not only a few of the catalogs.  Returns by how much each has
# risen.
sub update_until
{
	my ($node, $counter, $every) = @_;
	my $before = status_of($node);
	my %risen;

	wait_for(
		sub {
			update($node, $every);
			%risen = risen($before, status_of($node));
			return $risen{$counter} > 500;
		},
		60);
	return \%risen;
}

# What is tested is when a file is guarded, so a scenario says something only if
# all of it has happened by a certain time after the file was first dirtied: the
# host's own flusher comes after 30 s.  On a busy machine it is begun anew, with a
# server of its own.  The scenario returns what it has found, and false after a
# delay that spoils it.
sub scenario
{
	my ($name, $seconds, $expire, $writeback, $code) = @_;
	my @found;

	foreach my $try (1 .. 5)
	{
		my $begun = time;
		flusher_comes($expire, $writeback);
		my $node = guarded_node("$name$try");
		@found = $code->($node, $begun);
		my $took = time - $begun;
		$node->stop;
		return @found if @found && $took < $seconds;
		note(sprintf('%s: the machine is too busy, %.1f s', $name, $took));
	}
	BAIL_OUT("$name: the machine is too busy for this test") unless @found;
	return @found;
}

# --- an fsync

my ($taken, $after_fsync, $dense, $switched_off) = scenario('guard', 25, 400, 6000, sub {
	my ($node) = @_;
	my @found;

	push @found, update_until($node, 'handed_pages');
	# nobody waits for it here, and the file is clean after
	$node->safe_psql('postgres', 'CHECKPOINT');
	# the worker looks at it meanwhile
	sleep(1);

	# a file that is not guarded is flushed at this age, long before it is guarded again
	$node->append_conf('postgresql.conf', "pg_calm.flush_age = '500ms'\n");
	$node->reload;
	push @found, update_until($node, 'handed_pages');

	# all of it was dirty; after an fsync gaps are clean again
	$node->safe_psql('postgres', 'VACUUM t');
	$node->safe_psql('postgres', 'CHECKPOINT');
	push @found, update_until($node, 'handed_pages', 70);

	# mode off ends that, and in mode on it is 19 s until the file is guarded again
	flusher_comes(2000, 6000);
	foreach my $mode (qw(off on))
	{
		$node->append_conf('postgresql.conf', "pg_calm.mode = $mode\n");
		$node->reload;
		wait_for(sub { status_of($node)->{mode} eq $mode });
		# the worker looks at it
		sleep(1);
	}
	push @found, update_until($node, 'flushed_pages');
	return @found;
});
cmp_ok($taken->{handed_pages}, '>', 500, 'pages are left to the flusher');
cmp_ok($after_fsync->{flushed_pages}, '<', $after_fsync->{handed_pages}, 'and those written after an fsync, too');
cmp_ok($dense->{bridged_pages}, '>', $dense->{handed_pages}, 'and are made dense again');
cmp_ok($switched_off->{handed_pages}, '<', $switched_off->{flushed_pages}, 'in mode off no visit is waited for');

# --- a visit that was not expected

my $limits = "nr_dirty_background_threshold 2000000\nnr_dirty_threshold 4000000\n";
write_file("$root/proc/vmstat", "nr_dirty 200000\n$limits");
($taken) = scenario('surprise', 35, 2000, 6000, sub {
	my ($node, $begun) = @_;

	update($node);
	# 7 s before the file would be guarded all of its pages are written
	sleep(11 - (time - $begun)) if time - $begun < 11;
	# other files are fsynced all the time meanwhile
	my $other = start([
			'psql', '--no-psqlrc', '--dbname', $node->connstr('postgres'), '--command',
			q{DO $$BEGIN FOR i IN 1..1000 LOOP EXECUTE 'CREATE UNLOGGED TABLE u' || i || '()'; PERFORM pg_sleep(0.01); END LOOP; END$$}
		], '>', '/dev/null', '2>', '/dev/null');
	sleep(1);
	system_or_bail('sync', $node->data_dir . '/' . $node->safe_psql('postgres', q{SELECT pg_relation_filepath('t')}));
	write_file("$root/proc/vmstat", "nr_dirty 1000\n$limits");
	my $synced = time;
	sleep(1);
	$other->kill_kill;
	# of what was written before, nothing is marked any more
	$node->safe_psql('postgres', 'CHECKPOINT');

	# Those written now are of this age 9 s later: too late if the file is guarded
	# by the old clock, soon enough by that which begins with the visit.
	$node->append_conf('postgresql.conf', "pg_calm.flush_age = '9s'\n");
	$node->reload;
	my $risen = update_until($node, 'flushed_pages');
	write_file("$root/proc/vmstat", "nr_dirty 200000\n$limits");
	# guarded 19 s after the file was dirtied, or again after the visit
	return $synced - $begun < 18 && time - $synced < 18 ? $risen : ();
});
cmp_ok($taken->{handed_pages}, '<', $taken->{flushed_pages}, 'a visit that was not expected is seen');
write_file("$root/proc/vmstat", "nr_dirty 1000\n$limits");

# --- a visit that is overdue

# guarded from 3 to 12 s after it was dirtied, and 10 s more: none comes here
($taken) = scenario('overdue', 22, 400, 600, sub {
	my ($node) = @_;

	update_until($node, 'handed_pages');
	$node->append_conf('postgresql.conf', "pg_calm.flush_age = '500ms'\n");
	$node->reload;
	# were it given up, it would be flushed for 3 s from now on
	sleep(10);
	return update_until($node, 'handed_pages');
});
cmp_ok($taken->{flushed_pages}, '<', $taken->{handed_pages}, 'a visit that is overdue is waited for');

# --- the flusher's next look

# A look is seen, and the next comes 10 s later: what is written from then on is
# made dense 9 s later, and not 3 s later, when its time of 4 s is nearly up.
my ($between, $before_look) = scenario('looks', 25, 400, 1000, sub {
	my ($node) = @_;

	update_until($node, 'handed_pages');
	$node->append_conf('postgresql.conf', "pg_calm.flush_age = '500ms'\n");
	$node->reload;
	system_or_bail('sync', $node->data_dir . '/' . $node->safe_psql('postgres', q{SELECT pg_relation_filepath('t')}));
	my $seen = time;
	# it is seen in that the file is clean
	sleep(2);
	my ($between, $from);
	while (time - $seen < 11)
	{
		update($node);
		next if time - $seen < 3.5;
		$from //= status_of($node);
		$between = { risen($from, status_of($node)) } if time - $seen < 8;
	}
	return $between ? ($between, update_until($node, 'handed_pages')) : ();
});
cmp_ok($between->{handed_pages}, '<', $between->{flushed_pages}, 'until shortly before the next look the worker flushes');
cmp_ok($before_look->{flushed_pages}, '<', $before_look->{handed_pages}, 'then pages are left to it');

# --- a visit that does not come

# guarded from 3 to 7 s after it was dirtied, and 5 s more
my ($flushed) = scenario('missed', 25, 400, 100, sub {
	my ($node) = @_;

	update_until($node, 'handed_pages');
	$node->append_conf('postgresql.conf', "pg_calm.flush_age = '500ms'\n");
	$node->reload;
	my $before = status_of($node)->{flushed_pages};
	# nothing is written any more
	my $flushed;
	wait_for(sub { $flushed = status_of($node)->{flushed_pages} - $before; return $flushed > 500 }, 60);
	return $flushed;
});
cmp_ok($flushed, '>', 500, 'what was left to a visit that does not come is flushed');

# --- more is dirty than the device's part of the background threshold

# an eighth of 62 MB; 8 GB may be dirty before writers wait
write_file("$root/proc/vmstat",
	"nr_dirty 1000\nnr_dirty_background_threshold 16000\nnr_dirty_threshold 4000000\n");
($taken) = scenario('amount', 25, 400, 600, sub {
	my ($node) = @_;

	# the worker takes no notice of amounts, and flushes long before the file's time
	$node->append_conf('postgresql.conf', "pg_calm.unflushed_limit = '10GB'\npg_calm.flush_age = '5s'\n");
	$node->reload;
	return update_until($node, 'handed_pages');
});
cmp_ok($taken->{flushed_pages}, '<', $taken->{handed_pages}, 'a visit is expected when too much is dirty');

done_testing();


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

# It seems to come 4 s after a file was dirtied, or up to a minute later.  Not
# really: the host's own settings have not changed, and they are longer.
my $root = fake_host();
write_file("$root/proc/sys/vm/dirty_expire_centisecs", "400\n");
write_file("$root/proc/sys/vm/dirty_writeback_centisecs", "6000\n");

sub guarded_node
{
	my ($name) = @_;
	my $node = draining_node($name);

	# no checkpoints but those asked for: they flush, too
	$node->append_conf('postgresql.conf', "pg_calm.host_root = '$root'\nmax_wal_size = '10GB'\n");
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
			my $now = status_of($node);
			%risen = map { $_ => $now->{$_} - $before->{$_} } qw(handed_pages flushed_pages bridged_pages);
			return $risen{$counter} > 500;
		},
		60);
	return \%risen;
}

# --- an fsync

my $node = guarded_node('guard');
cmp_ok(update_until($node, 'handed_pages')->{handed_pages}, '>', 500, 'pages are left to the flusher');
# nobody waits for it here, and the file is clean after
$node->safe_psql('postgres', 'CHECKPOINT');
# the worker looks at it meanwhile
sleep(1);

# a file that is not guarded is flushed at this age, long before it is guarded again
$node->append_conf('postgresql.conf', "pg_calm.flush_age = '500ms'\n");
$node->reload;
my $taken = update_until($node, 'handed_pages');
cmp_ok($taken->{flushed_pages}, '<', $taken->{handed_pages}, 'and those written after an fsync, too');

# all of it was dirty; after an fsync gaps are clean again
$node->safe_psql('postgres', 'VACUUM t');
$node->safe_psql('postgres', 'CHECKPOINT');
$taken = update_until($node, 'handed_pages', 70);
cmp_ok($taken->{bridged_pages}, '>', $taken->{handed_pages}, 'and are made dense again');

# mode off ends that, and in mode on it is 19 s until the file is guarded again
write_file("$root/proc/sys/vm/dirty_expire_centisecs", "2000\n");
foreach my $mode (qw(off on))
{
	$node->append_conf('postgresql.conf', "pg_calm.mode = $mode\n");
	$node->reload;
	wait_for(sub { status_of($node)->{mode} eq $mode });
	# the worker looks at it
	sleep(1);
}
$taken = update_until($node, 'flushed_pages');
cmp_ok($taken->{handed_pages}, '<', $taken->{flushed_pages}, 'in mode off no visit is waited for');

$node->stop;

# --- a visit that was not expected

write_file("$root/proc/sys/vm/dirty_expire_centisecs", "2000\n");
my $limits = "nr_dirty_background_threshold 2000000\nnr_dirty_threshold 4000000\n";
write_file("$root/proc/vmstat", "nr_dirty 200000\n$limits");
my $begun = time;
$node = guarded_node('surprise');
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
sleep(1);
$other->kill_kill;
# of what was written before, nothing is marked any more
$node->safe_psql('postgres', 'CHECKPOINT');

# Those written now are of this age 9 s later: too late if the file is guarded
# by the old clock, soon enough by that which begins with the visit.
$node->append_conf('postgresql.conf', "pg_calm.flush_age = '9s'\n");
$node->reload;
$taken = update_until($node, 'flushed_pages');
cmp_ok($taken->{handed_pages}, '<', $taken->{flushed_pages}, 'a visit that was not expected is seen');

$node->stop;

# --- a visit that is overdue

# guarded from 3 to 12 s after it was dirtied, and 10 s more: none comes here
write_file("$root/proc/sys/vm/dirty_expire_centisecs", "400\n");
write_file("$root/proc/sys/vm/dirty_writeback_centisecs", "600\n");
$node = guarded_node('overdue');
update_until($node, 'handed_pages');
$node->append_conf('postgresql.conf', "pg_calm.flush_age = '500ms'\n");
$node->reload;
# were it given up, it would be flushed for 3 s from now on
sleep(10);
$taken = update_until($node, 'handed_pages');
cmp_ok($taken->{flushed_pages}, '<', $taken->{handed_pages}, 'a visit that is overdue is waited for');

$node->stop;

# --- a visit that does not come

# guarded from 3 to 7 s after it was dirtied, and 5 s more
write_file("$root/proc/sys/vm/dirty_writeback_centisecs", "100\n");
$node = guarded_node('missed');
update_until($node, 'handed_pages');
$node->append_conf('postgresql.conf', "pg_calm.flush_age = '500ms'\n");
$node->reload;
my $before = status_of($node);
# nothing is written any more
ok(wait_for(sub { status_of($node)->{flushed_pages} - $before->{flushed_pages} > 500 }, 60),
	'what was left to a visit that does not come is flushed');

$node->stop;
write_file("$root/proc/sys/vm/dirty_writeback_centisecs", "600\n");

# --- more is dirty than the device's part of the background threshold

# an eighth of 62 MB; 8 GB may be dirty before writers wait
write_file("$root/proc/vmstat",
	"nr_dirty 1000\nnr_dirty_background_threshold 16000\nnr_dirty_threshold 4000000\n");
$node = guarded_node('amount');
# the worker takes no notice of amounts, and flushes long before the file's time
$node->append_conf('postgresql.conf', "pg_calm.unflushed_limit = '10GB'\npg_calm.flush_age = '5s'\n");
$node->reload;
$taken = update_until($node, 'handed_pages');
cmp_ok($taken->{flushed_pages}, '<', $taken->{handed_pages}, 'a visit is expected when too much is dirty');

$node->stop;
done_testing();

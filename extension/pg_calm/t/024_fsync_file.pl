
# While a file is fsynced the worker leaves it alone: fsync waits for all of the
# file that is under writeback when it comes to it, also for what was started
# later, so it would follow the worker through the file.

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

my $cannot = cannot_trace();
plan skip_all => "an fsync can't be held: $cannot" if $cannot;

# all that is written is flushed at once, and few buffers let all be written
my $node = calm_node('fsync_file', q{
shared_buffers = 1MB
log_checkpoints = on
pg_calm.flush_age = '10ms'
pg_calm.drain_timeout = 0
});
$node->start;
scattered_table($node);
$node->safe_psql('postgres', 'CREATE TABLE other AS SELECT * FROM t');

sub update
{
	my ($table) = @_;

	$node->safe_psql('postgres', "UPDATE $table SET n = n + 1 WHERE id % 7 = 0");
	return;
}

sub nothing_of
{
	my ($table) = @_;

	return wait_for(sub { region_counts($node, $table) eq 'none' }, 30);
}

$node->safe_psql('postgres', 'CHECKPOINT');
update('t');
ok(nothing_of('t'), 'what is written is flushed');

my $path = $node->data_dir . '/' . $node->safe_psql('postgres', q{SELECT pg_relation_filepath('t')});
my ($slow, $trace) = trace(
	process_id($node, 'checkpointer'),
	'-P', $path, '-e', 'trace=fsync', '-e', 'inject=fsync:delay_enter=60000000');
my $done = checkpoints_completed($node);
my ($out, $err) = ('', '');
my $checkpoint = start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', 'CHECKPOINT' ],
	'>', \$out, '2>', \$err);
ok(wait_for(sub { slurp_file($trace) =~ /fsync\(/ }, 30), 'the file is being fsynced');

update('t');
update('other');
ok(nothing_of('other'), 'what is written to another file is flushed');
usleep(500_000);
isnt(region_counts($node, 't'), 'none', 'what is written to this one is not');
is(checkpoints_completed($node), $done, 'the fsync was under way all the time');

# which ends the delay
finish_trace($slow);
$checkpoint->finish;
ok(checkpoints_completed($node) > $done, 'the checkpoint is complete');
ok(nothing_of('t'), 'and what was written meanwhile is flushed');

$node->stop;
done_testing();

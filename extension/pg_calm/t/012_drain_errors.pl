
# A writeback error while a checkpoint drains, or between the drain and the
# fsync calls after it, ends in PANIC and not in a completed checkpoint.  The
# errors are injected by strace; the table's last row shows what was lost if
# one were hidden.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use CalmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $why = cannot_trace();
plan skip_all => $why if $why;

my $node = draining_node('drain_errors');
$node->start;
scattered_table($node);
$node->safe_psql('postgres', 'CREATE TABLE late (i int); INSERT INTO late VALUES (0); CHECKPOINT');

my $round = 0;
my $panic = qr/PANIC:  .*: Input\/output error/;

my @waiting;

# Pages dirty all over the table, and a checkpoint
sub cause_checkpoint
{
	$round++;
	$node->safe_psql('postgres', "UPDATE t SET n = $round WHERE id % 7 = 0");
	push @waiting, begin_checkpoint($node);
	return;
}

# The server crashes over $expected before the checkpoint completes, and
# recovers with everything
sub recovers
{
	my ($name, $expected, $log, @handles) = @_;

	ok($node->wait_for_log(qr/database system is ready to accept connections/, $log),
		"$name: the server recovers");
	$_->finish foreach @handles, splice(@waiting);
	my $text = slurp_file($node->logfile, $log);
	# what the recovery itself does may complete
	$text =~ s/all server processes terminated; reinitializing.*//s;
	like($text, $expected, "$name: ends in PANIC");
	unlike($text, qr/checkpoint complete/, "$name: no checkpoint completed");
	$node->poll_query_until('postgres', 'SELECT true') or die 'timed out';
	is($node->safe_psql('postgres', "SELECT count(*) FROM t WHERE n = $round"),
		5714, "$name: nothing is lost");
	wait_for(sub { status_of($node)->{worker_pid} });
	return;
}

# --- while it drains: the worker's writeback fails

# the worker can't flush before the checkpointer is seen waiting
my $worker = status_of($node)->{worker_pid};
kill 'STOP', $worker;
my $log = -s $node->logfile;
cause_checkpoint();
ok(wait_for(sub { drains($node) }, 60), 'a checkpoint drains');
my ($failing) = trace($worker, '-e', 'trace=sync_file_range', '-e',
	'inject=sync_file_range:error=EIO:when=3');
kill 'CONT', $worker;
recovers('error in the drain', $panic, $log, $failing);

# --- after the drain: the table's fsync fails, once.  It is made on a duplicate
# of the server's descriptor, and nothing else tells of its error.

my @data_files = map { ('-P', $node->data_dir . "/$_") } split /\n/,
  $node->safe_psql(
	'postgres', q{
SELECT pg_relation_filepath('t_pkey')
UNION ALL
SELECT pg_relation_filepath('t') || fork FROM unnest('{"",_vm,_fsm}'::text[]) fork});
# hint bits of the catalogs are set after a recovery: let no file of theirs be the first
$log = -s $node->logfile;
cause_checkpoint();
ok($node->wait_for_log(qr/checkpoint complete: .*/, $log), 'a checkpoint after the recovery');
my $flushed;
# no other file's: one with few pages is not drained for
my $table = $node->data_dir . '/' . $node->safe_psql('postgres', q{SELECT pg_relation_filepath('t')});
my ($slow) = trace(process_id($node, 'checkpointer'), '-P', $table, '-e', 'trace=fsync', '-e',
	'inject=fsync:error=EIO:when=1');
$log = -s $node->logfile;
cause_checkpoint();
recovers('error of the fsync after a drain',
	qr/PANIC:  could not fsync file "base\/.*: Input\/output error/, $log, $slow);

# --- and the close of the duplicate, on a file system where close tells of errors

$log = -s $node->logfile;
cause_checkpoint();
ok($node->wait_for_log(qr/checkpoint complete: .*/, $log), 'a checkpoint after the recovery');
($slow) = trace(process_id($node, 'checkpointer'), '-P', $table, '-e', 'trace=close', '-e', 'inject=close:error=EIO:when=1');
$log = -s $node->logfile;
cause_checkpoint();
recovers('error of the close after it', qr/PANIC:  could not fsync file "base\/.*: Input\/output error/, $log, $slow);

# --- between them: a page that was written when its file was drained fails
# while the checkpointer is on its way into fsync

$worker = status_of($node)->{worker_pid};
my $checkpointer = process_id($node, 'checkpointer');
my $trace;
($slow, $trace) = trace($checkpointer, @data_files, '-e', 'trace=fsync', '-e',
	'inject=fsync:delay_enter=4000000');
$flushed = status_of($node)->{flushed_pages};
$log = -s $node->logfile;
cause_checkpoint();
# in the sync phase, and held there: strace has begun its line
ok(wait_for(sub { slurp_file($trace) =~ /fsync\(/ }, 60), 'a checkpoint is at its fsync');
cmp_ok(status_of($node)->{flushed_pages} - $flushed, '>', 300, 'and has drained');
unlike(slurp_file($node->logfile, $log), qr/checkpoint complete/, 'and has not completed');
($failing) = trace($worker, '-e', 'trace=sync_file_range', '-e',
	'inject=sync_file_range:error=EIO:when=1');
$node->safe_psql(
	'postgres', q{
UPDATE late SET i = i + 1;
ALTER SYSTEM SET pg_calm.flush_age = '10ms'});
# out of shared buffers, so that the worker has something to flush
$node->safe_psql('postgres', 'INSERT INTO late SELECT generate_series(1, 100000)');
$node->reload;
recovers('error between drain and fsync', $panic, $log, $failing, $slow);

$node->safe_psql('postgres', 'ALTER SYSTEM RESET pg_calm.flush_age');
$node->stop;
command_ok([ 'pg_checksums', '--check', '-D', $node->data_dir ], 'checksums are right');

done_testing();

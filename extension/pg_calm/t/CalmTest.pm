
=pod

=head1 NAME

CalmTest - what the TAP tests of pg_calm share

=cut

package CalmTest;

use strict;
use warnings;

use Cwd qw(realpath);
use Exporter 'import';
use File::Basename;
use File::Path qw(make_path);
use IPC::Run qw(start);
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

our @EXPORT = qw(
  begin_checkpoint
  begun_by_wal
  calm_node
  cannot_bridge
  cannot_trace
  checkpoints_completed
  checkpoints_ended
  deny_cachestat
  draining_node
  drains
  fake_host
  fill_wal
  finish_trace
  guard_input
  guard_reaches
  hints_obeyed
  kill_node
  mark_pages
  paged_tables
  process_id
  wait_for
  region_counts
  runs
  scattered_table
  start_load
  status_of
  trace
  write_file
);

# Write a file of a fake host, with the directories above it
sub write_file
{
	my ($path, $text) = @_;

	make_path(dirname($path));
	open(my $file, '>', $path) or die "could not write $path: $!";
	print $file $text;
	close $file;
	return;
}

# A host without caps, and whose flusher comes once an hour, for all servers that are
# started from now on: what a test counts doesn't depend on the machine that it runs on
# then, and there are settings for tests (test_settings.c).  Returns its root directory.
sub fake_host
{
	my $root = PostgreSQL::Test::Utils::tempdir();

	$ENV{PG_CALM_HOST_ROOT} = $root;

	write_file("$root/proc/sys/vm/dirty_expire_centisecs", "360000\n");
	write_file("$root/proc/sys/vm/dirty_writeback_centisecs", "500\n");
	return $root;
}

# A node with the module and data checksums, not started; on a fake host, if there is none
# yet.  A cap is known, or it would only watch; it is one that changes nothing.  A worker
# that a test stops is waited for.  fsync is on, other than PostgreSQL::Test has it: most of
# what is tested happens there.  More options for initdb may follow.
sub calm_node
{
	my ($name, $conf, @options) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	fake_host() unless $ENV{PG_CALM_HOST_ROOT};
	$node->init(extra => [ '--data-checksums', @options ]);
	$node->append_conf(
		'postgresql.conf', qq{
shared_preload_libraries = 'pg_calm'
fsync = on
wal_level = replica
autovacuum = off
checkpoint_timeout = 1h
log_statement = none
restart_after_crash = on
pg_calm.write_bandwidth = '1TB'
pg_calm.worker_timeout = '1h'
} . ($conf // ''));
	return $node;
}

# One whose checkpoints have much to drain: nothing is flushed before, since pages are neither
# old nor many.  They write at once, and WAL is no reason to end a drain.
sub draining_node
{
	my ($name) = @_;

	return calm_node($name, q{
shared_buffers = 16MB
max_wal_size = 10GB
checkpoint_completion_target = 0
log_checkpoints = on
pg_calm.write_iops = 100
pg_calm.write_bandwidth = '100MB'
pg_calm.flush_age = '1h'
pg_calm.unflushed_limit = '10GB'
pg_calm.drain_threshold = 0
pg_calm.drain_timeout = '1h'
});
}

# The extension, and a table whose pages are updated one in a few
sub scattered_table
{
	my ($node) = @_;

	$node->safe_psql(
		'postgres', q{
CREATE EXTENSION pg_calm;
CREATE TABLE t (id int PRIMARY KEY, n int, filler text) WITH (fillfactor = 50);
INSERT INTO t SELECT i, 0, repeat('x', 500) FROM generate_series(1, 40000) i;
CHECKPOINT});
	return;
}

# Tables p1, p2, ... of a database, each of whose pages has one row, and room for its next
# version; and one that mark_pages() reads
sub paged_tables
{
	my ($node, $database, $tables, $pages) = @_;

	$node->safe_psql(
		$database, qq{
CREATE TABLE evicting AS SELECT i, repeat('x', 500) AS filler FROM generate_series(1, 10000) i;
CREATE INDEX ON evicting (i);
DO \$\$ BEGIN FOR i IN 1 .. $tables LOOP
	EXECUTE format('CREATE TABLE p%s (id int, n int, filler text) WITH (fillfactor = 40)', i);
	EXECUTE format('ALTER TABLE p%s ALTER filler SET STORAGE PLAIN', i);
	EXECUTE format('INSERT INTO p%s SELECT i, 0, repeat(''x'', 3000) FROM generate_series(1, $pages) i', i);
END LOOP; END \$\$;
VACUUM;
CHECKPOINT});
	return;
}

# Update rows of these tables, and have few shared buffers' pages written, all but the last
sub mark_pages
{
	my ($node, $database, $tables, $where) = @_;

	$node->safe_psql(
		$database, qq{
DO \$\$ BEGIN FOR i IN 1 .. $tables LOOP
	EXECUTE format('UPDATE p%s SET n = n + 1 WHERE $where', i);
END LOOP; END \$\$;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT count(filler) FROM evicting WHERE i > 0;
SELECT count(filler) FROM evicting WHERE i > 0});
	return;
}

# How many the server's log tells of
sub checkpoints_completed
{
	my ($node) = @_;

	return () = slurp_file($node->logfile) =~ /checkpoint complete/g;
}

# How many checkpoints the server's log says that WAL has caused
sub begun_by_wal
{
	my ($node) = @_;

	my $begun = () = slurp_file($node->logfile) =~ /checkpoint starting: wal/g;
	return $begun;
}

# Begin a checkpoint that is in no hurry, as a base backup does.  Returns the handle of who
# waits for it.
sub begin_checkpoint
{
	my ($node) = @_;
	my ($out, $err) = ('', '');

	return start(
		[
			'psql', '-XAtq', '-d', $node->connstr('postgres'),
			'-c', q{SELECT pg_backup_start('test', false)}
		],
		'>', \$out, '2>', \$err);
}

# Write WAL until it has caused a checkpoint that begun_by_wal had not seen, and
# little more.  Returns whether it has.
sub fill_wal
{
	my ($node, $seen) = @_;
	my $begun = 0;

	return wait_for(
		sub {
			my $done = $begun;
			$begun = begun_by_wal($node) > $seen;
			$node->psql('postgres',
				q{SELECT count(pg_logical_emit_message(false, 'fill', repeat('w', 4000000)))})
			  unless $done;
			return $done;
		},
		60);
}

# Whether the checkpointer waits for the worker: such a wait it has only with
# the module
sub drains
{
	my ($node) = @_;

	return $node->safe_psql('postgres',
		q{SELECT wait_event_type FROM pg_stat_activity WHERE backend_type = 'checkpointer'}) eq
	  'Extension';
}

# That of the server's process of a type that has one process
sub process_id
{
	my ($node, $type) = @_;

	return $node->safe_psql('postgres',
		"SELECT pid FROM pg_stat_activity WHERE backend_type = '$type'");
}

# The row of pg_calm_status, by column name
sub status_of
{
	my ($node) = @_;
	my %status;
	my $rows = $node->safe_psql('postgres',
		q{SELECT key, coalesce(value, '(null)') FROM pg_calm_status s, json_each_text(to_json(s))}
	);

	foreach my $row (split /\n/, $rows)
	{
		my ($key, $value) = split /\|/, $row, 2;
		$status{$key} = $value eq '(null)' ? undef : $value;
	}
	return \%status;
}

# "first block:pages" of all regions of a table's main fork
sub region_counts
{
	my ($node, $table) = @_;

	return $node->safe_psql(
		'postgres', qq{
SELECT coalesce(string_agg(first_block || ':' || unflushed_pages, ' '
                           ORDER BY path, first_block), 'none')
  FROM pg_calm_regions()
 WHERE path ~ ('/' || pg_relation_filepath('$table') || '(\\.[0-9]+)?\$')});
}

# Wait until a condition holds; returns whether it did in time.  Who waits for
# what has to come names no time: a busy machine takes its own.
sub wait_for
{
	my ($condition, $seconds) = @_;
	my $end = time + ($seconds // $PostgreSQL::Test::Utils::timeout_default);

	while (1)
	{
		return 1 if $condition->();
		return 0 if time > $end;
		usleep(50_000);
	}
}

# A column of the row of pg_calm_guard for an input, as text
sub guard_input
{
	my ($node, $input, $column) = @_;

	return $node->safe_psql('postgres',
		"SELECT coalesce(($column)::text, 'null') FROM pg_calm_guard WHERE input = '$input'");
}

# A test: that an input comes to be in a state
sub guard_reaches
{
	my ($node, $input, $state, $name) = @_;
	my $ok = wait_for(sub { return guard_input($node, $input, 'state') eq $state }, 60);

	local $Test::Builder::Level = $Test::Builder::Level + 2;
	diag("$input is " . guard_input($node, $input, 'state') . ', at ' . guard_input($node, $input, 'value'))
	  unless $ok;
	return ok($ok, $name);
}

# Wait until no checkpoint is under way, by the server's log; returns whether
# that came.  What writes much WAL can cause two of them.
sub checkpoints_ended
{
	my ($node) = @_;

	return wait_for(
		sub {
			my $log = slurp_file($node->logfile);
			my $begun = () = $log =~ /LOG:  checkpoint starting/g;
			my $ended = () = $log =~ /LOG:  checkpoint complete/g;
			return $begun == $ended;
		},
		60);
}

# Start a client that updates rows of a table here and there until it is
# killed or told so with finish; errors don't matter, they are expected.
sub start_load
{
	my ($node, $table, $rows, $rate, $seconds) = @_;
	my $script = PostgreSQL::Test::Utils::tempdir() . '/update.sql';
	my ($out, $err) = ('', '');

	write_file($script, <<"EOS");
\\set id random(1, $rows)
UPDATE $table SET n = n + 1 WHERE id = :id;
EOS
	return start(
		[
			'pgbench', '-n', '-c', '2', '-R', $rate // 800,
			'-T', $seconds // 120, '-f', $script,
			'-h', $node->host, '-p', $node->port,
			'postgres'
		],
		'>',
		\$out,
		'2>',
		\$err);
}

# Whether a client that was started still runs.  Without a pump its end is never seen: its
# output and the end of that have to be read first.
sub runs
{
	my ($handle) = @_;

	foreach (1 .. 5)
	{
		$handle->pump_nb if $handle->pumpable;
	}
	return $handle->pumpable;
}

# Why bridging can't be seen here, or ''
sub cannot_bridge
{
	my ($node) = @_;
	my $type = `stat -f -c %t '@{[ $node->data_dir ]}'`;

	chomp $type;
	# ext4, XFS
	return $type =~ /^(ef53|58465342)$/ ? '' : 'the data directory is not on ext4 or XFS';
}

# Why other processes of ours can't be traced here, or ''
sub cannot_trace
{
	my ($out, $err);
	my $sleep = start(['sleep', '20']);
	my $pid = $sleep->{KIDS}->[0]->{PID};
	my $result;

	return 'strace is not installed' if system('command -v strace >/dev/null 2>&1') != 0;
	my $strace =
	  start([ 'strace', '-qq', '-e', 'trace=none', '-p', $pid ], '>', \$out, '2>', \$err);
	$result = wait_for(sub { is_traced($pid) }, 5) ? '' : 'ptrace is not permitted';
	$strace->kill_kill;
	$sleep->kill_kill;
	return $result;
}

# Refuse cachestat(2) with ENOSYS from now on, as a kernel before 6.5 does: to
# this process and all that it starts.  By a filter of seccomp(2) in classic
# BPF; it can't be taken back.  Returns why it can't be had, or ''.
sub deny_cachestat
{
	my %prctl = (x86_64 => 157, aarch64 => 167);
	my $number = $prctl{ (POSIX::uname())[4] } // return 'not a known architecture';
	my $code = join '', map { pack('S C C L', @$_) } (
		[ 0x20, 0, 0, 0 ],    # load the number of the call
		[ 0x15, 0, 1, 451 ],    # is it cachestat?
		[ 0x06, 0, 0, 0x00050000 | 38 ],    # fail with ENOSYS
		[ 0x06, 0, 0, 0x7fff0000 ]);    # allow
	my $program = pack('S x6 P', 4, $code);

	return "no_new_privs: $!" if syscall($number, 38, 1, 0, 0, 0) != 0;
	return "seccomp: $!" if syscall($number, 22, 2, $program) != 0;
	return '';
}

sub is_traced
{
	my ($pid) = @_;

	open(my $file, '<', "/proc/$pid/status") or return 0;
	return grep { /^TracerPid:\s+[1-9]/ } <$file>;
}

# Attach strace to a process, with options; returns a handle and the file it
# writes to.  End with finish_trace.
sub trace
{
	my ($pid, @options) = @_;
	my $file = PostgreSQL::Test::Utils::tempdir() . '/strace';
	my ($out, $err) = ('', '');
	my $handle = start([ 'strace', '-qq', '-o', $file, @options, '-p', $pid ],
		'>', \$out, '2>', \$err);

	wait_for(sub { is_traced($pid) }, 10) or die "could not trace $pid: $err";
	return ($handle, $file);
}

# Detach it, and wait until all is in the file
sub finish_trace
{
	my ($handle) = @_;

	$handle->signal('INT');
	$handle->finish;
	return;
}

# Flush hints for a table's file that reach the kernel in a checkpoint that is asked for
sub hints_obeyed
{
	my ($node, $table) = @_;
	my $file = $node->safe_psql('postgres', "SELECT pg_relation_filenode('$table')");
	my ($handle, $trace) =
	  trace(process_id($node, 'checkpointer'), '-y', '-e', 'trace=sync_file_range');

	$node->safe_psql('postgres', 'CHECKPOINT');
	finish_trace($handle);
	my $hints = () = slurp_file($trace) =~ m{^sync_file_range\(\d+<[^>]*/\Q$file\E>}mg;
	return $hints;
}

# Kill the postmaster, and wait until its children have noticed: until then
# the server can't be started.
sub kill_node
{
	my ($node) = @_;
	my $data_dir = realpath($node->data_dir);
	my $pid = (split /\n/, slurp_file("$data_dir/postmaster.pid"))[0];

	$node->kill9;
	return wait_for(
		sub {
			return !kill(0, $pid)
			  && !grep { (readlink($_) // '') eq $data_dir } glob('/proc/[0-9]*/cwd');
		},
		30);
}

1;

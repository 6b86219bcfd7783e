
# Acknowledging archived files without fsyncs: which ones are left out, what is
# done instead before WAL is recycled or removed, and what if that fails.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use CalmTest;
use Cwd qw(realpath);
use File::Basename;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $why = cannot_trace();
plan skip_all => $why if $why;

my $node = calm_node(
	'acknowledgement', q{
archive_mode = on
archive_command = 'true'
min_wal_size = 2MB
max_wal_size = 1GB
log_checkpoints = on
}, '--wal-segsize=1');
my $pg_wal = realpath($node->data_dir) . '/pg_wal';
my $status_directory = "$pg_wal/archive_status";

$node->start;
$node->safe_psql('postgres', 'CREATE TABLE filler (t text)');
$node->safe_psql('postgres', 'CREATE EXTENSION pg_calm');
my $deferring =
  $node->safe_psql('postgres', 'SHOW server_version_num') < 160000;

sub ready_files
{
	my @files = glob("$status_directory/*.ready");
	return @files;
}

sub make_wal
{
	my ($segments) = @_;

	foreach (1 .. $segments)
	{
		$node->safe_psql('postgres',
			"INSERT INTO filler VALUES ('x'); SELECT pg_switch_wal()");
	}
	return wait_for(sub { return !ready_files() }, 60);
}

sub pid_of
{
	my ($type) = @_;

	return process_id($node, $type) if $type ne 'archiver';
	my $postmaster = (split /\n/, slurp_file($node->data_dir . '/postmaster.pid'))[0];
	my ($pid) = map { /^\s*(\d+)/ }
	  grep { /archiver/ } `ps --no-headers -o pid,args --ppid $postmaster`;
	return $pid;
}

# Calls of a process while something is done: fsyncs of archive_status and what
# is in it, acknowledgements, and WAL files that go, in order, as one letter each
sub calls
{
	my ($pid, $what) = @_;
	my ($handle, $trace) = trace($pid, '-y', '-e', 'trace=fsync,rename,unlink');
	my $calls = '';
	my $size = -1;

	$what->();
	# the fsyncs of the last acknowledgement come after what can be waited for
	wait_for(
		sub {
			my $before = $size;
			usleep(300_000);
			$size = -s $trace;
			return $size == $before;
		});
	finish_trace($handle);
	foreach my $line (split /\n/, slurp_file($trace))
	{
		if ($line =~ /^fsync\(\d+<\Q$status_directory\E>\)/) { $calls .= 'D' }
		elsif ($line =~ /^fsync\(\d+<\Q$status_directory\E\//) { $calls .= 'F' }
		elsif ($line =~ /^rename\("pg_wal\/archive_status\/.*ready"/) { $calls .= 'a' }
		elsif ($line =~ /^(rename|unlink)\("pg_wal\/[0-9A-F]{24}"/) { $calls .= 'r' }
	}
	return $calls;
}

sub set
{
	my ($setting) = @_;

	$node->safe_psql('postgres', "ALTER SYSTEM SET $setting");
	$node->reload;
	make_wal(1);
	return;
}

sub view
{
	my ($column) = @_;

	return $node->safe_psql('postgres', "SELECT coalesce(($column)::text, 'null') FROM pg_calm_archive");
}

# --- of which archiver: of ours, unless the setting says so

my $all = qr/^(?:F?D)?(FaFD){5,}$/;
my $calls = calls(pid_of('archiver'), sub { make_wal(5) });
like($calls, $deferring ? $all : qr/^a{5,}$/,
	'another archiver\'s acknowledgements are fsynced, since it may refuse a file that it has');
is(view('deferred_status_renames'), 0, 'none is deferred');

my $archive = PostgreSQL::Test::Utils::tempdir();

# by a restart: the postmaster takes up to a minute to start another archiver
$node->append_conf('postgresql.conf', qq{
archive_library = 'pg_calm'
archive_command = ''
pg_calm.archive_directory = '$archive'
});
$node->restart;
make_wal(1);
like(calls(pid_of('archiver'), sub { make_wal(5) }), qr/^a{5,}$/, 'archived by us they are deferred');
set('pg_calm.archive_defer_status_sync = off');
like(calls(pid_of('archiver'), sub { make_wal(5) }), $deferring ? $all : qr/^a{5,}$/, 'unless that is off');
$node->append_conf('postgresql.conf', q{
archive_library = ''
archive_command = 'true'
});
$node->restart;
set('pg_calm.archive_defer_status_sync = on');

# --- the archiver

$calls = calls(pid_of('archiver'), sub { make_wal(10) });
like($calls, qr/^a{10,}$/, 'acknowledgements without an fsync');
cmp_ok(view('deferred_status_renames'), $deferring ? '>=' : '==', $deferring ? 10 : 0, 'counted');

if ($deferring)
{
	set('pg_calm.archive_defer_status_sync = off');
	$calls = calls(pid_of('archiver'), sub { make_wal(5) });
	like($calls, $all, 'with the setting off all fsyncs happen');
	set('pg_calm.archive_defer_status_sync = on');
	set("pg_calm.mode = 'off'");
	$calls = calls(pid_of('archiver'), sub { make_wal(5) });
	like($calls, $all, 'so they do in mode off');
	set("pg_calm.mode = 'on'");
	like(calls(pid_of('archiver'), sub { make_wal(3) }), qr/^a+$/, 'and not in mode on');
}

# --- an acknowledgement that breaks off: only what is surely its own is left out

if ($deferring)
{
	$node->append_conf('postgresql.conf', "archive_command = ''\narchive_library = '$ENV{PG_CALM_FSYNC_ARCHIVE}'\n");
	$node->restart;
	make_wal(1);

	my $file = $node->safe_psql('postgres',
		"INSERT INTO filler VALUES ('x'); SELECT pg_walfile_name(pg_current_wal_insert_lsn())");
	my $done = "$status_directory/$file.done";
	# the second time that it is opened, which is after the rename (durable_rename)
	my ($handle) = trace(pid_of('archiver'), '-P', "pg_wal/archive_status/$file.done", '-e',
		'trace=openat', '-e', 'inject=openat:error=ENFILE:when=2');
	my $offset = -s $node->logfile;
	make_wal(1);
	ok(wait_for(sub { slurp_file($node->logfile, $offset) =~ /could not open file .*\Q$file\E\.done/ }),
		'the status file can\'t be opened after its rename');
	finish_trace($handle);
	ok(-e $done, 'which has happened');

	# a file with the inode number of the status file, as if that were gone
	link($done, $node->data_dir . '/fsync_me') or die "link: $!";
	my ($tracer, $trace) = trace(pid_of('archiver'), '-y', '-e', 'trace=fsync');
	make_wal(3);
	finish_trace($tracer);
	my $fsyncs = () = slurp_file($trace) =~ m{fsync\(\d+<[^>]*/fsync_me>\)}g;
	cmp_ok($fsyncs, '>=', 3, 'no fsync of another file with its inode number is left out');
	unlink($node->data_dir . '/fsync_me');

	$node->append_conf('postgresql.conf', "archive_command = 'true'\narchive_library = ''\n");
	$node->restart;
	make_wal(1);
}

# --- WAL goes

$calls = calls(pid_of('checkpointer'), sub { $node->safe_psql('postgres', 'CHECKPOINT') });
like($calls, qr/^Dr+$/,
	'one fsync of the directory before the first file of WAL goes, none later');
make_wal(1);
$node->safe_psql('postgres', 'CHECKPOINT');
my $syncs = view('status_directory_syncs');
# after a second checkpoint, WAL goes that was acknowledged and synced before
$calls = calls(pid_of('checkpointer'), sub { $node->safe_psql('postgres', 'CHECKPOINT') });
is($calls =~ tr/D//, $calls =~ /r/ ? 1 : 0, 'none if nothing goes');
set("pg_calm.mode = 'off'");
make_wal(5);
# renames that were deferred before the mode was changed
$calls = calls(pid_of('checkpointer'), sub { $node->safe_psql('postgres', 'CHECKPOINT') });
unlike($calls, qr/D.*D/, 'mode off: not more than one either');
set("pg_calm.mode = 'on'");

# --- a new server does not know what is durable

make_wal(4);
my $archiver = pid_of('archiver');
$calls = calls($archiver, sub { $node->stop });
like($calls, qr/D$/, 'the archiver makes its renames durable when it exits');
$node->start;
make_wal(1);
$calls = calls(pid_of('checkpointer'), sub { $node->safe_psql('postgres', 'CHECKPOINT') });
like($calls, qr/^Dr+$/, 'a new server syncs before it removes anything');

# --- the fsync fails

if ($deferring)
{
	ok(make_wal(8), 'archived');
	my @before = grep { -f } glob("$pg_wal/0*");
	my $offset = -s $node->logfile;
	my ($handle) = trace(pid_of('checkpointer'), '-P', $status_directory, '-e', 'trace=fsync', '-e',
		'inject=fsync:error=EIO');
	$node->safe_psql('postgres', 'CHECKPOINT');
	finish_trace($handle);
	my $log = slurp_file($node->logfile, $offset);
	like($log, qr/could not (rename|remove) file "pg_wal\/[0-9A-F]{24}".*Input\/output error/,
		'WAL can\'t be recycled or removed if it fails');
	is(join(' ', grep { !-e } @before), '', 'all of it is still there');
	is(view('status_sync_error'), 'Input/output error', 'the view says why');
	like(status_of($node)->{degraded}, qr/WAL is neither recycled nor removed since an fsync/,
		'which is named as a degraded state');
	$node->safe_psql('postgres', 'CHECKPOINT');
	is(join(' ', grep { !-e } @before), '', 'nor later: the kernel reports an error only once');
	like(calls(pid_of('archiver'), sub { make_wal(3) }), qr/^(FaFD)+$/, 'nothing is deferred any more');
	$node->restart;
	make_wal(1);
	$node->safe_psql('postgres', 'CHECKPOINT');
	cmp_ok(scalar(grep { -e } @before), '<', scalar(@before), 'after a restart WAL goes again');
	is(view('status_sync_error'), 'null', 'and the error is gone');
}

$node->stop;
done_testing();


# A WAL segment that has two names, and an announcement that outlives its segment:
# what archiving makes of them.
#
# Servers before 15.11 recycle a segment by link and unlink.  A crash between them leaves
# both names, and what is written under the future one changes the segment that the
# old one announces: its acknowledgement has to be durable before the link.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use CalmTest;
use Cwd qw(realpath);
use File::Copy;
use IPC::Run qw(start);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $why = cannot_trace();
plan skip_all => $why if $why;

my $node = calm_node(
	'two_names', q{
archive_mode = on
archive_command = 'true'
min_wal_size = 2MB
max_wal_size = 1GB
pg_calm.archive_defer_status_sync = on
}, '--wal-segsize=1');
my $pg_wal = realpath($node->data_dir) . '/pg_wal';
my $status_directory = "$pg_wal/archive_status";

$node->start;
$node->safe_psql('postgres', 'CREATE TABLE filler (t text)');
$node->safe_psql('postgres', 'CREATE EXTENSION pg_calm');
my $old_server = $node->safe_psql('postgres', 'SHOW server_version_num') < 160000;

sub all_archived
{
	return wait_for(sub { my @ready = glob("$status_directory/*.ready"); return !@ready }, 60);
}

# Finish segments, and wait until they are archived; returns the name of the last one
sub make_wal
{
	my ($segments) = @_;
	my $name;

	foreach (1 .. $segments)
	{
		$name = $node->safe_psql('postgres',
			"INSERT INTO filler VALUES ('x'); SELECT pg_walfile_name(pg_current_wal_insert_lsn())");
		$node->safe_psql('postgres', 'SELECT pg_switch_wal()');
	}
	all_archived() or die 'WAL is not archived';
	return $name;
}

# A name that the server will not come to
sub future_name
{
	my ($name) = @_;

	return substr($name, 0, 16) . sprintf('%08X', hex(substr($name, 16)) + 0x200);
}

sub archiver
{
	my $postmaster = (split /\n/, slurp_file($node->data_dir . '/postmaster.pid'))[0];
	my ($pid) = map { /^\s*(\d+)/ }
	  grep { /archiver/ } `ps --no-headers -o pid,args --ppid $postmaster`;
	return $pid;
}

# Recycle a segment in a session, under strace with options; returns the calls, D for an
# fsync of archive_status, l for the link, u for the unlink
sub recycle
{
	my ($name, @options) = @_;
	my ($out, $err) = ('', '');
	my $go = $node->data_dir . '/go';
	my $calls = '';

	unlink $go;
	my $session = start(
		[ 'psql', '-XAtq', '-h', $node->host, '-p', $node->port, '-d', 'postgres', '-c', qq{
SET application_name = 'recycle';
DO \$\$ BEGIN WHILE pg_stat_file('go', true) IS NULL LOOP PERFORM pg_sleep(0.05); END LOOP; END \$\$;
SELECT recycle_by_link('pg_wal/$name', 'pg_wal/} . future_name($name) . q{');} ],
		'>', \$out, '2>', \$err);
	my $pid;
	wait_for(sub { $pid = $node->safe_psql('postgres',
				"SELECT pid FROM pg_stat_activity WHERE application_name = 'recycle'") })
	  or die "no session: $err";
	my ($handle, $trace) = trace($pid, '-y', '-e', 'trace=fsync,link,unlink', @options);
	write_file($go, '');
	$session->finish;
	finish_trace($handle);
	foreach my $line (split /\n/, slurp_file($trace))
	{
		if ($line =~ /^fsync\(\d+<\Q$status_directory\E>\)/) { $calls .= 'D' }
		elsif ($line =~ /^link\("pg_wal\//) { $calls .= 'l' }
		elsif ($line =~ /^unlink\("pg_wal\/[0-9A-F]{24}"/) { $calls .= 'u' }
	}
	return $calls;
}

SKIP:
{
	skip 'since 16 the server neither syncs acknowledgements nor links segments', 10 if !$old_server;

	$node->safe_psql('postgres', qq{
CREATE FUNCTION recycle_by_link(text, text) RETURNS bool LANGUAGE C AS '$ENV{PG_CALM_RECYCLE_BY_LINK}'});

	# --- recycling by link

	my $segment = make_wal(3);
	ok(-e "$status_directory/$segment.done", 'a segment is acknowledged');
	is(recycle($segment), 'Dlu', 'its acknowledgement is durable before it gets its future name');
	ok(!-e "$pg_wal/$segment" && -e "$pg_wal/" . future_name($segment), 'which it has then');
	unlink "$pg_wal/" . future_name($segment);
	is(recycle(make_wal(1)), 'Dlu', 'so is one that comes later');

	$segment = make_wal(1);
	unlike(recycle($segment, '-P', $status_directory, '-e', 'inject=fsync:error=EIO'), qr/[lu]/,
		'it gets no other name if that fails');
	ok(-e "$pg_wal/$segment" && !-e "$pg_wal/" . future_name($segment), 'and stays');
	is($node->safe_psql('postgres', 'SELECT status_sync_error FROM pg_calm_archive'),
		'Input/output error', 'the view says why');
	unlink glob("$pg_wal/*00000[2-9A-F][0-9A-F][0-9A-F]");
	$node->restart;

	# --- one that has two names already, as after a crash of such a server

	make_wal(1);
	$segment = $node->safe_psql('postgres', 'SELECT pg_walfile_name(pg_current_wal_insert_lsn())');
	link("$pg_wal/$segment", "$pg_wal/" . future_name($segment)) or die "link: $!";
	my ($handle, $trace) = trace(archiver(), '-y', '-e', 'trace=fsync,rename');
	is(make_wal(1), $segment, 'a segment with two names is finished');
	make_wal(2);
	# the fsyncs of an acknowledgement come after what can be waited for
	usleep(500_000);
	finish_trace($handle);
	my $calls = slurp_file($trace);
	like($calls, qr/^rename\("pg_wal\/archive_status\/$segment\.ready",.*\n
		fsync\(\d+<\Q$status_directory\E\/$segment\.done>\).*\n
		fsync\(\d+<\Q$status_directory\E>\)/mx, 'its acknowledgement is fsynced in its place');
	my $fsyncs = () = $calls =~ /^fsync\(\d+<\Q$status_directory\E>/mg;
	my $renames = () = $calls =~ /^rename\("pg_wal\/archive_status/mg;
	is("$renames, $fsyncs", '3, 1', 'those of others are deferred');
	unlink "$pg_wal/" . future_name($segment);
}

# --- an announcement whose segment has been recycled, as a crash can leave it since 16; and
# one whose segment is still there

my $archive = PostgreSQL::Test::Utils::tempdir();
$node->append_conf('postgresql.conf', qq{
archive_library = 'pg_calm'
archive_command = ''
pg_calm.archive_directory = '$archive'
pg_calm.archive_workers = 2
wal_keep_size = 64MB
});
$node->restart;
my $first = make_wal(1);
my $last = make_wal(4);
my $offset = -s $node->logfile;
$node->stop;
my $gone = substr($first, 0, 16) . '00000000';
ok(!-e "$pg_wal/$gone", 'a segment is gone');
write_file("$status_directory/$gone.ready", '');
rename("$status_directory/$last.done", "$status_directory/$last.ready") or die "rename: $!";
$node->start;
make_wal(2);
my $log = slurp_file($node->logfile, $offset);
like($log, qr/removed orphan archive status file "pg_wal\/archive_status\/$gone\.ready"/,
	'the server takes its announcement back');
ok(!-e "$archive/$gone", 'nothing is archived under its name');
ok(-e "$status_directory/$last.done" || !-e "$pg_wal/$last",
	'a segment that is announced again is accepted');
is($node->safe_psql('postgres',
		'SELECT failures, existing_files, last_error, queue_files FROM pg_calm_archive'),
	'0|1||0', 'no failure, one file was there already, none waits');

$node->stop;
done_testing();

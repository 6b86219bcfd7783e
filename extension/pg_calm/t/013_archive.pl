
# The archive module: what arrives in the archive, what is refused, and that
# nothing is acknowledged before it is durable.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use CalmTest;
use Fcntl qw(:flock);
use File::Basename;
use File::Compare;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $archive = PostgreSQL::Test::Utils::tempdir();
my $node = calm_node(
	'archive', qq{
shared_preload_libraries = 'pg_calm_archive'
archive_mode = on
archive_library = 'pg_calm_archive'
pg_calm_archive.directory = '$archive'
pg_calm_archive.workers = 3
wal_keep_size = 1GB
max_wal_size = 64MB
}, '--wal-segsize=1');
my $pg_wal = $node->data_dir . '/pg_wal';

$node->start;
$node->safe_psql('postgres', 'CREATE TABLE filler (t text)');
$node->safe_psql('postgres', 'CREATE EXTENSION pg_calm_archive');

# Values of pg_calm_archive
sub archive_value
{
	my ($column) = @_;

	return $node->safe_psql('postgres', "SELECT $column FROM pg_calm_archive");
}

# Make some segments of WAL
sub make_wal
{
	my ($segments) = @_;

	$node->safe_psql('postgres',
		"INSERT INTO filler SELECT repeat(md5(i::text), 30) FROM generate_series(1, $segments * 900) i"
	);
	return $node->safe_psql('postgres', 'SELECT pg_walfile_name(pg_switch_wal())');
}

sub ready_files
{
	my @files = map { basename($_, '.ready') } glob("$pg_wal/archive_status/*.ready");
	return @files;
}

# Whether a row of pg_calm_archive comes to be so: the archiver counts a file, for
# the server and for itself, once it has acknowledged it
sub becomes
{
	my ($condition) = @_;

	return wait_for(sub { archive_value($condition) eq 't' });
}

# Wait until nothing is left to do
sub archived
{
	return wait_for(sub { return !ready_files() });
}

# Announce a file of pg_wal, again or for the first time
sub announce
{
	my ($name) = @_;

	unlink "$pg_wal/archive_status/$name.done";
	write_file("$pg_wal/archive_status/$name.ready", '');
	$node->safe_psql('postgres', 'SELECT pg_switch_wal()');
	make_wal(1);
	return;
}

# Take over what ALTER SYSTEM has set.  New sessions have a setting when the
# postmaster has it, which tells the archiver, who reads it before the next file.
sub reload
{
	my ($name, $value) = @_;

	$node->reload;
	$node->poll_query_until('postgres', "SELECT current_setting('$name') = '$value'") or die 'timed out';
	return;
}

sub set
{
	my ($name, $value) = @_;

	$node->safe_psql('postgres', "ALTER SYSTEM SET $name = '$value'");
	reload($name, $value);
	return;
}

# A list in any context: glob in scalar context would iterate
sub temporary_files
{
	my @files = glob("$archive/.pgcalm-tmp.*");
	return @files;
}

# Process numbers of the archiver and its workers, which have no database
# connection and so are not in pg_stat_activity
sub archiving_pids
{
	my $postmaster = (split /\n/, slurp_file($node->data_dir . '/postmaster.pid'))[0];

	return map { /^\s*(\d+)/ }
	  grep { /archiver|pg_calm archive worker/ } `ps --no-headers -o pid,args --ppid $postmaster`;
}

# --- segments arrive, all of them, whole

my $last = make_wal(40);
ok(archived(), 'a backlog is archived');
my @done = map { basename($_, '.done') } glob("$pg_wal/archive_status/*.done");
cmp_ok(scalar(@done), '>', 30, 'as many files as were made');
is(join(' ', grep { compare("$pg_wal/$_", "$archive/$_") != 0 } @done), '', 'all are identical');
is(join(' ', temporary_files()), '', 'no temporary file is left');
is(archive_value('state'), 'pg_calm', 'the view says that pg_calm archives');
ok(becomes('archived_files = (SELECT archived_count FROM pg_stat_archiver)'),
	'the view counts what the server counts');
ok(becomes('queue_files = 0'), 'the queue is empty');
ok(becomes('workers = 3'), 'the view counts the workers');

# --- what is not a segment

my $segment = (sort @done)[5];
append_to_file("$pg_wal/00000002.history", "1\t0/3000000\tno recovery target specified\n");
append_to_file("$pg_wal/$segment.00000028.backup", '');
system_or_bail('cp', "$pg_wal/$segment", "$pg_wal/$segment.partial");
announce($_) foreach '00000002.history', "$segment.00000028.backup", "$segment.partial";
ok(archived(), 'history, backup and partial files are archived');
is(compare("$pg_wal/$_", "$archive/$_"), 0, "$_ is identical")
  foreach '00000002.history', "$segment.00000028.backup", "$segment.partial";
is(-s "$archive/$segment.00000028.backup", 0, 'a file without content too');

# --- what is there already

my $existing = archive_value('existing_files');
my $before = (stat "$archive/$segment")[9] . ' ' . (stat _)[1];
announce($segment);
ok(archived(), 'an identical file is accepted');
ok(becomes("existing_files = $existing + 1"), 'and counted');
is((stat "$archive/$segment")[9] . ' ' . (stat _)[1], $before, 'it is the same file');

my $other = (sort @done)[6];
open(my $file, '+<', "$archive/$other") or die;
binmode $file;
seek($file, 600_000, 0);
print $file 'something else';
close $file;
my $content = slurp_file("$archive/$other");
my $offset = -s $node->logfile;
announce($other);
ok( wait_for(
		sub { slurp_file($node->logfile, $offset) =~ /WARNING:.*"$other".*different content/ }),
	'a different file is refused');
ok($content eq slurp_file("$archive/$other"), 'and not touched');
ok(-e "$pg_wal/archive_status/$other.ready", 'and not acknowledged');
ok(becomes("last_error ~ 'different content'"), 'the view has the error');
ok(becomes("last_error_file = '$other'"), 'and the file');
ok(becomes('queue_files > 0'), 'later files wait');
ok(becomes("oldest_file = '$other'"), 'the oldest one is shown');
write_file("$archive/$other.short", '');
# a copy that was cut short, as cp leaves it; at no moment is there none
write_file("$archive/cut", 'short');
rename "$archive/cut", "$archive/$other" or die;
ok( wait_for(
		sub { slurp_file($node->logfile, $offset) =~ /"$other".*different content: 5 bytes/ }),
	'a file that was cut short is refused too');
unlink "$archive/$other";
$node->safe_psql('postgres', 'SELECT pg_switch_wal()');
make_wal(1);
ok(archived(), 'once it is gone archiving goes on');
is(compare("$pg_wal/$other", "$archive/$other"), 0, 'and the file is right');
unlink "$archive/$other.short";

# --- a segment of the wrong length can't be restored

my $wrong = '0000000100000000000000F0';
write_file("$pg_wal/$wrong", 'x');
$offset = -s $node->logfile;
announce($wrong);
ok( wait_for(
		sub { slurp_file($node->logfile, $offset) =~ /"pg_wal\/$wrong" has 1 bytes, but a WAL segment/ }
	),
	'a segment of the wrong length is refused');
unlink "$pg_wal/archive_status/$wrong.ready", "$pg_wal/$wrong";
make_wal(1);
ok(archived(), 'archiving goes on without it');

# --- durable before it is acknowledged

SKIP:
{
	my $why = cannot_trace();
	skip $why, 4 if $why;

	my @pids = archiving_pids();
	is(scalar(@pids), 3, 'the archiver and two workers');
	my ($handle, $trace) = trace(shift @pids, '-f', '-y', '-e',
		'trace=fsync,renameat2,rename,unlink,unlinkat', map { ('-p', $_) } @pids);
	make_wal(12);
	ok(archived(), 'archived under strace');
	finish_trace($handle);

	my (%synced, %named, %covered);
	my ($acknowledged, $bad) = (0, '');
	my $order = '';
	my %unfinished;
	foreach my $line (split /\n/, slurp_file($trace))
	{
		# a call counts when it has returned; the directory's fsync covers what
		# had its name when it began.  strace aligns the results of calls that
		# it resumes.
		my ($pid, $call) = $line =~ /^(\d+)\s+(.*)$/ or next;
		my ($begins, $returned) = (1, 1);
		if ($call =~ /^(.*) <unfinished \.\.\.>$/)
		{
			$unfinished{$pid} = $call = $1;
			$returned = 0;
		}
		elsif ($call =~ /^<\.\.\. \w+ resumed>(.*)$/)
		{
			$call = $unfinished{$pid} . $1;
			$begins = 0;
		}
		if ($call =~ /^fsync\(\d+<.*\/\.pgcalm-tmp\.[^.]+\.([0-9A-F]{24})\.[0-9A-F]{16}\.\d+>\)\s+= 0/)
		{
			$synced{$1} = 1;
		}
		elsif ($call =~ /^renameat2\(.*"([0-9A-F]{24})", RENAME_NOREPLACE\)\s+= 0/)
		{
			$bad .= "$1 named before its fsync; " unless $synced{$1};
			$named{$1} = 1;
		}
		elsif ($call =~ /^fsync\(\d+<\Q$archive\E>/)
		{
			$covered{$pid} = {%named} if $begins;
			if ($returned && $call =~ /= 0$/)
			{
				$named{$_} = 2 foreach keys %{ $covered{$pid} };
			}
		}
		elsif ($call =~ /^rename\("pg_wal\/archive_status\/([0-9A-F]{24})\.ready"/ && $begins)
		{
			$acknowledged++;
			$bad .= "$1 acknowledged too early; " unless ($named{$1} // 0) == 2;
			$bad .= "$1 after $order; " if $1 lt $order;
			$order = $1;
		}
	}
	cmp_ok($acknowledged, '>', 10, 'acknowledgements seen');
	is($bad, '', 'content synced, then named, then the directory synced, then acknowledged, in order');
}

# --- an archive that hangs is nobody's trouble but theirs who archive

SKIP:
{
	my $why = cannot_trace();
	skip $why, 2 if $why;

	# and all processes that begin meanwhile; the archiver and its workers have begun
	my ($handle, $trace) = trace((split /\n/, slurp_file($node->data_dir . '/postmaster.pid'))[0],
		'-f', '-e', 'trace=%file');
	set('pg_calm_archive.compression_level', '1');
	finish_trace($handle);
	like(slurp_file($trace), qr/"[^"]*postgresql\.conf"/, 'a reload was seen');
	unlike(slurp_file($trace), qr/\Q$archive\E/, 'which does not touch the archive');
}

# --- compression, and the same file in another compression

foreach my $codec ([ 'lz4', '.lz4', "\x04\x22\x4d\x18" ], [ 'zstd', '.zst', "\x28\xb5\x2f\xfd" ])
{
	my ($name, $suffix, $magic) = @$codec;
	my ($result, undef, $error) =
	  $node->psql('postgres', "ALTER SYSTEM SET pg_calm_archive.compression = '$name'");

  SKIP:
	{
		skip "built without $name", 7 if $error =~ /was built without/;
		reload('pg_calm_archive.compression', $name);
		make_wal(8);
		ok(archived(), "archived with $name");
		my @compressed = map { basename($_, $suffix) } glob("$archive/*$suffix");
		cmp_ok(scalar(@compressed), '>=', 7, "$name: segments have the suffix");
		is(join(' ', grep { -e "$archive/$_" } @compressed), '', "$name: and no other copy");
		my $file = "$archive/$compressed[2]$suffix";
		is(substr(slurp_file($file), 0, 4), $magic, "$name: a standard frame");
		cmp_ok(-s $file, '<', 1024 * 1024, "$name: smaller than a segment");
		$existing = archive_value('existing_files');
		# in whatever form it is there: read by the other code, and compared
		$node->safe_psql('postgres', 'ALTER SYSTEM RESET pg_calm_archive.compression');
		reload('pg_calm_archive.compression', 'none');
		announce($compressed[2]);
		ok(archived() && becomes("existing_files = $existing + 1"),
			"$name: accepted as existing without compression");
		# damaged: one byte in the middle
		my $text = slurp_file($file);
		my $good = $text;
		substr($text, length($text) / 2, 1) =
		  chr(ord(substr($text, length($text) / 2, 1)) ^ 0x55);
		open(my $out, '>:raw', $file) or die;
		print $out $text;
		close $out;
		$offset = -s $node->logfile;
		announce($compressed[2]);
		ok( wait_for(
				sub {
					slurp_file($node->logfile, $offset) =~
					  /"$compressed[2]".*(is damaged|different content)/;
				}),
			"$name: a damaged one is refused");
		open($out, '>:raw', $file) or die;
		print $out $good;
		close $out;
		make_wal(1);
		archived();
	}
}

# --- a copy is another file than the WAL itself

symlink($pg_wal, "$archive/link") or die;
my $unsafe;
foreach my $directory ($pg_wal, "$archive/link")
{
	$offset = -s $node->logfile;
	set('pg_calm_archive.directory', $directory);
	$unsafe = make_wal(1);
	ok( wait_for(
			sub { slurp_file($node->logfile, $offset) =~ /could not archive.*"\Q$directory\E" is pg_wal/ }),
		"$directory is no archive");
	ok(-e "$pg_wal/archive_status/$unsafe.ready", 'nothing is acknowledged then');
}
unlink "$archive/link";
$node->safe_psql('postgres', 'ALTER SYSTEM RESET pg_calm_archive.directory');
reload('pg_calm_archive.directory', $archive);

# a second name of the same file would be overwritten when the segment is recycled
make_wal(1);
ok(archived(), 'archived into another directory');
my $hard = $unsafe;
unlink "$archive/$hard";
link("$pg_wal/$hard", "$archive/$hard") or die;
$offset = -s $node->logfile;
announce($hard);
ok( wait_for(
		sub { slurp_file($node->logfile, $offset) =~ /"\Q$archive\E\/$hard" is the WAL file itself/ }),
	'a hard link to the WAL file is no copy of it');
ok(-e "$pg_wal/archive_status/$hard.ready", 'and not acknowledged');
unlink "$archive/$hard";
make_wal(1);
ok(archived(), 'without it the file is archived');
is(compare("$pg_wal/$hard", "$archive/$hard"), 0, 'and right');

# --- an error of writeback that is told once, to whoever started it

SKIP:
{
	my $why = cannot_trace();
	skip $why, 3 if $why;

	my @pids = archiving_pids();
	my ($handle) = trace(shift @pids, '-f', '-e', 'trace=sync_file_range',
		'-e', 'inject=sync_file_range:error=EIO', map { ('-p', $_) } @pids);
	$offset = -s $node->logfile;
	my $lost = make_wal(1);
	ok( wait_for(
			sub {
				slurp_file($node->logfile, $offset) =~
				  /could not archive.*could not write back file.*Input\/output error/;
			}),
		'a copy whose writeback failed has failed');
	ok(-e "$pg_wal/archive_status/$lost.ready", 'and is not acknowledged');
	finish_trace($handle);
	make_wal(1);
	ok(archived(), 'it is made again');
}

# --- slow copies, several at once: each takes longer than what is known of a file is believed

set('pg_calm_archive.bandwidth', '250kB');
$existing = archive_value('existing_files');
make_wal(8);
ok(archived(), 'archived slowly');
is(archive_value('existing_files'), $existing, 'but each file once');

# --- a reload, after which the limit is that of the settings again from the next file on

my ($archiver) = map { /^\s*(\d+)/ } grep { /archiver/ }
  `ps --no-headers -o pid,args --ppid @{[ (split /\n/, slurp_file($node->data_dir . '/postmaster.pid'))[0] ]}`;
my @workers = grep { $_ != $archiver } archiving_pids();
kill 'STOP', @workers;
set('pg_calm_archive.directory', '');
make_wal(8);
my @waiting = sort(ready_files());
set('pg_calm_archive.bandwidth', '1kB');
$node->safe_psql('postgres', 'ALTER SYSTEM RESET pg_calm_archive.directory');
reload('pg_calm_archive.directory', $archive);
my $under_way;
ok( wait_for(
		sub {
			($under_way) = map { /\.([0-9A-F]{24})\.[0-9A-F]{16}\.$archiver$/ } temporary_files();
			return defined $under_way;
		}),
	'the archiver copies one of several');
$node->reload;
ok(wait_for(sub { return -e "$pg_wal/archive_status/$under_way.done" }), 'a reload ends its wait');
is(join(' ', grep { $_ gt $under_way && -e "$archive/$_" } @waiting), '', 'and that for no other file');

# --- a limit that is lifted

ok( wait_for(
		sub {
			make_wal(1);
			return grep { /\.$archiver$/ } temporary_files();
		}),
	'the archiver is copying');
set('pg_calm_archive.bandwidth', '0');
ok(archived(), 'without the limit it goes on at once');
kill 'CONT', @workers;

# --- a worker that hangs in a copy

set('pg_calm_archive.bandwidth', '512kB');
my @hung;
# each but the archiver in the middle of a copy: the last part of a temporary name is whose it is
ok( wait_for(
		sub {
			make_wal(1);
			@hung = grep { $_ != $archiver } map { /\.(\d+)$/ } temporary_files();
			return @hung > 0;
		}),
	'a worker is copying');
kill 'STOP', @hung;
set('pg_calm_archive.bandwidth', '0');
make_wal(3);
ok(archived(), 'a worker that is stopped in a copy does not stop the archive');
kill 'CONT', @hung;
ok(wait_for(sub { return !temporary_files() }), 'it gives its copy up when it goes on');
@done = map { basename($_, '.done') } glob("$pg_wal/archive_status/*.done");
is( join(' ', grep { -e "$archive/$_" && -e "$pg_wal/$_" && compare("$pg_wal/$_", "$archive/$_") != 0 } @done),
	'',
	'and all files are right');

# --- a crash in the middle of copies; leftovers

set('restart_after_crash', 'off');
# the last reload: each lets go of who waits for the limit
set('pg_calm_archive.bandwidth', '16kB');
# a file that the archiver had begun before is not slowed
ok(wait_for(sub { make_wal(1); return temporary_files() > 0 }), 'copies under way');
# the archiver and its workers first: they would notice and clean up
my $postmaster = (split /\n/, slurp_file($node->data_dir . '/postmaster.pid'))[0];
kill 'KILL', archiving_pids();
ok(wait_for(sub { return !kill 0, $postmaster }), 'the server has crashed');
$node->_update_pid(0);
my @leftovers = temporary_files();
cmp_ok(scalar(@leftovers), '>', 0, 'it leaves temporary files');
my ($mine) = $leftovers[0] =~ m{/(\.pgcalm-tmp\.[^.]+\.)};
my $locked = "$archive/${mine}0000000100000000000000EE.1";
my $foreign = "$archive/.pgcalm-tmp.0123456789ABCDEF-01234567.0000000100000000000000EE.1";
write_file($_, 'x') foreach $locked, $foreign;
open(my $lock, '<', $locked) or die;
flock($lock, LOCK_EX) or die;
$node->append_conf('postgresql.conf', q{
pg_calm_archive.bandwidth = 0
archive_library = '$libdir/pg_calm_archive'
});
$node->adjust_conf('postgresql.auto.conf', 'pg_calm_archive.bandwidth', undef);
$offset = -s $node->logfile;
$node->start;
make_wal(2);
ok(archived(), 'archived after the crash');
is(archive_value('state'), 'pg_calm', 'by a library that is named with its path');
ok(becomes('workers = 3'), 'and has its workers');
is(join(' ', grep { -e } @leftovers), '', 'leftovers were removed');
ok(-e $locked, 'but not one that a process has under its lock');
ok(-e $foreign, 'nor that of another server');
like(slurp_file($node->logfile, $offset), qr/removed leftover/, 'the log says so');
close $lock;
unlink $locked, $foreign;

# --- another host's file under what would be our name without chance, such as an equal container's

my $failures = archive_value('failures');
my ($log, $current) = $node->safe_psql('postgres', 'SELECT pg_walfile_name(pg_current_wal_lsn())') =~ /^(.{16})(.{8})$/;
my @locks;
foreach my $pid (archiving_pids())
{
	foreach my $number (0 .. 3)
	{
		my $path = sprintf("$archive/$mine$log%08X.$pid", hex($current) + $number);

		write_file($path, 'x');
		open(my $held, '<', $path) or die;
		flock($held, LOCK_EX) or die;
		push @locks, [ $held, $path ];
	}
}
make_wal(1);
ok(archived(), 'archived beside it');
is(archive_value('failures'), $failures, 'without a failure');
is(scalar(grep { -e $_->[1] } @locks), 12, 'nobody touches it');
unlink map { $_->[1] } splice @locks;

# --- a directory that is not there, and one set later

set('pg_calm_archive.directory', "$archive/missing");
$offset = -s $node->logfile;
make_wal(2);
ok( wait_for(
		sub {
			slurp_file($node->logfile, $offset) =~
			  /could not open archive directory ".*missing": No such file/;
		}),
	'a missing directory is reported');
make_wal(20);
ok(becomes('queue_bytes > 5 * 1024 * 1024 AND free_bytes > 0'), 'the view has the queue');
mkdir "$archive/missing";
make_wal(1);
ok(archived(), 'once it is there archiving goes on');
cmp_ok(scalar(my @new = glob("$archive/missing/0*")), '>', 10, 'into it');
ok(becomes('directory_syncs < archived_files'), 'with a backlog an fsync of the directory serves several files');

# --- what was copied ahead, and then the disk is replaced under the same path

foreach my $pause (1, 0)
{
	my $disk = "$archive/disk$pause";

	set('pg_calm_archive.directory', '');
	make_wal(12);
	my @files = (sort(ready_files()))[0 .. 9];
	mkdir $disk or die;
	write_file("$disk/$files[1]", 'another');
	set('pg_calm_archive.directory', $disk);
	# what comes after it is durable with the first file
	ok(wait_for(sub { 4 == grep { -e "$disk/$_" && -e "$pg_wal/archive_status/$files[0].done" } @files[2 .. 5] }),
		'files after one that is refused are copied');
	if ($pause)
	{
		set('pg_calm_archive.directory', '');
	}
	else
	{
		sleep 11; # beyond KNOWN_MS
	}
	rename($disk, "$disk.old") && mkdir($disk) or die;
	set('pg_calm_archive.directory', $disk);
	make_wal(1);
	ok(archived(), 'archived onto the new disk');
	is(join(' ', grep { !-e "$disk/$_" } @files[1 .. 9]), '', 'all of them, whatever the old one had');
}

# --- a shutdown waits for the archiver, which works without its workers, and without a limit

$node->safe_psql('postgres', 'ALTER SYSTEM RESET pg_calm_archive.directory');
reload('pg_calm_archive.directory', $archive);
# hours' worth
set('pg_calm_archive.bandwidth', '1kB');
make_wal(20);
ok($node->stop('fast', fail_ok => 1), 'the server stops');
is(join(' ', ready_files()), '', 'everything is archived when the server has stopped');
@done = map { basename($_, '.done') } glob("$pg_wal/archive_status/*.done");
is( join(' ',
		grep { -e "$archive/$_" && -e "$pg_wal/$_" && compare("$pg_wal/$_", "$archive/$_") != 0 } @done),
	'',
	'and identical');
is(join(' ', temporary_files()), '', 'no temporary file is left at the end');

done_testing();

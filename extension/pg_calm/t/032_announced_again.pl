
# An announcement that outlives its WAL segment, and one of a segment that has been
# archived already: what archiving makes of them.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use CalmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = calm_node(
	'announced_again', q{
shared_preload_libraries = 'pg_calm_archive'
archive_mode = on
archive_command = 'true'
min_wal_size = 2MB
max_wal_size = 1GB
}, '--wal-segsize=1');
my $pg_wal = $node->data_dir . '/pg_wal';
my $status_directory = "$pg_wal/archive_status";

$node->start;
$node->safe_psql('postgres', 'CREATE TABLE filler (t text)');
$node->safe_psql('postgres', 'CREATE EXTENSION pg_calm_archive');

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

# --- an announcement whose segment has been recycled, as a crash can leave it since 16; and
# one whose segment is still there

my $archive = PostgreSQL::Test::Utils::tempdir();
$node->append_conf('postgresql.conf', qq{
archive_library = 'pg_calm_archive'
archive_command = ''
pg_calm_archive.directory = '$archive'
pg_calm_archive.workers = 2
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

# --- not loaded with the server

$node->append_conf('postgresql.conf', "shared_preload_libraries = ''");
$offset = -s $node->logfile;
$node->restart;
ok( wait_for(
		sub {
			slurp_file($node->logfile, $offset) =~ /"pg_calm_archive" is not in "shared_preload_libraries"/;
		}),
	'the archiver says what is missing') if $node->safe_psql('postgres', 'SELECT pg_switch_wal()');
my (undef, undef, $err) = $node->psql('postgres', 'SELECT * FROM pg_calm_archive');
like($err, qr/pg_calm_archive must be loaded via "shared_preload_libraries"/, 'so does the view');

$node->stop('immediate');
done_testing();

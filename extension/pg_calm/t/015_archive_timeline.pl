
# A server restored from the archive ends on a new timeline, and archives that
# into the same directory: history and what follows.  A standby that archives too finds what is there already.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use CalmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $archive = PostgreSQL::Test::Utils::tempdir();
my $primary = calm_node(
	'primary', qq{
shared_preload_libraries = 'pg_calm_archive'
archive_mode = on
archive_library = 'pg_calm_archive'
pg_calm_archive.directory = '$archive'
max_wal_senders = 5
wal_level = replica
hot_standby = on
}, '--wal-segsize=16', '--allow-group-access');
append_to_file($primary->data_dir . '/pg_hba.conf', "local replication all trust\n");

sub archived
{
	my ($node) = @_;

	return wait_for(
		sub {
			my @ready = glob($node->data_dir . '/pg_wal/archive_status/*.ready');
			return !@ready;
		},
		60);
}

$primary->start;
$primary->safe_psql('postgres', 'CREATE EXTENSION pg_calm_archive; CREATE TABLE t AS SELECT 1 AS n');
$primary->backup('base');
$primary->safe_psql('postgres', 'INSERT INTO t VALUES (2)');
$primary->safe_psql('postgres', 'SELECT pg_switch_wal()');
ok(archived($primary), 'the primary archives');
my @backup = glob("$archive/*.backup");
is(scalar(@backup), 1, 'the backup history file too');
my ($segment) = grep { /[0-9A-F]{24}$/ } glob("$archive/*");
is((stat $segment)[2] & 07777, 0640, 'with the permissions of the data directory');
is((stat _)[7], 16 * 1024 * 1024, 'of a segment\'s length');

# --- a standby with archive_mode = always, into the same directory

my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf', 'archive_mode = always');
$standby->start;
$primary->safe_psql('postgres', "INSERT INTO t VALUES ($_); SELECT pg_switch_wal()") foreach 3 .. 6;
$primary->wait_for_catchup($standby, 'replay');
$primary->safe_psql('postgres', 'SELECT pg_switch_wal()');
ok(archived($primary), 'the primary has archived');
ok(archived($standby), 'so has the standby');
cmp_ok(
	$standby->safe_psql('postgres', 'SELECT archived_files FROM pg_calm_archive')
	  + $primary->safe_psql('postgres', 'SELECT archived_files FROM pg_calm_archive'),
	'>', scalar(my @files = glob("$archive/[0-9]*")), 'both the same files');
is($_->safe_psql('postgres', 'SELECT failures FROM pg_calm_archive'), '0', $_->name . ' was refused nothing')
  foreach $primary, $standby;

# --- the standby is promoted

$primary->stop;
$standby->promote;
$standby->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()');
$standby->safe_psql('postgres', 'INSERT INTO t VALUES (7)');
$standby->safe_psql('postgres', 'SELECT pg_switch_wal()');
ok(archived($standby), 'archived on the new timeline');
ok(-f "$archive/00000002.history", 'its history');
cmp_ok(scalar(my @new = glob("$archive/00000002????????????????")), '>', 0, 'and segments of the new one');
$standby->stop;

# --- restore from what is in the archive

my $restored = PostgreSQL::Test::Cluster->new('restored');
$restored->init_from_backup($primary, 'base');
$restored->append_conf(
	'postgresql.conf', qq{
restore_command = 'cp $archive/%f %p'
recovery_target_timeline = latest
});
$restored->set_recovery_mode;
$restored->start;
$restored->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()');
is($restored->safe_psql('postgres', 'SELECT string_agg(n::text, $$ $$ ORDER BY n) FROM t'),
	'1 2 3 4 5 6 7', 'everything can be restored, over the change of timeline');
$restored->safe_psql('postgres', 'INSERT INTO t VALUES (8); SELECT pg_switch_wal()');
ok(archived($restored), 'the restored server archives its own timeline');
ok(-f "$archive/00000003.history", 'with its history');
is($restored->safe_psql('postgres', 'SELECT failures FROM pg_calm_archive'), '0', 'it was refused nothing');
$restored->stop;

done_testing();

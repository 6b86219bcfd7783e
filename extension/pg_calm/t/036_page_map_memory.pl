
# The page map is given memory for the files that the data directory has when the
# server starts; pg_calm.page_map_memory says how much, and may say -1 in the file.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use File::Basename;

use CalmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = calm_node('page_map_memory', '');
my $place = PostgreSQL::Test::Utils::tempdir();

sub memory
{
	return $node->safe_psql('postgres',
		q{SELECT setting::int / 1024 FROM pg_settings WHERE name = 'pg_calm.page_map_memory'});
}

# Names of so many further segments of a relation, which need not have anything in them
sub add_segments
{
	my ($directory, $count) = @_;

	append_to_file("$directory/900000.$_", '') foreach 1 .. $count;
	return;
}

$node->start;
is(memory(), 48, 'few files: the least');
my $database = $node->safe_psql('postgres', 'SELECT oid FROM pg_database WHERE datname = current_database()');
$node->safe_psql('postgres', "CREATE TABLESPACE elsewhere LOCATION '$place'");
$node->safe_psql('postgres', 'CREATE TABLE there (i int) TABLESPACE elsewhere');
my $there = $node->data_dir . '/' . dirname($node->safe_psql('postgres', q{SELECT pg_relation_filepath('there')}));
$node->stop;

add_segments($node->data_dir . "/base/$database", 1000);
$node->start;
is(memory(), 76, 'a thousand segments of 1 GB: room for pages in every 8 MB of them');
$node->stop;

add_segments($there, 1000);
$node->append_conf('postgresql.conf', "pg_calm.page_map_memory = -1\n");
$node->start;
is(memory(), 152, 'those of other tablespaces count; -1 in the file means the same');
$node->append_conf('postgresql.conf', "work_mem = '5MB'\n");
$node->reload;
ok(wait_for(sub { $node->safe_psql('postgres', 'SHOW work_mem') eq '5MB' }), 'a reload goes through');
unlike(slurp_file($node->logfile), qr/page_map_memory/, 'and does not take -1 for another value');
is(memory(), 152, 'nor changes it');

$node->append_conf('postgresql.conf', "pg_calm.page_map_memory = '20MB'\n");
$node->restart;
is(memory(), 20, 'what is set is what is taken');
$node->stop;

done_testing();

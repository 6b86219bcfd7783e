
# The map of unflushed pages has one size, whatever the data directory has: shared memory
# that depends on that may not be had at the next start (huge_pages, failover).

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use CalmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = calm_node('page_map_memory', '');

sub memory
{
	return $node->safe_psql('postgres',
		q{SELECT setting::int / 1024 FROM pg_settings WHERE name = 'pg_calm.page_map_memory'});
}

# What a start asks the kernel for
sub shared_memory
{
	return $node->safe_psql('postgres', q{SHOW shared_memory_size});
}

$node->start;
is(memory(), 48, 'the default');
my $size = shared_memory();
my $database = $node->safe_psql('postgres', 'SELECT oid FROM pg_database WHERE datname = current_database()');
$node->stop;

append_to_file($node->data_dir . "/base/$database/900000.$_", '') foreach 1 .. 1000;
$node->start;
is(memory(), 48, 'a thousand segments of 1 GB change nothing');
is(shared_memory(), $size, 'nor what shared memory there has to be');

$node->append_conf('postgresql.conf', "pg_calm.page_map_memory = '20MB'\n");
$node->restart;
is(memory(), 20, 'what is set is what is taken');
$node->stop;

done_testing();

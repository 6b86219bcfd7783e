
# When the kernel's flusher has written what waited for the worker, the worker hurries: what it
# flushes now the flusher does not find, page by page.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use CalmTest;
use IO::Handle;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $node = draining_node('visit');
$node->append_conf(
	'postgresql.conf', q{
pg_calm.write_iops = 0
pg_calm.write_bandwidth = 0
pg_calm.iops = 3000
pg_calm.bandwidth = '125MB'
pg_calm.clean_buffers = 0
log_min_messages = debug1
});
$node->start;
scattered_table($node);

sub set_age
{
	my ($age) = @_;

	$node->safe_psql('postgres', "ALTER SYSTEM SET pg_calm.flush_age = '$age'");
	$node->reload;
	return;
}

# Pages wait, in the page cache, until they are old
sub dirty
{
	set_age('1h');
	$node->safe_psql('postgres', 'UPDATE t SET n = n + 1');
	return wait_for(sub { status_of($node)->{unflushed_pages} > 1000 });
}

# That they are old at once; whether the worker gets rid of them
sub age
{
	set_age('1ms');
	return wait_for(sub { status_of($node)->{unflushed_pages} == 0 });
}

sub hurries
{
	return scalar(() = slurp_file($node->logfile) =~ /kernel's flusher is at work/g);
}

ok(dirty(), 'pages wait');
ok(age(), 'and are flushed') or die;
# more than a look
usleep(1_000_000);
# on a busy host the kernel may have
my $before = hurries();
ok($before == 0 || status_of($node)->{kernel_flushed_pages} > 0, 'nobody else has written them');

ok(dirty(), 'pages wait');
my $path = $node->data_dir . '/' . $node->safe_psql('postgres', q{SELECT pg_relation_filepath('t')});
open my $file, '+<', $path or die "could not open $path: $!";
$file->sync or die "could not sync $path: $!";
close $file;
ok(age(), 'they are written by somebody else, and forgotten') or die;
ok(wait_for(sub { hurries() > $before }, 10), 'the worker hurries from its next look on');
cmp_ok(status_of($node)->{kernel_flushed_pages}, '>', 1000, 'and counts them');

$node->stop;
done_testing();

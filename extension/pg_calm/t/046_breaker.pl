
# Where what the module does makes things worse it lets go: of bridging, where that has far more
# written than was asked for; of all, where commits take much longer while it writes.  It
# comes back when that is over.  What is wrong is planted by test/harmful_flush.c: what the device
# says that it has written, and flushes of WAL that take longer.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use CalmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

plan skip_all => 'PG_CALM_HARMFUL_FLUSH is not set: see test/run_tests.sh'
  unless $ENV{PG_CALM_HARMFUL_FLUSH};

# A host with much memory, whose disk is the device of the data directory, by its numbers
my $root = fake_host();
my $control = "$root/control";
write_file($control, "\0" x 16);
write_file("$control.diskstats", '');
symlink("$control.diskstats", "$root/proc/diskstats") or die "could not link: $!";
write_file("$root/sys/block/disk/size", "1\n");
write_file("$root/proc/vmstat",
	"nr_dirty 0\nnr_writeback 0\nnr_dirty_threshold 8000000\nnr_dirty_background_threshold 4000000\n");

# Pages are evicted and flushed all the time, here and there
my $node = calm_node('breaker', qq{
shared_buffers = 1MB
max_wal_size = 10GB
wal_sync_method = fdatasync
pg_calm.write_iops = 1000
pg_calm.write_bandwidth = '200MB'
pg_calm.io_size = '1MB'
pg_calm.flush_age = '100ms'
log_min_messages = debug1
});
my $cannot = cannot_bridge($node);
plan skip_all => $cannot if $cannot;

my $device = (stat $node->data_dir)[0];
my @numbers = (($device >> 8) & 0xfff, ($device & 0xff) | (($device >> 12) & 0xfff00));

sub plant
{
	my ($fault) = @_;

	open(my $file, '+<', $control) or die "could not open $control: $!";
	syswrite($file, $fault);
	close $file;
	return;
}

{
	local $ENV{LD_PRELOAD} = $ENV{PG_CALM_HARMFUL_FLUSH};
	local $ENV{HARMFUL_FLUSH} = $control;
	local $ENV{HARMFUL_DEVICE} = "@numbers disk";
	$node->start;
}
scattered_table($node);
# for as long as the test takes, on a busy machine
my @loads = start_load($node, 't', 40000, 400, 1200);
# and one that does not get slower with flushes of WAL, so that there is something to write at any time
$node->safe_psql(
	'postgres', q{
CREATE UNLOGGED TABLE u (id int PRIMARY KEY, n int, filler text) WITH (fillfactor = 50);
INSERT INTO u SELECT i, 0, repeat('x', 500) FROM generate_series(1, 40000) i});
{
	local $ENV{PGOPTIONS} = '-c synchronous_commit=off';
	push @loads, start_load($node, 'u', 40000, 400, 1200);
}

sub degraded { return status_of($node)->{degraded} // ''; }

# Whether a counter grows; it is watched for a moment
sub grows
{
	my ($counter) = @_;
	my $before = status_of($node)->{$counter};

	return wait_for(sub { status_of($node)->{$counter} > $before }, 3);
}

# Whether nothing is done in some seconds through which the status says the same.  A trial of
# whether the harm is over may come between, so there is more than one look.
sub rests
{
	my ($reason, $is_idle) = @_;

	return wait_for(
		sub {
			my $before = degraded();
			my $idle = $is_idle->();
			return $idle && $before =~ $reason && degraded() eq $before;
		},
		60);
}

# Dirty some pages, and have a checkpoint write them, with hints
sub checkpoint
{
	$node->safe_psql('postgres', 'UPDATE t SET n = n + 1 WHERE id % 50 = 0; CHECKPOINT');
	return;
}

ok(wait_for(sub { status_of($node)->{bridged_pages} > 100 }), 'gaps are bridged');
usleep(5_000_000);
is(degraded(), '', 'and nobody minds');

# --- a signal

plant('i');
ok(grows('flushed_pages'), 'what a signal has ended is begun again');
plant('-');

# --- amplification

plant('a');
ok(wait_for(sub { degraded() =~ /gaps are not bridged/ }), 'much more is written: bridging is let go');
note degraded();
ok( rests(
		qr/gaps are not bridged/,
		sub {
			my $before = status_of($node)->{bridged_pages};
			usleep(3_000_000);
			return status_of($node)->{bridged_pages} == $before;
		}),
	'and no page is bridged');
ok(grows('flushed_pages'), 'pages are flushed all the same');
ok(grows('cleaned_buffers'), 'and dirty buffers with them');
plant('-');
ok(wait_for(sub { degraded() eq '' }), 'and comes back when that is over');
ok(grows('bridged_pages'), 'gaps are bridged again');

# --- slow commits

plant('d');
ok(wait_for(sub { degraded() =~ /nothing is flushed/ }), 'commits take long: all is let go');
note degraded();
my $before = status_of($node);
checkpoint();
my $after = status_of($node);
is($after->{suppressed_hints}, $before->{suppressed_hints}, 'hints of the server are obeyed');
is($after->{cleaned_buffers}, $before->{cleaned_buffers}, 'and no buffer is cleaned');
like(degraded(), qr/nothing is flushed/, 'for as long as it lasts');
SKIP:
{
	my $why = cannot_trace();
	skip $why, 1 if $why;
	ok( rests(
			qr/nothing is flushed/,
			sub {
				my ($handle, $trace) = trace(status_of($node)->{worker_pid}, '-e', 'trace=sync_file_range');
				usleep(2_000_000);
				finish_trace($handle);
				return slurp_file($trace) !~ /sync_file_range\(/;
			}),
		'nor does the worker flush anything');
}
plant('-');
ok(wait_for(sub { degraded() eq '' }), 'it comes back when that is over');
$before = status_of($node)->{suppressed_hints};
# once what was left meanwhile is flushed
ok(wait_for(sub { checkpoint(); status_of($node)->{suppressed_hints} > $before }), 'and hints are dropped');
ok(grows('flushed_pages'), 'for pages are flushed');

# --- it says so once

my $log = slurp_file($node->logfile);
is(() = $log =~ /LOG:  pg_calm: circuit breaker: nothing is flushed/g,
	1, 'the log has each change once');

$_->kill_kill foreach @loads;
$node->stop;

# --- it keeps no file while it has let go

# A region of hundreds of runs, of which the volume takes a few each second, is what the worker
# is at then, and would be for minutes, when it tries again.  Commits write no file that is tracked.
$node = calm_node('kept_file', q{
shared_buffers = 1MB
max_wal_size = 10GB
wal_sync_method = fdatasync
pg_calm.iops = 20
pg_calm.bridge = off
pg_calm.clean_buffers = 0
pg_calm.flush_age = '1h'
pg_calm.unflushed_limit = '10GB'
});
{
	local $ENV{LD_PRELOAD} = $ENV{PG_CALM_HARMFUL_FLUSH};
	local $ENV{HARMFUL_FLUSH} = $control;
	local $ENV{HARMFUL_DEVICE} = "@numbers disk";
	$node->start;
}
$node->safe_psql(
	'postgres', q{
CREATE EXTENSION pg_calm;
CREATE DATABASE gone;
CREATE TABLE t (id int PRIMARY KEY, n int) WITH (fillfactor = 50);
INSERT INTO t SELECT i, 0 FROM generate_series(1, 1000) i});
paged_tables($node, 'gone', 1, 3000);
mark_pages($node, 'gone', 1, 'mod(id, 2) = 0');
ok(wait_for(sub { status_of($node)->{unflushed_pages} > 1000 }), 'pages of a database wait');
@loads = start_load($node, 't', 1000, 200, 1200);
plant('d');
$node->safe_psql('postgres', q{ALTER SYSTEM SET pg_calm.flush_age = '1ms'});
$node->reload;
ok(wait_for(sub { degraded() =~ /nothing is flushed/ }), 'all is let go while a region is flushed');
# to flush them all takes a minute and more
ok(wait_for(sub { status_of($node)->{in_flight_pages} == 0 }, 20), 'nothing is in flight then');
like(degraded(), qr/nothing is flushed/, 'nor is it over');
$node->safe_psql('postgres', 'DROP DATABASE gone');
my $worker = status_of($node)->{worker_pid};
ok( wait_for(
		sub {
			!grep { (readlink($_) // '') =~ / \(deleted\)$/ } glob("/proc/$worker/fd/*");
		}),
	'and no file is open that is deleted');

$_->kill_kill foreach @loads;
plant('-');
$node->stop;
done_testing();

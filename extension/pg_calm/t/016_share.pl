
# Instances that share a device share its budget: by weight, only among those
# that have something to flush, without those that died; and whatever the file
# of shares holds, the server goes on.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use CalmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $directory = PostgreSQL::Test::Utils::tempdir();
chmod 0700, $directory;
my $record_size = 80;

# A budget of 1000 operations for all together; each has a cap of its own that
# is so high that it never counts.
sub member
{
	my ($name, $conf) = @_;
	my $node = calm_node($name, qq{
cluster_name = '$name'
shared_buffers = 8MB
pg_calm.write_iops = 5000
pg_calm.write_bandwidth = '1GB'
shared_preload_libraries = 'pg_calm_share, pg_calm'
pg_calm_share.caps = '1000, 100MB'
pg_calm_share.directory = '$directory'
pg_calm.flush_age = '1h'
pg_calm.unflushed_limit = '10GB'
} . ($conf // ''));

	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION pg_calm; CREATE EXTENSION pg_calm_share');
	return $node;
}

# A column of the view for each member, by name
sub members
{
	my ($node, $column) = @_;

	return $node->safe_psql('postgres',
		"SELECT coalesce(string_agg(name || '=' || $column, ' ' ORDER BY name), 'none') FROM pg_calm_share");
}

sub has_members
{
	my ($node, $column, $expected, $name) = @_;

	wait_for(sub { members($node, $column) eq $expected }, 30);
	is(members($node, $column), $expected, $name);
	return;
}

sub log_has
{
	my ($node, $pattern, $name) = @_;

	ok(wait_for(sub { slurp_file($node->logfile) =~ $pattern }, 20), $name);
	return;
}

# The only file in the directory
sub segment
{
	my ($file) = glob("$directory/pg_calm.*-*");

	return $file;
}

# --- they find each other, and each has a slot of its own

my $one = member('one', 'pg_calm_share.weight = 100');

has_members($one, 'own', 'one=true', 'a single instance is a member');
like(segment(), qr{/pg_calm\.\d+-\d+$}, 'the file is named by the device');
is((stat(segment()))[2] & 07777, 0600, 'and belongs to its user alone');

my $two = member('two', 'pg_calm_share.weight = 300');
has_members($two, 'own', 'one=false two=true', 'another joins');
has_members($one, 'own', 'one=true two=false', 'and is seen');
has_members($one, 'weight', 'one=100 two=300', 'with its weight');
isnt($one->safe_psql('postgres', "SELECT slot FROM pg_calm_share WHERE own"),
	$two->safe_psql('postgres', "SELECT slot FROM pg_calm_share WHERE own"), 'in a slot of its own');
is( $one->safe_psql('postgres', 'SELECT checkpoint_phase FROM pg_calm_share ORDER BY slot'),
	"0\n0.5", 'checkpoint phases are half an interval apart');

# --- the budget is for those who have something to flush

has_members($one, 'write_iops', 'one=1000 two=1000', 'whoever begins to flush has all of it');

# Have so much to flush, with a budget that is so small in its own view, that it
# takes long
sub want
{
	my ($node) = @_;

	$node->append_conf('postgresql.conf', q{
pg_calm_share.caps = '10, 100MB'
pg_calm.flush_age = '1ms'
pg_calm.bridge = off
});
	$node->reload;
	$node->safe_psql('postgres', q{
CREATE TABLE IF NOT EXISTS t AS SELECT i AS id, repeat('x', 1000) AS filler FROM generate_series(1, 20000) i;
UPDATE t SET filler = repeat('y', 1000) WHERE id % 20 = 0;
CHECKPOINT;
UPDATE t SET filler = repeat('z', 1000) WHERE id % 20 = 0});
	return;
}

want($two);
has_members($one, 'wants', 'one=false two=true', 'what one has to flush is seen by the other');
has_members($one, 'write_iops', 'one=250 two=1000', 'and shares are by weight: 100 to 300');
$two->append_conf('postgresql.conf', 'pg_calm.write_iops = 100');
$two->reload;
has_members($one, 'write_iops', 'one=900 two=100', 'what one may not use because of its own cap is the other\'s');
my $flushed = status_of($two)->{flushed_pages};
ok(wait_for(sub { status_of($two)->{flushed_pages} > $flushed }, 20), 'the slow one goes on flushing');

# --- kill -9

ok(kill_node($two), 'one is killed');
has_members($one, 'own', 'one=true', 'its slot is given up');
has_members($one, 'write_iops', 'one=1000', 'and its share');
$two->start;
has_members($one, 'own', 'one=true two=false', 'it comes back after a restart');
$two->stop;
has_members($one, 'own', 'one=true', 'an instance that is shut down leaves');

# --- whatever the file holds

my $file = segment();

sub overwrite
{
	my ($bytes) = @_;

	open(my $handle, '+<', $file) or die "could not open $file: $!";
	binmode $handle;
	truncate $handle, 0;
	print $handle $bytes;
	close $handle;
	looked();
	return;
}

# Wait until what the file holds now is in the view: the instance in the first slot has written
# it, read all and published that, since it has begun anew
sub looked
{
	my %heartbeats;

	wait_for(
		sub {
			my $record = substr(slurp_file($file), 0, $record_size);

			return 0 if length $record < $record_size;
			my ($magic, $heartbeat) = unpack 'L x4 Q', $record;
			$heartbeats{$heartbeat} = 1 if $magic == 0x43414C32;
			# the first may be one from before
			return keys %heartbeats > 3;
		},
		20) or die 'timed out';
	return;
}

truncate $file, 0;
looked();
has_members($one, 'own', 'one=true', 'a truncated file heals');
truncate $file, 77;
looked();
has_members($one, 'own', 'one=true', 'also one that ends within a slot');
overwrite(join '', map { chr(int(rand(256))) } 1 .. 512 * $record_size);
has_members($one, 'own', 'one=true', 'garbage is nobody');

# Records that lie.  What is out of its range makes nobody a member; what isn't can take the
# share, down to a floor.  A copy of a record with other fields, as in ShareRecord:
sub forged
{
	my ($record, %fields) = @_;
	my %place = (
		magic => [ 0, 'L' ],
		weight => [ 4, 'L' ],
		heartbeat_ms => [ 8, 'Q' ],
		bytes_per_second => [ 16, 'Q' ],
		operations_per_second => [ 24, 'L' ],
		wants => [ 32, 'L' ],
		name => [ 36, 'a44' ]);

	substr($record, $place{$_}[0], length pack($place{$_}[1], $fields{$_})) =
	  pack($place{$_}[1], $fields{$_})
	  foreach keys %fields;
	return $record;
}

my $good = substr(slurp_file($file), 0, $record_size);
is(forged($good, name => 'one', weight => 100), $good, 'the test knows the format');
my @impossible = (
	forged($good, weight => 0),
	forged($good, weight => 0xFFFFFFFF),
	forged($good, wants => 7),
	forged($good, heartbeat_ms => ~0),
	forged($good, heartbeat_ms => 0),
	forged($good, magic => 1));
overwrite(join '', $good, @impossible);
has_members($one, 'own', 'one=true', 'records with impossible values are nobody');

# Whether the view comes to be so beside members that are forged: they are written again until a
# look at it has seen them
sub becomes_beside
{
	my ($condition, @others) = @_;

	return wait_for(
		sub {
			my $now = substr(slurp_file($file), 0, $record_size);

			overwrite($now . join '', map { forged($now, %$_) } @others);
			return $one->safe_psql('postgres', "SELECT coalesce($condition, false) FROM pg_calm_share") eq 't';
		},
		20);
}

# The sum of shares, and what is done with the rest
my %other = (weight => 100, wants => 1, operations_per_second => 0, bytes_per_second => 0, name => 'other');
$one->append_conf('postgresql.conf', "pg_calm_share.caps = '40, 3MB'");
$one->reload;
ok( becomes_beside('count(*) = 6 AND sum(write_iops) FILTER (WHERE NOT own) = 40', ({%other}) x 5),
	'many share no more than there is');
ok( becomes_beside('count(*) = 6 AND min(write_bandwidth) = 512 * 1024', ({%other}) x 5), 'nor more bytes');
$one->append_conf('postgresql.conf', "pg_calm_share.caps = '600, 60MB'");
$one->reload;
# of the bytes, too, the one without a cap has what the other leaves of the whole
ok( becomes_beside(
		q{string_agg(write_bandwidth / 1024 / 1024 || '', ' ' ORDER BY slot) FILTER (WHERE NOT own) = '50 10'},
		{%other}, {%other, operations_per_second => 100}),
	'what one may not use of the bytes because of its operations is the other\'s');

# a container sees its own group as the mount's root: that is its own limit, and nobody else's
my $number = (stat($one->data_dir . '/base'))[0];
my $device = join ':', ($number >> 8) & 0xfff, ($number & 0xff) | (($number >> 12) & 0xfff00);
my %limits = ('/' => 500, '/docker/1' => 700);
my $root = $ENV{PG_CALM_HOST_ROOT};
$one->append_conf('postgresql.conf', "pg_calm_share.caps = ''\npg_calm.write_iops = 0\npg_calm.write_bandwidth = 0");
foreach my $group (sort keys %limits)
{
	write_file("$root/proc/self/cgroup", "0::$group\n");
	write_file("$root/proc/self/mountinfo", "30 23 0:26 $group /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
	write_file("$root/sys/fs/cgroup/io.max", "$device rbps=max wbps=max riops=max wiops=$limits{$group}\n");
	$one->reload;
	ok(becomes_beside("count(*) = 2 AND min(write_iops) FILTER (WHERE own) = $limits{$group}", \%other),
		"no limit of the others is taken for one's own: $group");
}
unlink glob("$root/proc/self/*"), "$root/sys/fs/cgroup/io.max";
$one->append_conf('postgresql.conf', q{
pg_calm_share.caps = '1000, 100MB'
pg_calm.write_iops = 5000
pg_calm.write_bandwidth = '1GB'
});
$one->reload;

# Liars can take the share, down to a least one
my %lie = (
	weight => 1000,
	wants => 1,
	operations_per_second => 0xFFFFFFFF,
	bytes_per_second => 0,
	name => "evil\n\0\xff" . 'x' x 40);

ok(becomes_beside('min(write_iops) FILTER (WHERE own) = 10', ({%lie}) x 50), '50 liars leave us the least share');
ok(becomes_beside('min(write_iops) FILTER (WHERE own) = 1', ({%lie}) x 511), '511 liars an equal part');
unlike($one->safe_psql('postgres', 'SELECT name FROM pg_calm_share'), qr/[^\x20-\x7e\n]/, 'their names are harmless');
has_members($one, 'own', 'one=true', 'and they are forgotten when they fall silent');

overwrite('x' x (513 * $record_size));
$one->reload;
log_has($one, qr/WARNING:.*budget is not shared.*longer than all slots/, 'a file that is too long is refused');
ok(wait_for(sub { members($one, 'own') eq 'none' }, 20), 'and nothing is shared');
like(status_of($one)->{degraded}, qr/budget is not shared/, 'the status says so');
$one->safe_psql('postgres', 'CREATE TABLE works AS SELECT 1; CHECKPOINT');
foreach (1 .. 3)
{
	$one->reload; # looks at the file anew
	usleep(500_000);
}
is(scalar(my @warnings = slurp_file($one->logfile) =~ /WARNING:.*budget is not shared/g), 1, 'one warning is enough');
unlink $file;
$one->reload;
has_members($one, 'own', 'one=true', 'removing it is enough');
ok(wait_for(sub { !defined status_of($one)->{degraded} }, 20), 'and the status is well again');

# --- permissions

my $read = -s $one->logfile; # of the log

# One warning, in what the log has more than at the last look
sub refused
{
	my ($pattern, $name) = @_;
	my $log = $one->logfile;

	$one->reload; # looks at the file anew, at once
	ok( wait_for(
			sub { substr(slurp_file($log), $read) =~ /WARNING:.*budget is not shared.*$pattern/ }, 20),
		$name);
	$read = -s $log;
	return;
}

sub accepted
{
	my ($name) = @_;

	$one->reload;
	has_members($one, 'own', 'one=true', $name);
	$read = -s $one->logfile;
	return;
}

chmod 0777, $directory;
refused(qr/writable by too many users/, 'a directory that all may write to is refused');
chmod 0700, $directory;
accepted('until that is mended');
chmod 0666, $file;
refused(qr/writable by too many users/, 'so is such a file');
unlink $file;
accepted('a new one is made');
unlink $file;
symlink '/etc/passwd', $file;
refused(qr/could not open file/, 'a symbolic link is not followed');
unlink $file;
accepted('it can be removed');
link $file, "$directory/other";
refused(qr/several names/, 'a file with another name is refused');
unlink "$directory/other";
accepted('until that is gone');
unlink $file;
POSIX::mkfifo($file, 0600);
refused(qr/not a regular file/, 'a FIFO is refused, and not waited for');
unlink $file;
accepted('it can be removed as well');
chmod 0770, $directory;
unlink $file;
$one->reload;
ok(wait_for(sub { -e $file && ((stat($file))[2] & 07777) == 0660 }, 20),
	'in a directory of a group the file is the group\'s');
chmod 0700, $directory;
unlink $file;
accepted('and its user\'s again in another');

# --- settings

$one->append_conf('postgresql.conf', "pg_calm_share.directory = '$directory/none'");
refused(qr/could not open directory/, 'a directory that does not exist is told');
$one->append_conf('postgresql.conf', "pg_calm_share.directory = ''");
$one->reload;
ok(wait_for(sub { !defined status_of($one)->{degraded} }, 20), 'without a directory nothing is amiss');
is(members($one, 'own'), 'none', 'and nothing is shared');
my ($result, $out, $err) =
  $one->psql('postgres', "ALTER SYSTEM SET pg_calm_share.directory = 'relative'");
like($err, qr/must be absolute/, 'a relative path is refused');
cmp_ok(slurp_file($one->logfile), '!~', qr/PANIC|terminated by signal/, 'nothing crashed');
$one->stop;

# --- a name that is no ASCII: without another it is that of the directory

my $link = PostgreSQL::Test::Utils::tempdir() . "/gr\xc3\xb6\xc3\x9fe";
symlink $one->data_dir, $link or die;
$one->append_conf('postgresql.conf', "cluster_name = ''\npg_calm_share.directory = '$directory'");
system_or_bail('pg_ctl', '-w', '-D', $link, '-l', $one->logfile, 'start');
$one->_update_pid(1);
has_members($one, 'own', 'gr????e=true', 'one\'s own name is as harmless as the others\'');
$one->stop;

# --- checkpoints are moved apart

# The clocks of both start together; one interval later they must not any more.
# They become members only then: a checkpoint that was requested before would
# be moved away by the one here, and there is no other request for a while.
my @nodes = map {
	member($_, q{
checkpoint_timeout = 30s
log_checkpoints = on
pg_calm_share.directory = ''
})
} qw(three four);
$_->safe_psql('postgres', 'CREATE TABLE t AS SELECT 1; CHECKPOINT') foreach @nodes;
$_->safe_psql('postgres', 'INSERT INTO t VALUES (1)') foreach @nodes;
$_->append_conf('postgresql.conf', "pg_calm_share.directory = '$directory'") foreach @nodes;
$_->reload foreach @nodes;
has_members($nodes[0], 'own', 'four=false three=true', 'two members');

# By the slots that they get: half an interval apart, and each may be off by 1/16.  Without it
# they start together.
ok( wait_for(
		sub {
			my @starts;

			foreach my $node (@nodes)
			{
				$node->safe_psql('postgres', 'INSERT INTO t VALUES (1)');
				push @starts, $node->safe_psql('postgres',
					"SELECT coalesce(max(extract(epoch FROM started)), 0) FROM pg_calm_checkpoints WHERE reason = 'time'");
			}
			return 0 if grep { $_ == 0 } @starts;
			my $apart = abs($starts[0] - $starts[1]);
			$apart -= 30 while $apart >= 30;
			return $apart > 3 && $apart < 27;
		},
		100),
	'timed checkpoints start at different times');
$_->stop foreach @nodes;

# --- without pg_calm

$nodes[0]->append_conf('postgresql.conf', "shared_preload_libraries = 'pg_calm_share'");
$nodes[0]->start;
log_has($nodes[0], qr/WARNING:.*pg_calm_share is loaded but has no effect: pg_calm is not loaded/,
	'alone it says that there is nothing to share for');
is(members($nodes[0], 'own'), 'none', 'and shares nothing');
$nodes[0]->stop;

done_testing();

# Runs of the lab on what hosts have between a volume and its file system, where
# the kernel has it: a mapped device, an encrypted one, an array.
# shellcheck shell=sh
. /root/lib.sh

# before those of busybox, which can less
PATH=/usr/bin:$PATH
mount /dev/vda /data || bail "mount"

# lab STACK: a tiny run on it; what it says is in /tmp/said, its report in /tmp/report.json
lab() {
	pgcalm lab run checkpoint --stack "$1" --read-ahead 1MB --cap none --layout one --contestants stock \
		--rows 20000 --seconds 4 --clients 1 --drain none --wal-size 200MB --shared-buffers 16MB \
		--pg-bindir "$bindir" --dir /data/lab --json /tmp/report.json >/tmp/said 2>&1 || {
		tail -n 5 /tmp/said | sed 's/^/# /' >&3
		return 1
	}
}
# While a run measures: what the file system of the data is on
watched() {
	rm -f /tmp/node
	(
		tries=0
		until grep -q " /data/lab/.*ext4" /proc/mounts || [ $tries -gt 1200 ]; do
			tries=$((tries + 1))
			sleep 0.2
		done
		awk '$2 ~ "^/data/lab/" && $3 == "ext4" { print $1 }' /proc/mounts >/tmp/node
		cat "/sys/block/$(basename "$(cat /tmp/node)")/queue/read_ahead_kb" >/tmp/read-ahead
	) &
	lab "$1"
	status=$?
	wait
	return $status
}
nothing_left() { [ -z "$(ls -d /sys/block/dm-* /sys/block/md* 2>/dev/null)" ]; }

for stack in lvm luks md1; do
	case $stack in
	lvm | luks) kind=dm- ;;
	md1) kind=md ;;
	esac
	check "a run on $stack" watched $stack
	check "whose file system is on it" has "$(cat /tmp/node)" "^/dev/$kind"
	check "with the read-ahead that was asked for" has "$(cat /tmp/read-ahead)" "^1024\$"
	check "which its report says" has "$(cat /tmp/report.json)" "\"stack\": *\"$stack\""
	check "and which is gone" nothing_left
done
plan

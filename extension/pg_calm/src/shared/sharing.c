/*-------------------------------------------------------------------------
 *
 * sharing.c
 *	  What the device's other instances leave of it, as told by a library beside us.
 *
 * The struct that is published for it, and the calls: base/core.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "base/base.h"
#include "fmgr.h"
#include "shared.h"

/* Between calls */
#define TICK_MS 250

static CalmCore core = {.version = CALM_CORE_VERSION, .read_shared_caps = device_read_shared_caps};
static CalmShare share = {.granted = {INFINITY, INFINITY}, .members = 1};
static uint64 next_tick_ms = 0;

void
sharing_publish(void)
{
	*find_rendezvous_variable(CALM_CORE_NAME) = &core;
}

static void
call(void)
{
	if (core.share == NULL)
		return;
	share.now_ms = monotonic_ms();
	share.leaves = share.leaves || calm_mode != CALM_MODE_ON;
	share.device_operations = pg_atomic_read_u64(&calm_shared->counters.device_operations);
	share.written_bytes = pg_atomic_read_u64(&calm_shared->counters.written_bytes);
	core.share(&share);
	share.leaves = share.settings_read = false;
}

/* The settings may have changed, or what they are about; own are the caps of this instance */
void
sharing_configure(const DeviceCaps *own)
{
	share.settings_read = true;
	share.own.operations = own->write_iops;
	share.own.bytes = own->write_bytes;
	call();
}

/* Say whether there is something to flush, and hear what we may.  To be called often. */
void
sharing_tick(uint64 now_ms, bool wants)
{
	if (now_ms < next_tick_ms)
		return;
	next_tick_ms = now_ms + TICK_MS;
	share.wants = wants;
	call();
}

void
sharing_leave(void)
{
	share.leaves = true;
	call();
}

bool
sharing_limit(DeviceCaps *caps)
{
	caps->write_iops = Min(caps->write_iops, share.granted.operations);
	caps->write_bytes = Min(caps->write_bytes, share.granted.bytes);
	return share.members > 1;
}

uint32
sharing_members(void)
{
	return Max(share.members, 1);
}

const char *
sharing_problem(void)
{
	return share.problem;
}

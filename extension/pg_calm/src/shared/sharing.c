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

#include "fmgr.h"
#include "shared.h"

CalmShare sharing = {.granted = {INFINITY, INFINITY}, .members = 1};

static CalmCore core = {.version = CALM_CORE_VERSION, .read_shared_caps = device_read_shared_caps};

/* While the postmaster loads the module */
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
	sharing.now_ms = monotonic_ms();
	sharing.leaves = sharing.leaves || calm_mode != CALM_MODE_ON;
	core.share(&sharing);
	sharing.members = Max(sharing.members, 1);
	sharing.leaves = sharing.settings_read = false;
}

/* The settings may have changed, or what they are about; own are the caps of this instance */
void
sharing_configure(const DeviceCaps *own)
{
	sharing.settings_read = true;
	sharing.own = (CalmRates){own->write_iops, own->write_bytes};
	call();
}

/* Say whether there is something to flush, and hear what we may.  To be called often. */
void
sharing_tick(uint64 now_ms, bool wants)
{
	static uint64 next_ms = 0;

	if (now_ms < next_ms)
		return;
	next_ms = now_ms + CALM_LOOK_MS;
	sharing.wants = wants;
	call();
}

/* The worker ends */
void
sharing_leave(void)
{
	sharing.leaves = true;
	call();
}

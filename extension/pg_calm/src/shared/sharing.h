/*-------------------------------------------------------------------------
 *
 * sharing.h
 *	  What the device's other instances leave of it, as told by a library beside us.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_SHARING_H
#define PG_CALM_SHARING_H

#include "postgres.h"

#include "device/device.h"

/* While the postmaster loads the module */
extern void sharing_publish(void);

/* For the writeback worker */
extern void sharing_configure(const DeviceCaps *own);
extern void sharing_tick(uint64 now_ms, bool wants);
extern void sharing_leave(void);

/* Reduce caps to our share; false if there is nobody to share with: then they need no pacing but by what is in flight */
extern bool sharing_limit(DeviceCaps *caps);

/* Instances on the device, this one included */
extern uint32 sharing_members(void);

/* Why nothing is shared although it is asked for, or NULL */
extern const char *sharing_problem(void);

#endif /* PG_CALM_SHARING_H */

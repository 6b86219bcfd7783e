/*-------------------------------------------------------------------------
 *
 * test_atomics.h
 *	  Stands in for the server's atomics and spinlocks in page_map_test.
 *
 * Given to the compiler with -include, in two builds:
 * - with -fsanitize=thread, which does not understand the inline assembly of
 *	 port/atomics/arch-x86.h and reports every use of it as a race;
 * - with -DYIELD, where any atomic operation may give the processor away.
 *	 That stretches the windows between two operations from nanoseconds to
 *	 what the scheduler makes of it.
 *
 * Memory order is that of x86: plain reads acquire, plain writes release,
 * read-modify-write operations are full barriers.  Weaker machines are not
 * covered.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_TEST_ATOMICS_H
#define PG_CALM_TEST_ATOMICS_H

#include "postgres.h"

#include <sched.h>

/* in place of port/atomics.h, storage/spin.h and storage/s_lock.h */
#define ATOMICS_H
#define SPIN_H
#define S_LOCK_H

typedef struct pg_atomic_uint32
{
	uint32 value;
} pg_atomic_uint32;

typedef struct pg_atomic_uint64
{
	uint64 value;
} pg_atomic_uint64;

typedef char slock_t;

static inline void
test_yield(void)
{
#ifdef YIELD
	static __thread uint64 state = 0;

	if (state == 0)
		state = (uintptr_t) &state;
	state = state * UINT64CONST(6364136223846793005) + UINT64CONST(1442695040888963407);
	if ((state >> 40) % YIELD == 0)
		sched_yield();
#endif
}

#define TEST_ATOMICS(bits)                                                                         \
	static inline void pg_atomic_init_u##bits(pg_atomic_uint##bits *p, uint##bits v)               \
	{                                                                                              \
		__atomic_store_n(&p->value, v, __ATOMIC_RELAXED);                                          \
	}                                                                                              \
	static inline uint##bits pg_atomic_read_u##bits(pg_atomic_uint##bits *p)                       \
	{                                                                                              \
		test_yield();                                                                              \
		return __atomic_load_n(&p->value, __ATOMIC_ACQUIRE);                                       \
	}                                                                                              \
	static inline void pg_atomic_write_u##bits(pg_atomic_uint##bits *p, uint##bits v)              \
	{                                                                                              \
		test_yield();                                                                              \
		__atomic_store_n(&p->value, v, __ATOMIC_RELEASE);                                          \
	}                                                                                              \
	static inline uint##bits pg_atomic_exchange_u##bits(pg_atomic_uint##bits *p, uint##bits v)     \
	{                                                                                              \
		test_yield();                                                                              \
		return __atomic_exchange_n(&p->value, v, __ATOMIC_SEQ_CST);                                \
	}                                                                                              \
	static inline bool pg_atomic_compare_exchange_u##bits(pg_atomic_uint##bits *p, uint##bits *e,  \
	                                                      uint##bits v)                            \
	{                                                                                              \
		test_yield();                                                                              \
		return __atomic_compare_exchange_n(&p->value, e, v, false, __ATOMIC_SEQ_CST,               \
		                                   __ATOMIC_SEQ_CST);                                      \
	}                                                                                              \
	static inline uint##bits pg_atomic_fetch_add_u##bits(pg_atomic_uint##bits *p, int##bits v)     \
	{                                                                                              \
		test_yield();                                                                              \
		return __atomic_fetch_add(&p->value, v, __ATOMIC_SEQ_CST);                                 \
	}                                                                                              \
	static inline uint##bits pg_atomic_fetch_sub_u##bits(pg_atomic_uint##bits *p, int##bits v)     \
	{                                                                                              \
		test_yield();                                                                              \
		return __atomic_fetch_sub(&p->value, v, __ATOMIC_SEQ_CST);                                 \
	}                                                                                              \
	static inline uint##bits pg_atomic_fetch_or_u##bits(pg_atomic_uint##bits *p, uint##bits v)     \
	{                                                                                              \
		test_yield();                                                                              \
		return __atomic_fetch_or(&p->value, v, __ATOMIC_SEQ_CST);                                  \
	}                                                                                              \
	static inline uint##bits pg_atomic_fetch_and_u##bits(pg_atomic_uint##bits *p, uint##bits v)    \
	{                                                                                              \
		test_yield();                                                                              \
		return __atomic_fetch_and(&p->value, v, __ATOMIC_SEQ_CST);                                 \
	}

/* clang-format off */
TEST_ATOMICS(32)
TEST_ATOMICS(64)
/* clang-format on */

/* -fsanitize=thread knows no fences; the orders above make up for that */
#define pg_memory_barrier() ((void) 0)
#define pg_read_barrier() ((void) 0)
#define pg_write_barrier() ((void) 0)

#define SpinLockInit(lock) __atomic_clear(lock, __ATOMIC_RELEASE)
#define SpinLockRelease(lock) __atomic_clear(lock, __ATOMIC_RELEASE)

static inline void
SpinLockAcquire(slock_t *lock)
{
	while (__atomic_test_and_set(lock, __ATOMIC_ACQUIRE))
		sched_yield();
}

#endif /* PG_CALM_TEST_ATOMICS_H */

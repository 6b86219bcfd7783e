/*-------------------------------------------------------------------------
 *
 * deny_mprotect.c
 *	  Preloaded by a test: the executable's read-only data stays read-only.
 *
 * Fails mprotect(PROT_READ | PROT_WRITE) of pages that the dynamic linker has
 * made read-only after relocation (RELRO) in the main program, as a system
 * with a stricter security policy does.  All other calls go through.
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include <errno.h>
#include <link.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct Range
{
	uintptr_t low;
	uintptr_t high;
} Range;

static int
find_relro(struct dl_phdr_info *info, size_t size, void *data)
{
	Range *range = data;

	(void) size;
	for (int i = 0; i < info->dlpi_phnum; i++)
	{
		if (info->dlpi_phdr[i].p_type == PT_GNU_RELRO)
		{
			range->low = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
			range->high = range->low + info->dlpi_phdr[i].p_memsz;
		}
	}
	return 1; /* the executable comes first */
}

int
mprotect(void *address, size_t length, int protection)
{
	Range range = {0, 0};
	uintptr_t start = (uintptr_t) address;

	dl_iterate_phdr(find_relro, &range);
	if ((protection & PROT_WRITE) && start < range.high && start + length > range.low)
	{
		errno = EACCES;
		return -1;
	}
	return (int) syscall(SYS_mprotect, address, length, protection);
}

/*-------------------------------------------------------------------------
 *
 * interpose_test.c
 *	  The import table of a small program: names, and protections of its pages.
 *
 * Built with _FILE_OFFSET_BITS = 64, so that it imports pwrite64, and with full
 * RELRO, so that its table is read-only.  Built a second time for pages of up to 64 kB,
 * and for aarch64, where it runs with pages of 4 and of 64 kB (interpose_arm64.sh).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include "interpose/interpose.h"

static ssize_t (*real_pwrite)(int fd, const void *buffer, size_t length, off_t offset);
static int (*real_nothing)(void);
static int calls = 0;
static int tests = 0;
static int failed = 0;

static void
ok(bool good, const char *what)
{
	tests++;
	failed += !good;
	printf("%sok %d - %s\n", good ? "" : "not ", tests, what);
}

static ssize_t
test_pwrite(int fd, const void *buffer, size_t length, off_t offset)
{
	calls++;
	return real_pwrite(fd, buffer, length, offset);
}

/* Protections of what is mapped of the program itself */
static void
read_protections(char *all, size_t size)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[1024];

	all[0] = '\0';
	while (maps && fgets(line, sizeof(line), maps))
	{
		char *flags = strchr(line, ' ');

		if (flags && strstr(line, "interpose"))
			strlcat(all, flags, size);
	}
	if (maps)
		fclose(maps);
}

/* As where pages are so large that RELRO ends within one: the program's is never protected */
static int
unprotect(struct dl_phdr_info *info, size_t size, void *data)
{
	uintptr_t page_size = sysconf(_SC_PAGESIZE);

	for (int i = 0; i < info->dlpi_phnum; i++)
	{
		uintptr_t start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
		uintptr_t low = start & ~(page_size - 1);
		uintptr_t high = (start + info->dlpi_phdr[i].p_memsz) & ~(page_size - 1);

		if (info->dlpi_phdr[i].p_type == PT_GNU_RELRO)
			(void) mprotect((void *) low, high - low, PROT_READ | PROT_WRITE);
	}
	return 1;
}

int
main(void)
{
	static char before[8192];
	static char after[8192];
	const char *reason = NULL;
	const InterposeSlot wrong[] = {
		{"pwrite", test_pwrite, (void **) &real_pwrite, true},
		{"no_such_call", test_pwrite, (void **) &real_nothing, true},
	};
	FILE *file = tmpfile();

	if (file == NULL)
		return 1;
	printf("# pages of %ld bytes\n", sysconf(_SC_PAGESIZE));
	read_protections(before, sizeof(before));
	ok(!interpose_install(wrong, lengthof(wrong), &reason) &&
	       strstr(reason, "\"no_such_call\"") != NULL,
	   "what is not imported is refused by name");
	ok(pwrite(fileno(file), "x", 1, 0) == 1 && calls == 0, "and nothing is replaced");
	ok(interpose_install(wrong, 1, &reason), "pwrite64 stands for pwrite");
	ok(pwrite(fileno(file), "x", 1, 0) == 1 && calls == 1, "it is replaced, and calls through");
	read_protections(after, sizeof(after));
	ok(before[0] != '\0' && strcmp(before, after) == 0, "pages have the protection that they had");
	dl_iterate_phdr(unprotect, NULL);
	read_protections(before, sizeof(before));
	ok(interpose_install(wrong, 1, &reason), "once more, in pages that are writable");
	read_protections(after, sizeof(after));
	ok(strcmp(before, after) == 0, "which they stay");
	fclose(file);
	printf("1..%d\n", tests);
	return failed > 0;
}

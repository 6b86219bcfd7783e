/*-------------------------------------------------------------------------
 *
 * interpose.c
 *	  Replaces functions in the import table of the running executable.
 *
 * The only file that knows ELF.  The executable calls a function of libc through a slot of its
 * global offset table; writing another address there diverts the calls of the executable, and of
 * nothing else in the process. Relocations that name the slots: DT_JMPREL (calls through the PLT)
 * and DT_RELA (executables built with -fno-plt); System V ABI, chapter 5.
 *
 * With full RELRO the table was made read-only after start-up.  A page is made writable for the
 * replacement, and gets the protection back that it was found with (/proc/self/maps): where pages
 * are large, the last one of RELRO may hold data that has to stay writable.
 *
 * A server built with _FILE_OFFSET_BITS = 64 imports pwrite64 and the like instead of pwrite, or
 * both.  With 64-bit addresses they are the same function, so either name is replaced.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include "interpose.h"

#if defined(__linux__) && defined(__LP64__) && defined(__x86_64__)
#define CALM_R_JUMP_SLOT R_X86_64_JUMP_SLOT
#define CALM_R_GLOB_DAT R_X86_64_GLOB_DAT
#elif defined(__linux__) && defined(__LP64__) && defined(__aarch64__)
#define CALM_R_JUMP_SLOT R_AARCH64_JUMP_SLOT
#define CALM_R_GLOB_DAT R_AARCH64_GLOB_DAT
#endif

#ifdef CALM_R_JUMP_SLOT

/* The executable, and its dynamic section by tag: addresses, which glibc has relocated, and sizes */
typedef struct Executable
{
	struct link_map *map;
	uintptr_t dynamic[DT_NUM];
} Executable;

static bool
read_executable(Executable *exe)
{
	void *handle = dlopen(NULL, RTLD_LAZY);

	if (handle == NULL || dlinfo(handle, RTLD_DI_LINKMAP, &exe->map) != 0)
		return false;
	for (const Elf64_Dyn *entry = exe->map->l_ld; entry->d_tag != DT_NULL; entry++)
	{
		if (entry->d_tag < DT_NUM)
			exe->dynamic[entry->d_tag] = entry->d_un.d_val;
	}
	return exe->dynamic[DT_SYMTAB] != 0 && exe->dynamic[DT_STRTAB] != 0;
}

/* The slot through which the executable calls a function, or NULL */
static void **
find_slot(const Executable *exe, const char *symbol)
{
	static const int tables[][2] = {{DT_JMPREL, DT_PLTRELSZ}, {DT_RELA, DT_RELASZ}};
	const Elf64_Sym *symbols = (const Elf64_Sym *) exe->dynamic[DT_SYMTAB];
	const char *names = (const char *) exe->dynamic[DT_STRTAB];

	for (int t = 0; t < lengthof(tables); t++)
	{
		const Elf64_Rela *table = (const Elf64_Rela *) exe->dynamic[tables[t][0]];

		for (size_t i = 0; table && i < exe->dynamic[tables[t][1]] / sizeof(*table); i++)
		{
			uint32 type = ELF64_R_TYPE(table[i].r_info);

			if ((type == CALM_R_JUMP_SLOT || type == CALM_R_GLOB_DAT) &&
			    strcmp(names + symbols[ELF64_R_SYM(table[i].r_info)].st_name, symbol) == 0)
				return (void **) (exe->map->l_addr + table[i].r_offset);
		}
	}
	return NULL;
}

/* The protection that a page has now, or -1, with errno, where that can't be read */
static int
protection_of(uintptr_t page)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[1024];
	int result = -1;

	while (maps && result < 0 && fgets(line, sizeof(line), maps))
	{
		unsigned long low;
		unsigned long high;
		char flags[8];

		if (sscanf(line, "%lx-%lx %7s", &low, &high, flags) != 3 || page < low || page >= high)
			continue;
		result = (flags[0] == 'r' ? PROT_READ : 0) | (flags[1] == 'w' ? PROT_WRITE : 0) |
		         (flags[2] == 'x' ? PROT_EXEC : 0);
	}
	if (maps)
		fclose(maps);
	return result;
}

/* Write one slot, whatever the protection of its page */
static bool
write_slot(void **slot, void *value)
{
	uintptr_t page_size = sysconf(_SC_PAGESIZE);
	uintptr_t page = (uintptr_t) slot & ~(page_size - 1);
	int protection = protection_of(page);
	bool read_only = (protection & PROT_WRITE) == 0;

	if (protection < 0)
		return false;
	if (read_only && mprotect((void *) page, page_size, protection | PROT_WRITE) != 0)
		return false;
	*slot = value;

	/*
	 * A page that can't be made read-only again is a weaker server than the
	 * one that was started, but a working one: keep the replacement.
	 */
	if (read_only)
		(void) mprotect((void *) page, page_size, protection);
	return true;
}

bool
interpose_install(const InterposeSlot *slots, int nslots, const char **reason)
{
	static char message[128];
	Executable exe = {0};
	void **found[32]; /* by name, and by its name for 64-bit offsets */
	int replaced = 0;

	Assert(2 * nslots <= (int) lengthof(found));
	*reason = message;

	if (!read_executable(&exe))
	{
		strlcpy(message, "the server executable has no dynamic symbol table", sizeof(message));
		return false;
	}

	for (int i = 0; i < nslots; i++)
	{
		void *original;
		void **slot;
		Dl_info info;
		struct link_map *owner;
		char symbol64[64];

		snprintf(symbol64, sizeof(symbol64), "%s64", slots[i].symbol);
		found[2 * i] = find_slot(&exe, slots[i].symbol);
		found[2 * i + 1] = find_slot(&exe, symbol64);
		slot = found[2 * i] ? found[2 * i] : found[2 * i + 1];
		if (slot == NULL)
		{
			if (!slots[i].required)
				continue;
			snprintf(message, sizeof(message), "the server executable does not import \"%s\"",
			         slots[i].symbol);
			return false;
		}

		/*
		 * With lazy binding the slot may still lead into the executable's own PLT, and the first
		 * call through that would overwrite our replacement: resolve it ourselves.
		 */
		original = *slot;
		if (dladdr1(original, &info, (void **) &owner, RTLD_DL_LINKMAP) != 0 && owner == exe.map)
			original = dlsym(RTLD_DEFAULT, slots[i].symbol);
		if (original == NULL)
		{
			snprintf(message, sizeof(message), "could not resolve \"%s\"", slots[i].symbol);
			return false;
		}
		*slots[i].original = original;
	}

	for (replaced = 0; replaced < 2 * nslots; replaced++)
	{
		if (found[replaced] == NULL)
			continue;
		if (!write_slot(found[replaced], slots[replaced / 2].replacement))
		{
			snprintf(message, sizeof(message), "could not make the import table writable: %s",
			         strerror(errno));
			while (--replaced >= 0)
			{
				if (found[replaced])
					(void) write_slot(found[replaced], *slots[replaced / 2].original);
			}
			return false;
		}
	}
	*reason = NULL;
	return true;
}

#else /* not a platform whose relocations we know */

bool
interpose_install(const InterposeSlot *slots, int nslots, const char **reason)
{
	*reason = "only Linux on x86_64 and aarch64 is supported";
	return false;
}

#endif

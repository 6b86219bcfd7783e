/*-------------------------------------------------------------------------
 *
 * interpose.c
 *	  Replaces functions in the import table of the running executable.
 *
 * The only file that knows ELF.  The executable calls a function of libc
 * through a slot of its global offset table; writing another address there
 * diverts the calls of the executable, and of nothing else in the process.
 * Relocations that name the slots: DT_JMPREL (calls through the PLT) and
 * DT_RELA (executables built with -fno-plt); System V ABI, chapter 5.
 *
 * With full RELRO the table was made read-only after start-up.  A page is made
 * writable for the replacement, and gets the protection back that it was found
 * with (/proc/self/maps): where pages are large, the last one of RELRO may hold
 * data that has to stay writable.
 *
 * A server built with _FILE_OFFSET_BITS = 64 imports pwrite64 and the like
 * instead of pwrite, or both.  With 64-bit addresses they are the same function,
 * so either name is replaced.
 *
 * Replaced before the postmaster forks, so that all its children have it.
 * Either all required slots are replaced or none is.
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

/* What the dynamic section of the executable tells */
typedef struct Executable
{
	uintptr_t base; /* load address */
	uintptr_t low;  /* mapped range, to tell lazy slots */
	uintptr_t high;
	uintptr_t relro_low; /* read-only after relocation */
	uintptr_t relro_high;
	const Elf64_Sym *symbols;
	const char *strings;
	const Elf64_Rela *tables[2];
	size_t counts[2];
} Executable;

/* dl_iterate_phdr reports the executable first; look at no other object */
static int
read_executable(struct dl_phdr_info *info, size_t size, void *data)
{
	Executable *exe = data;
	const Elf64_Dyn *dynamic = NULL;

	exe->base = info->dlpi_addr;
	exe->low = UINTPTR_MAX;
	for (int i = 0; i < info->dlpi_phnum; i++)
	{
		const Elf64_Phdr *header = &info->dlpi_phdr[i];
		uintptr_t start = exe->base + header->p_vaddr;

		if (header->p_type == PT_DYNAMIC)
			dynamic = (const Elf64_Dyn *) start;
		else if (header->p_type == PT_GNU_RELRO)
		{
			exe->relro_low = start;
			exe->relro_high = start + header->p_memsz;
		}
		else if (header->p_type == PT_LOAD)
		{
			exe->low = Min(exe->low, start);
			exe->high = Max(exe->high, start + header->p_memsz);
		}
	}
	if (dynamic == NULL)
		return 1;

	for (; dynamic->d_tag != DT_NULL; dynamic++)
	{
		/* glibc has relocated these addresses in place */
		switch (dynamic->d_tag)
		{
			case DT_SYMTAB:
				exe->symbols = (const Elf64_Sym *) dynamic->d_un.d_ptr;
				break;
			case DT_STRTAB:
				exe->strings = (const char *) dynamic->d_un.d_ptr;
				break;
			case DT_JMPREL:
				exe->tables[0] = (const Elf64_Rela *) dynamic->d_un.d_ptr;
				break;
			case DT_PLTRELSZ:
				exe->counts[0] = dynamic->d_un.d_val / sizeof(Elf64_Rela);
				break;
			case DT_RELA:
				exe->tables[1] = (const Elf64_Rela *) dynamic->d_un.d_ptr;
				break;
			case DT_RELASZ:
				exe->counts[1] = dynamic->d_un.d_val / sizeof(Elf64_Rela);
				break;
			default:
				break;
		}
	}
	return 1;
}

/* The slot through which the executable calls a function, or NULL */
static void **
find_slot(const Executable *exe, const char *symbol)
{
	for (int t = 0; t < 2; t++)
	{
		if (exe->tables[t] == NULL)
			continue;
		for (size_t i = 0; i < exe->counts[t]; i++)
		{
			const Elf64_Rela *rela = &exe->tables[t][i];
			uint32 type = ELF64_R_TYPE(rela->r_info);

			if (type != CALM_R_JUMP_SLOT && type != CALM_R_GLOB_DAT)
				continue;
			if (strcmp(exe->strings + exe->symbols[ELF64_R_SYM(rela->r_info)].st_name, symbol) == 0)
				return (void **) (exe->base + rela->r_offset);
		}
	}
	return NULL;
}

bool
interpose_relro_covers(uintptr_t low, uintptr_t high, uintptr_t page, uintptr_t page_size)
{
	return page >= (low & ~(page_size - 1)) && page < (high & ~(page_size - 1));
}

/* The protection that a page has now.  Where /proc can't be read, what glibc has given it. */
static int
protection_of(const Executable *exe, uintptr_t page, uintptr_t page_size)
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
	if (result >= 0)
		return result;
	return interpose_relro_covers(exe->relro_low, exe->relro_high, page, page_size) ?
	           PROT_READ :
	           PROT_READ | PROT_WRITE;
}

/* Write one slot, whatever the protection of its page */
static bool
write_slot(const Executable *exe, void **slot, void *value)
{
	uintptr_t page_size = sysconf(_SC_PAGESIZE);
	uintptr_t page = (uintptr_t) slot & ~(page_size - 1);
	int protection = protection_of(exe, page, page_size);
	bool read_only = (protection & PROT_WRITE) == 0;

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

	dl_iterate_phdr(read_executable, &exe);
	if (exe.symbols == NULL || exe.strings == NULL)
	{
		strlcpy(message, "the server executable has no dynamic symbol table", sizeof(message));
		return false;
	}

	for (int i = 0; i < nslots; i++)
	{
		void *original;
		void **slot;
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
		 * With lazy binding the slot may still lead into the executable's own
		 * PLT, and the first call through that would overwrite our
		 * replacement: resolve it ourselves.
		 */
		original = *slot;
		if ((uintptr_t) original >= exe.low && (uintptr_t) original < exe.high)
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
		if (!write_slot(&exe, found[replaced], slots[replaced / 2].replacement))
		{
			snprintf(message, sizeof(message), "could not make the import table writable: %s",
			         strerror(errno));
			while (--replaced >= 0)
			{
				if (found[replaced])
					(void) write_slot(&exe, found[replaced], *slots[replaced / 2].original);
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

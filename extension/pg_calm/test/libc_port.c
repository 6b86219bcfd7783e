/*-------------------------------------------------------------------------
 *
 * libc_port.c
 *	  What interpose_test.c takes of libpgport, by libc.
 *
 * For a machine of which no server is installed (interpose_arm64.sh).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#undef snprintf
#undef printf
#undef strerror

int
pg_snprintf(char *str, size_t count, const char *fmt, ...)
{
	va_list arguments;
	int result;

	va_start(arguments, fmt);
#undef vsnprintf
	result = vsnprintf(str, count, fmt, arguments);
	va_end(arguments);
	return result;
}

int
pg_printf(const char *fmt, ...)
{
	va_list arguments;
	int result;

	va_start(arguments, fmt);
#undef vprintf
	result = vprintf(fmt, arguments);
	va_end(arguments);
	return result;
}

char *
pg_strerror(int errnum)
{
	return strerror(errnum);
}

size_t
strlcpy(char *dst, const char *src, size_t siz)
{
	snprintf(dst, siz, "%s", src);
	return strlen(src);
}

size_t
strlcat(char *dst, const char *src, size_t siz)
{
	size_t length = strnlen(dst, siz);

	return length + strlcpy(dst + length, src, siz - length);
}

/*-------------------------------------------------------------------------
 *
 * archive_codec.c
 *	  Streaming compression of archived WAL, with the system's libraries.
 *
 * One standard zstd or LZ4 frame for a file, with the content's length in the
 * frame header and a checksum of the content at its end, so that the usual
 * tools can read it and pgcalm wal-restore can tell that it is whole.  Which
 * libraries there are is found out when the module is built (Makefile).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <unistd.h>

#ifdef CALM_WITH_LZ4
#include <lz4frame.h>
#endif
#ifdef CALM_WITH_ZSTD
#include <zstd.h>
#endif

#include "archive.h"

static struct
{
	ArchiveCompression compression;
	char *output;
	size_t capacity;
#ifdef CALM_WITH_LZ4
	LZ4F_cctx *lz4;
	size_t lz4_header; /* bytes of the frame header that are in output already */
#endif
#ifdef CALM_WITH_ZSTD
	ZSTD_CCtx *zstd;
#endif
} encoder;

static struct
{
	ArchiveCompression compression;
	int fd;
	char *input;
	size_t position; /* in input: what the library has not taken yet */
	size_t length;
	bool frame_ended;
	bool output_full; /* the library may hold more than it could hand out */
#ifdef CALM_WITH_LZ4
	LZ4F_dctx *lz4;
#endif
#ifdef CALM_WITH_ZSTD
	ZSTD_DCtx *zstd;
#endif
} decoder;

static char error[256];

/* By ArchiveCompression */
static const struct
{
	const char *name;
	const char *suffix;
	bool available;
} codecs[ARCHIVE_COMPRESSIONS] = {
	[ARCHIVE_COMPRESSION_NONE] = {"none", "", true},
#ifdef CALM_WITH_LZ4
	[ARCHIVE_COMPRESSION_LZ4] = {"lz4", ".lz4", true},
#else
	[ARCHIVE_COMPRESSION_LZ4] = {"lz4", ".lz4", false},
#endif
#ifdef CALM_WITH_ZSTD
	[ARCHIVE_COMPRESSION_ZSTD] = {"zstd", ".zst", true},
#else
	[ARCHIVE_COMPRESSION_ZSTD] = {"zstd", ".zst", false},
#endif
};

const char *
archive_codec_suffix(ArchiveCompression compression)
{
	return codecs[compression].suffix;
}

const char *
archive_codec_name(ArchiveCompression compression)
{
	return codecs[compression].name;
}

bool
archive_codec_available(ArchiveCompression compression)
{
	return codecs[compression].available;
}

const char *
archive_codec_error(void)
{
	return error;
}

static bool
fail(const char *what, const char *why)
{
	snprintf(error, sizeof(error), "%s: %s", what, why);
	return false;
}

/* A stream of a known length; level 0 is the library's default */
bool
archive_encoder_begin(ArchiveCompression compression, int level, uint64 content_size)
{
	encoder.compression = compression;
	if (compression == ARCHIVE_COMPRESSION_NONE)
		return true;
#ifdef CALM_WITH_LZ4
	if (compression == ARCHIVE_COMPRESSION_LZ4)
	{
		LZ4F_preferences_t preferences = {
			.frameInfo = {.contentChecksumFlag = LZ4F_contentChecksumEnabled,
		                  .contentSize = content_size},
			.compressionLevel = level};

		encoder.capacity = LZ4F_compressBound(ARCHIVE_PIECE, &preferences) + LZ4F_HEADER_SIZE_MAX;
		encoder.output = malloc(encoder.capacity);
		if (encoder.output != NULL &&
		    !LZ4F_isError(LZ4F_createCompressionContext(&encoder.lz4, LZ4F_VERSION)))
		{
			size_t result =
				LZ4F_compressBegin(encoder.lz4, encoder.output, encoder.capacity, &preferences);

			if (!LZ4F_isError(result))
			{
				encoder.lz4_header = result;
				return true;
			}
		}
	}
#endif
#ifdef CALM_WITH_ZSTD
	if (compression == ARCHIVE_COMPRESSION_ZSTD)
	{
		/* it keeps back at most one block between calls */
		encoder.capacity = ZSTD_compressBound(ARCHIVE_PIECE) + 2 * ZSTD_CStreamOutSize();
		encoder.output = malloc(encoder.capacity);
		encoder.zstd = ZSTD_createCCtx();
		if (encoder.output != NULL && encoder.zstd != NULL &&
		    !ZSTD_isError(ZSTD_CCtx_setParameter(encoder.zstd, ZSTD_c_compressionLevel, level)) &&
		    !ZSTD_isError(ZSTD_CCtx_setParameter(encoder.zstd, ZSTD_c_checksumFlag, 1)) &&
		    !ZSTD_isError(ZSTD_CCtx_setPledgedSrcSize(encoder.zstd, content_size)))
			return true;
	}
#endif
	archive_encoder_end();
	return fail(archive_codec_name(compression), "could not start compression");
}

/*
 * Compress a piece of up to ARCHIVE_PIECE bytes, the last one with "last".
 * What comes out, maybe nothing, stays valid until the next call.
 */
bool
archive_encoder_step(const void *input, size_t length, bool last, const void **output,
                     size_t *output_length)
{
	if (encoder.compression == ARCHIVE_COMPRESSION_NONE)
	{
		*output = input;
		*output_length = length;
		return true;
	}
	*output = encoder.output;
#ifdef CALM_WITH_LZ4
	if (encoder.compression == ARCHIVE_COMPRESSION_LZ4)
	{
		size_t filled = encoder.lz4_header;
		size_t result;

		encoder.lz4_header = 0;
		result = LZ4F_compressUpdate(encoder.lz4, encoder.output + filled,
		                             encoder.capacity - filled, input, length, NULL);
		if (!LZ4F_isError(result))
		{
			filled += result;
			result = last ? LZ4F_compressEnd(encoder.lz4, encoder.output + filled,
			                                 encoder.capacity - filled, NULL) :
			                0;
		}
		if (LZ4F_isError(result))
			return fail("lz4", LZ4F_getErrorName(result));
		*output_length = filled + result;
		return true;
	}
#endif
#ifdef CALM_WITH_ZSTD
	if (encoder.compression == ARCHIVE_COMPRESSION_ZSTD)
	{
		ZSTD_inBuffer in = {.src = input, .size = length};
		ZSTD_outBuffer out = {.dst = encoder.output, .size = encoder.capacity};
		size_t result;

		do
		{
			result =
				ZSTD_compressStream2(encoder.zstd, &out, &in, last ? ZSTD_e_end : ZSTD_e_continue);
			if (ZSTD_isError(result))
				return fail("zstd", ZSTD_getErrorName(result));
			if (out.pos == out.size && (in.pos < in.size || (last && result != 0)))
				return fail("zstd", "more output than expected");
		} while (in.pos < in.size || (last && result != 0));
		*output_length = out.pos;
		return true;
	}
#endif
	return fail("compression", "not built in");
}

void
archive_encoder_end(void)
{
#ifdef CALM_WITH_LZ4
	(void) LZ4F_freeCompressionContext(encoder.lz4);
#endif
#ifdef CALM_WITH_ZSTD
	(void) ZSTD_freeCCtx(encoder.zstd);
#endif
	free(encoder.output);
	memset(&encoder, 0, sizeof(encoder));
}

/* Of a file from its beginning, which stays open and the caller's */
bool
archive_decoder_begin(ArchiveCompression compression, int fd)
{
	bool ok;

	decoder.compression = compression;
	decoder.fd = fd;
	decoder.input = malloc(ARCHIVE_PIECE);
	ok = decoder.input != NULL && archive_codec_available(compression);
#ifdef CALM_WITH_LZ4
	if (compression == ARCHIVE_COMPRESSION_LZ4)
		ok = ok && !LZ4F_isError(LZ4F_createDecompressionContext(&decoder.lz4, LZ4F_VERSION));
#endif
#ifdef CALM_WITH_ZSTD
	if (compression == ARCHIVE_COMPRESSION_ZSTD)
	{
		decoder.zstd = ZSTD_createDCtx();
		ok = ok && decoder.zstd != NULL;
	}
#endif
	if (ok)
		return true;
	archive_decoder_end();
	return fail(archive_codec_name(compression), archive_codec_available(compression) ?
	                                                 "could not start decompression" :
	                                                 "not built in");
}

/*
 * Fill a buffer; a length of less than its capacity means that the content
 * is over, and was what its checksum says.
 */
bool
archive_decoder_read(void *output, size_t capacity, size_t *length)
{
	const char *name = archive_codec_name(decoder.compression);

	*length = 0;
	while (*length < capacity)
	{
		if (decoder.position == decoder.length && !decoder.output_full)
		{
			ssize_t got = read(decoder.fd, decoder.input, ARCHIVE_PIECE);

			if (got < 0 && errno == EINTR)
				continue;
			if (got < 0)
				return fail(name, strerror(errno));
			if (got == 0)
				return decoder.frame_ended || decoder.compression == ARCHIVE_COMPRESSION_NONE ?
				           true :
				           fail(name, "the file is cut short");
			decoder.position = 0;
			decoder.length = (size_t) got;
		}
		decoder.output_full = false;
		if (decoder.frame_ended)
			return fail(name, "there is something after the end of the frame");
		if (decoder.compression == ARCHIVE_COMPRESSION_NONE)
		{
			size_t bytes = Min(decoder.length - decoder.position, capacity - *length);

			memcpy((char *) output + *length, decoder.input + decoder.position, bytes);
			decoder.position += bytes;
			*length += bytes;
		}
#ifdef CALM_WITH_LZ4
		if (decoder.compression == ARCHIVE_COMPRESSION_LZ4)
		{
			size_t in = decoder.length - decoder.position;
			size_t out = capacity - *length;
			size_t result = LZ4F_decompress(decoder.lz4, (char *) output + *length, &out,
			                                decoder.input + decoder.position, &in, NULL);

			if (LZ4F_isError(result))
				return fail(name, LZ4F_getErrorName(result));
			decoder.position += in;
			*length += out;
			decoder.frame_ended = result == 0;
		}
#endif
#ifdef CALM_WITH_ZSTD
		if (decoder.compression == ARCHIVE_COMPRESSION_ZSTD)
		{
			ZSTD_inBuffer in = {
				.src = decoder.input, .size = decoder.length, .pos = decoder.position};
			ZSTD_outBuffer out = {.dst = output, .size = capacity, .pos = *length};
			size_t result = ZSTD_decompressStream(decoder.zstd, &out, &in);

			if (ZSTD_isError(result))
				return fail(name, ZSTD_getErrorName(result));
			decoder.position = in.pos;
			*length = out.pos;
			decoder.frame_ended = result == 0;
		}
#endif
		decoder.output_full = *length == capacity && !decoder.frame_ended;
	}
	return true;
}

void
archive_decoder_end(void)
{
#ifdef CALM_WITH_LZ4
	(void) LZ4F_freeDecompressionContext(decoder.lz4);
#endif
#ifdef CALM_WITH_ZSTD
	(void) ZSTD_freeDCtx(decoder.zstd);
#endif
	free(decoder.input);
	memset(&decoder, 0, sizeof(decoder));
}

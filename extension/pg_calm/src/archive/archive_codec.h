/*-------------------------------------------------------------------------
 *
 * archive_codec.h
 *	  Streaming compression of archived WAL, with the system's libraries.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_ARCHIVE_CODEC_H
#define PG_CALM_ARCHIVE_CODEC_H

#include "postgres.h"

typedef enum ArchiveCompression
{
	ARCHIVE_COMPRESSION_NONE,
	ARCHIVE_COMPRESSION_LZ4,
	ARCHIVE_COMPRESSION_ZSTD,
} ArchiveCompression;

#define ARCHIVE_COMPRESSIONS (ARCHIVE_COMPRESSION_ZSTD + 1)

/* Most that is handed to archive_encoder_step at a time */
#define ARCHIVE_PIECE (256 * 1024)

typedef struct ArchiveEncoder ArchiveEncoder;
typedef struct ArchiveDecoder ArchiveDecoder;

extern const char *archive_codec_suffix(ArchiveCompression compression);
extern const char *archive_codec_name(ArchiveCompression compression);
extern bool archive_codec_available(ArchiveCompression compression);

/*
 * One process encodes, or decodes, one stream at a time.  begin returns NULL,
 * step and read return false if something is wrong; archive_codec_error says
 * what.
 */
extern ArchiveEncoder *
archive_encoder_begin(ArchiveCompression compression, int level, uint64 content_size);
extern bool archive_encoder_step(ArchiveEncoder *encoder, const void *input, size_t length,
                                 bool last, const void **output, size_t *output_length);
extern void archive_encoder_end(ArchiveEncoder *encoder);

extern ArchiveDecoder *archive_decoder_begin(ArchiveCompression compression, int fd);
extern bool
archive_decoder_read(ArchiveDecoder *decoder, void *output, size_t capacity, size_t *length);
extern void archive_decoder_end(ArchiveDecoder *decoder);

extern const char *archive_codec_error(void);

#endif /* PG_CALM_ARCHIVE_CODEC_H */

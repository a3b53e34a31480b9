/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stream - a snapshot of a volume as a stream of bytes, whole or as the difference from an older snapshot. The format is
 * docs/formats/volume-stream.md:
 *
 *     header   whose snapshot it is, and of which base it is the difference
 *     record   DATA: an offset and the bytes that stand there; ZEROES: an offset and a length
 *     ...      ascending; what no record has is as in the base; without a base it is zero
 *     record   END: the totals, and the SHA-256 of everything before it
 *
 * Header and records have CRC-32Cs, so damage is found at the first bad record, before its bytes are used. A stream without
 * END is not complete, and can be continued behind its last complete record.
 *
 * One `struct stream` follows a stream from its beginning, as its writer (put) or as its reader (take). A reader that meets
 * the end of an incomplete stream may go on as its writer. Pure: no I/O. One thread at a time.
 */
#ifndef DATA_STREAM_STREAM_H
#define DATA_STREAM_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fault.h"
#include "base/must.h"

enum {
	STREAM_VERSION = 1,
	STREAM_UUID_BYTES = 16,
	STREAM_NAME_BYTES_MAX = 64, /* with the NUL */
	STREAM_HEADER_BYTES = 512,
	STREAM_RECORD_BYTES = 40, /* without its data */
	STREAM_DATA_BYTES_MAX = 1 << 20,
	STREAM_DIGEST_BYTES = 32,
};

struct stream_header {
	uint8_t volume_uuid[STREAM_UUID_BYTES], snapshot_uuid[STREAM_UUID_BYTES];
	uint8_t base_uuid[STREAM_UUID_BYTES]; /* of the snapshot that it is the difference from; zero: none */
	uint64_t size_bytes, base_bytes;      /* of the volume at the two instants */
	uint32_t block_bytes;
	char pool[STREAM_NAME_BYTES_MAX], volume[STREAM_NAME_BYTES_MAX]; /* for people */
	char snapshot[STREAM_NAME_BYTES_MAX], base[STREAM_NAME_BYTES_MAX];
};

/* Whether size and block size are those of a volume: blocks of a power of two from 512 to 65536 bytes, and whole ones. */
bool stream_header_is_valid(const struct stream_header *header);

enum stream_type { STREAM_DATA = 1, STREAM_ZEROES = 2, STREAM_END = 3 };

struct stream_record {
	enum stream_type type;
	uint64_t offset, bytes; /* END: the totals of data and of zeroes */
	uint32_t data_bytes;	/* that follow the record: DATA: `bytes`; ZEROES: 0; END: the digest */
};

struct stream;

struct stream *stream_create(void);
/* Accepts NULL. */
void stream_destroy(struct stream *stream);

/* What has passed so far. `next`: the end of the last record, before which no record may come any more. */
struct stream_totals {
	uint64_t records, data_bytes, zero_bytes, next;
	uint64_t stream_bytes; /* length of the header and of all complete records */
	bool is_complete;      /* END has passed */
};
void stream_get_totals(const struct stream *stream, struct stream_totals *totals_ret);
/* Of the header that has passed. */
const struct stream_header *stream_get_header(const struct stream *stream);

/* ---- write: the caller writes `out`, then the data, in the order of the calls ---- */

/* `header` must be valid. */
void stream_put_header(struct stream *stream, const struct stream_header *header, uint8_t out[STREAM_HEADER_BYTES]);
/* At most STREAM_DATA_BYTES_MAX; a multiple of the block size, behind the last record, in the volume. */
void stream_put_data(struct stream *stream, uint64_t offset, const uint8_t *data, uint32_t bytes,
		     uint8_t out[STREAM_RECORD_BYTES]);
void stream_put_zeroes(struct stream *stream, uint64_t offset, uint64_t bytes, uint8_t out[STREAM_RECORD_BYTES]);
void stream_put_end(struct stream *stream, uint8_t out[STREAM_RECORD_BYTES + STREAM_DIGEST_BYTES]);

/*
 * ---- read ----
 *
 * The caller gives the header to take_header(); then of each record its STREAM_RECORD_BYTES to take_record(), and the
 * `data_bytes` behind them, also if they are none, to take_data(). After END no more may follow.
 * Errors (explained): -EBADMSG (damaged), -EPROTO (no such stream, or of a newer version). After one, nothing more is
 * taken, and the totals are those of the last complete record.
 */
MUST_CHECK int stream_take_header(struct stream *stream, const uint8_t in[STREAM_HEADER_BYTES], struct fathom_fault *why);
MUST_CHECK int stream_take_record(struct stream *stream, const uint8_t in[STREAM_RECORD_BYTES],
				  struct stream_record *record_ret, struct fathom_fault *why);
MUST_CHECK int stream_take_data(struct stream *stream, const uint8_t *data, struct fathom_fault *why);

#endif

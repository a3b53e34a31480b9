/* SPDX-License-Identifier: BSD-2-Clause */
#include "data/stream/stream.h"

#include <errno.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include <isa-l/crc.h>

#include "base/bits.h"

/* Places in the header. */
enum {
	AT_MAGIC = 0,
	AT_VERSION = 8,
	AT_HEADER_BYTES = 12,
	AT_VOLUME_UUID = 16,
	AT_SNAPSHOT_UUID = 32,
	AT_BASE_UUID = 48,
	AT_SIZE = 64,
	AT_BASE_SIZE = 72,
	AT_BLOCK = 80,
	AT_NAMES = 88, /* pool, volume, snapshot, base */
	AT_REST = AT_NAMES + 4 * STREAM_NAME_BYTES_MAX,
	AT_HEADER_SUM = STREAM_HEADER_BYTES - 4,
};
static_assert(AT_REST < AT_HEADER_SUM, "the names fit");

/* Places in a record. */
enum { AT_TYPE = 0, AT_DATA_BYTES = 4, AT_OFFSET = 8, AT_BYTES = 16, AT_INDEX = 24, AT_DATA_SUM = 32, AT_RECORD_SUM = 36 };
static_assert(AT_RECORD_SUM + 4 == STREAM_RECORD_BYTES, "the sum is the last field");

enum { BLOCK_BYTES_MIN = 512, BLOCK_BYTES_MAX = 65536 };

static const char magic[8] = { 'F', 'A', 'T', 'H', 'O', 'M', 'V', 'S' };

struct stream {
	struct stream_header header;
	struct stream_totals totals;
	EVP_MD_CTX *digest; /* of everything that has passed */
	bool has_header, has_record, is_failed;
	struct stream_record record;	   /* has_record: whose data come next, */
	uint8_t text[STREAM_RECORD_BYTES]; /* and its bytes */
};

/* ---- numbers: little-endian ---- */

static void put32(uint8_t *at, uint32_t value)
{
	for (int i = 0; i < 4; i++)
		at[i] = (uint8_t)(value >> (8 * i));
}

static void put64(uint8_t *at, uint64_t value)
{
	for (int i = 0; i < 8; i++)
		at[i] = (uint8_t)(value >> (8 * i));
}

static uint32_t get32(const uint8_t *at)
{
	uint32_t value = 0;

	for (int i = 3; i >= 0; i--)
		value = value << 8 | at[i];
	return value;
}

static uint64_t get64(const uint8_t *at)
{
	return get32(at) | (uint64_t)get32(at + 4) << 32;
}

static uint32_t sum_of(const uint8_t *data, size_t bytes)
{
	return ~crc32_iscsi((unsigned char *)(uintptr_t)data, (int)bytes, UINT32_MAX);
}

/* ---- a stream ---- */

struct stream *stream_create(void)
{
	struct stream *stream = calloc(1, sizeof(*stream));

	must(stream);
	stream->digest = EVP_MD_CTX_new();
	must(stream->digest);
	must(EVP_DigestInit_ex(stream->digest, EVP_sha256(), NULL) == 1);
	return stream;
}

void stream_destroy(struct stream *stream)
{
	if (stream)
		EVP_MD_CTX_free(stream->digest);
	free(stream);
}

void stream_get_totals(const struct stream *stream, struct stream_totals *totals_ret)
{
	*totals_ret = stream->totals;
}

const struct stream_header *stream_get_header(const struct stream *stream)
{
	must(stream->has_header);
	return &stream->header;
}

static void add_bytes(struct stream *stream, const uint8_t *bytes, size_t count)
{
	must(EVP_DigestUpdate(stream->digest, bytes, count) == 1);
	stream->totals.stream_bytes += count;
}

/* The digest of what has passed, which may go on. */
static void read_digest(const struct stream *stream, uint8_t digest_ret[STREAM_DIGEST_BYTES])
{
	EVP_MD_CTX *copy = EVP_MD_CTX_new();
	unsigned int bytes = 0;

	must(copy);
	must(EVP_MD_CTX_copy_ex(copy, stream->digest) == 1);
	must(EVP_DigestFinal_ex(copy, digest_ret, &bytes) == 1);
	must(bytes == STREAM_DIGEST_BYTES);
	EVP_MD_CTX_free(copy);
}

/* A record has passed completely. */
static void add_record(struct stream *stream, const struct stream_record *record, const uint8_t *text, const uint8_t *data)
{
	struct stream_totals *totals = &stream->totals;

	add_bytes(stream, text, STREAM_RECORD_BYTES);
	add_bytes(stream, data, record->data_bytes);
	if (record->type == STREAM_END) {
		totals->is_complete = true;
		return;
	}
	totals->records++;
	totals->next = record->offset + record->bytes;
	if (record->type == STREAM_DATA)
		totals->data_bytes += record->bytes;
	else
		totals->zero_bytes += record->bytes;
}

/* NULL: the record may come next. */
static const char *find_fault(const struct stream *stream, const struct stream_record *record)
{
	const struct stream_header *header = &stream->header;
	const struct stream_totals *totals = &stream->totals;

	if (record->type == STREAM_END) {
		if (record->offset != totals->data_bytes || record->bytes != totals->zero_bytes)
			return "the totals are not those of its records";
		return record->data_bytes == STREAM_DIGEST_BYTES ? NULL : "the length of its digest is wrong";
	}
	if (record->type != STREAM_DATA && record->type != STREAM_ZEROES)
		return "there is no such type of record";
	if (record->bytes == 0 || record->bytes % header->block_bytes != 0 || record->offset % header->block_bytes != 0)
		return "a range is not of whole blocks";
	if (record->offset < totals->next)
		return "a range is not behind the one before it";
	if (record->offset > header->size_bytes || record->bytes > header->size_bytes - record->offset)
		return "a range is behind the end of the volume";
	if (record->data_bytes != (record->type == STREAM_DATA ? record->bytes : 0))
		return "a record has more or fewer data than its range";
	return record->data_bytes <= STREAM_DATA_BYTES_MAX ? NULL : "a record is too long";
}

bool stream_header_is_valid(const struct stream_header *header)
{
	return header->block_bytes >= BLOCK_BYTES_MIN && header->block_bytes <= BLOCK_BYTES_MAX &&
	       is_power_of_two(header->block_bytes) && header->size_bytes > 0 && header->size_bytes <= INT64_MAX &&
	       header->size_bytes % header->block_bytes == 0;
}

/* ---- write ---- */

static void put_name(uint8_t *out, int index, const char *name)
{
	must(memchr(name, 0, STREAM_NAME_BYTES_MAX));
	memcpy(out + AT_NAMES + index * STREAM_NAME_BYTES_MAX, name, strlen(name));
}

void stream_put_header(struct stream *stream, const struct stream_header *header, uint8_t out[STREAM_HEADER_BYTES])
{
	must(!stream->has_header);
	must(stream_header_is_valid(header));
	memset(out, 0, STREAM_HEADER_BYTES);
	memcpy(out + AT_MAGIC, magic, sizeof(magic));
	put32(out + AT_VERSION, STREAM_VERSION);
	put32(out + AT_HEADER_BYTES, STREAM_HEADER_BYTES);
	memcpy(out + AT_VOLUME_UUID, header->volume_uuid, STREAM_UUID_BYTES);
	memcpy(out + AT_SNAPSHOT_UUID, header->snapshot_uuid, STREAM_UUID_BYTES);
	memcpy(out + AT_BASE_UUID, header->base_uuid, STREAM_UUID_BYTES);
	put64(out + AT_SIZE, header->size_bytes);
	put64(out + AT_BASE_SIZE, header->base_bytes);
	put32(out + AT_BLOCK, header->block_bytes);
	put_name(out, 0, header->pool);
	put_name(out, 1, header->volume);
	put_name(out, 2, header->snapshot);
	put_name(out, 3, header->base);
	put32(out + AT_HEADER_SUM, sum_of(out, AT_HEADER_SUM));
	stream->header = *header;
	stream->has_header = true;
	add_bytes(stream, out, STREAM_HEADER_BYTES);
}

static void put_record(struct stream *stream, const struct stream_record *record, const uint8_t *data,
		       uint8_t out[STREAM_RECORD_BYTES])
{
	must(stream->has_header && !stream->totals.is_complete);
	must(!find_fault(stream, record));
	put32(out + AT_TYPE, record->type);
	put32(out + AT_DATA_BYTES, record->data_bytes);
	put64(out + AT_OFFSET, record->offset);
	put64(out + AT_BYTES, record->bytes);
	put64(out + AT_INDEX, stream->totals.records);
	put32(out + AT_DATA_SUM, sum_of(data, record->data_bytes));
	put32(out + AT_RECORD_SUM, sum_of(out, AT_RECORD_SUM));
	add_record(stream, record, out, data);
	stream->has_record = stream->is_failed = false; /* a record that was read in part is not in the stream */
}

void stream_put_data(struct stream *stream, uint64_t offset, const uint8_t *data, uint32_t bytes,
		     uint8_t out[STREAM_RECORD_BYTES])
{
	const struct stream_record record = { STREAM_DATA, offset, bytes, bytes };

	put_record(stream, &record, data, out);
}

void stream_put_zeroes(struct stream *stream, uint64_t offset, uint64_t bytes, uint8_t out[STREAM_RECORD_BYTES])
{
	const struct stream_record record = { STREAM_ZEROES, offset, bytes, 0 };

	put_record(stream, &record, out, out);
}

void stream_put_end(struct stream *stream, uint8_t out[STREAM_RECORD_BYTES + STREAM_DIGEST_BYTES])
{
	const struct stream_record record = { STREAM_END, stream->totals.data_bytes, stream->totals.zero_bytes,
					      STREAM_DIGEST_BYTES };

	read_digest(stream, out + STREAM_RECORD_BYTES);
	put_record(stream, &record, out + STREAM_RECORD_BYTES, out);
}

/* ---- read ---- */

static int take_names(const uint8_t *in, struct stream_header *header)
{
	char *names[] = { header->pool, header->volume, header->snapshot, header->base };

	for (int i = 0; i < 4; i++) {
		memcpy(names[i], in + AT_NAMES + i * STREAM_NAME_BYTES_MAX, STREAM_NAME_BYTES_MAX);
		if (!memchr(names[i], 0, STREAM_NAME_BYTES_MAX))
			return -EBADMSG;
		for (const char *c = names[i]; *c; c++) {
			if (*c <= ' ' || *c > '~')
				return -EBADMSG;
		}
	}
	return 0;
}

int stream_take_header(struct stream *stream, const uint8_t in[STREAM_HEADER_BYTES], struct fathom_fault *why)
{
	struct stream_header *header = &stream->header;

	must(!stream->has_header);
	if (memcmp(in + AT_MAGIC, magic, sizeof(magic)) != 0)
		return fault(why, -EPROTO, "it does not begin as a stream of a volume");
	if (get32(in + AT_HEADER_SUM) != sum_of(in, AT_HEADER_SUM))
		return fault(why, -EBADMSG, "the checksum of its header is wrong");
	if (get32(in + AT_VERSION) != STREAM_VERSION || get32(in + AT_HEADER_BYTES) != STREAM_HEADER_BYTES)
		return fault(why, -EPROTO, "it has version %" PRIu32 " of the format, and this program knows %d",
			     get32(in + AT_VERSION), STREAM_VERSION);
	memcpy(header->volume_uuid, in + AT_VOLUME_UUID, STREAM_UUID_BYTES);
	memcpy(header->snapshot_uuid, in + AT_SNAPSHOT_UUID, STREAM_UUID_BYTES);
	memcpy(header->base_uuid, in + AT_BASE_UUID, STREAM_UUID_BYTES);
	header->size_bytes = get64(in + AT_SIZE);
	header->base_bytes = get64(in + AT_BASE_SIZE);
	header->block_bytes = get32(in + AT_BLOCK);
	if (!stream_header_is_valid(header) || take_names(in, header))
		return fault(why, -EBADMSG, "a value of its header is not valid");
	stream->has_header = true;
	add_bytes(stream, in, STREAM_HEADER_BYTES);
	return 0;
}

static int fail_record(struct stream *stream, const char *text, struct fathom_fault *why)
{
	stream->is_failed = true;
	stream->has_record = false;
	return fault(why, -EBADMSG, "%s", text);
}

int stream_take_record(struct stream *stream, const uint8_t in[STREAM_RECORD_BYTES], struct stream_record *record_ret,
		       struct fathom_fault *why)
{
	struct stream_record *record = &stream->record;
	const char *text;

	must(stream->has_header && !stream->has_record && !stream->is_failed);
	if (stream->totals.is_complete)
		return fail_record(stream, "there are bytes behind its end", why);
	if (get32(in + AT_RECORD_SUM) != sum_of(in, AT_RECORD_SUM))
		return fail_record(stream, "the checksum of a record is wrong", why);
	if (get64(in + AT_INDEX) != stream->totals.records)
		return fail_record(stream, "a record is missing", why);
	*record = (struct stream_record){
		.type = (enum stream_type)get32(in + AT_TYPE),
		.offset = get64(in + AT_OFFSET),
		.bytes = get64(in + AT_BYTES),
		.data_bytes = get32(in + AT_DATA_BYTES),
	};
	text = find_fault(stream, record);
	if (text)
		return fail_record(stream, text, why);
	memcpy(stream->text, in, STREAM_RECORD_BYTES);
	stream->has_record = true;
	*record_ret = *record;
	return 0;
}

int stream_take_data(struct stream *stream, const uint8_t *data, struct fathom_fault *why)
{
	const struct stream_record *record = &stream->record;
	uint8_t digest[STREAM_DIGEST_BYTES];

	must(stream->has_record && !stream->is_failed);
	if (get32(stream->text + AT_DATA_SUM) != sum_of(data, record->data_bytes))
		return fail_record(stream, "the checksum of data is wrong", why);
	if (record->type == STREAM_END) {
		read_digest(stream, digest);
		if (memcmp(digest, data, sizeof(digest)) != 0)
			return fail_record(stream, "its SHA-256 is wrong", why);
	}
	add_record(stream, record, stream->text, data);
	stream->has_record = false;
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "data/store/pool/record.h"

#include <errno.h>
#include <isa-l/crc.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uuid/uuid.h>

#include "base/text.h"

enum { CHECKSUM_BYTES = 11 }; /* "0x1a2b3c4d" with the NUL */

/* ---- names ---- */

static bool is_name_start(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

int pool_name_check(const char *kind, const char *name, struct fathom_fault *why)
{
	size_t bytes = strlen(name);

	if (bytes == 0)
		return fault(why, -EINVAL, "the name of the %s is empty", kind);
	if (bytes >= POOL_NAME_BYTES_MAX)
		return fault(why, -EINVAL, "the name of the %s has %zu characters, at most %d are allowed", kind, bytes,
			     POOL_NAME_BYTES_MAX - 1);
	if (!is_name_start(name[0]) ||
	    strspn(name + 1, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") != bytes - 1)
		return fault(
			why, -EINVAL,
			"%s name \"%s\": it must begin with a letter or a digit and contain only letters, digits, \".\", "
			"\"_\" and \"-\"",
			kind, name);
	return 0;
}

/* ---- storage ---- */

void volume_record_deinit(struct volume_record *record)
{
	must((record->host_count > 0) == (record->hosts != NULL));
	free(record->hosts);
	record->hosts = NULL;
	record->host_count = 0;
}

int volume_record_copy(struct volume_record *to, const struct volume_record *from)
{
	struct volume_host *hosts = NULL;

	must(to != from);
	must((from->host_count > 0) == (from->hosts != NULL));
	if (from->host_count > 0) {
		hosts = calloc(from->host_count, sizeof(*hosts));
		if (!hosts)
			return -ENOMEM;
		memcpy(hosts, from->hosts, from->host_count * sizeof(*hosts));
	}
	*to = *from;
	to->hosts = hosts;
	return 0;
}

/* ---- JSON ---- */

/* The checksum of `object`. Errors: -ENOMEM, -EBADMSG (longer than any record: it is not ours). */
static int compute_checksum(const json_t *object, char checksum_ret[CHECKSUM_BYTES])
{
	char *text = json_dumps(object, JSON_COMPACT | JSON_SORT_KEYS);
	uint32_t sum;
	size_t bytes;

	if (!text)
		return -ENOMEM;
	bytes = strlen(text);
	if (bytes > POOL_RECORD_BYTES_MAX) { /* jansson prints a real number longer than it was */
		free(text);
		return -EBADMSG;
	}
	sum = ~crc32_iscsi((unsigned char *)text, (int)bytes, ~0U);
	free(text);
	snprintf(checksum_ret, CHECKSUM_BYTES, "0x%08" PRIx32, sum);
	return 0;
}

/*
 * Whether `text` is `outer` as JSON. An allocation that fails inside jansson may drop bytes and report success. So each
 * text is read back before it is used.
 */
static bool reads_back(const char *text, const json_t *outer)
{
	json_t *again = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	bool is_equal = again && json_equal(again, outer);

	json_decref(again);
	return is_equal;
}

/* Encode {checksum, key: object}. Takes `object`; NULL: out of memory. */
static int encode(const char *key, json_t *object, char **text_ret, size_t *bytes_ret)
{
	char checksum[CHECKSUM_BYTES], *text = NULL;
	json_t *outer = NULL;

	if (object && compute_checksum(object, checksum) == 0)
		outer = json_pack("{s:s, s:O}", "checksum", checksum, key, object);
	if (outer)
		text = json_dumps(outer, JSON_INDENT(1) | JSON_SORT_KEYS);
	if (text && !reads_back(text, outer)) {
		free(text);
		text = NULL;
	}
	json_decref(outer);
	json_decref(object);
	if (!text)
		return -ENOMEM;
	*bytes_ret = strlen(text);
	must(*bytes_ret <= POOL_RECORD_BYTES_MAX);
	*text_ret = text;
	return 0;
}

/* Decode the object under `key`, whose checksum is right; the caller releases it. */
static int decode(const char *key, const char *text, size_t bytes, json_t **object_ret, struct fathom_fault *why)
{
	char checksum[CHECKSUM_BYTES];
	const char *stated;
	json_error_t error;
	json_t *outer, *object;
	int result = 0;

	outer = bytes <= POOL_RECORD_BYTES_MAX ? json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error) : NULL;
	if (!outer)
		return fault(why, -EBADMSG, "it is not valid JSON of a %s", key);
	object = json_object_get(outer, key);
	stated = json_string_value(json_object_get(outer, "checksum"));
	if (!json_is_object(object) || !stated || json_object_size(outer) != 2)
		result = fault(why, -EBADMSG, "it does not consist of \"checksum\" and \"%s\"", key);
	else if (compute_checksum(object, checksum) < 0)
		result = fault(why, -ENOMEM, "out of memory");
	else if (strcmp(checksum, stated) != 0)
		result = fault(why, -EBADMSG, "its checksum is %s, its contents have %s", stated, checksum);
	else if (json_integer_value(json_object_get(object, "version")) > POOL_RECORD_VERSION_MAX)
		result = fault(why, -EPROTO, "it has version %" PRId64 ", this program reads %d",
			       (int64_t)json_integer_value(json_object_get(object, "version")), POOL_RECORD_VERSION_MAX);
	else
		*object_ret = json_incref(object);
	json_decref(outer);
	return result;
}

static json_t *json_uuid(const uint8_t uuid[POOL_UUID_BYTES])
{
	char text[POOL_UUID_TEXT_BYTES];

	uuid_unparse_lower(uuid, text);
	return json_string(text);
}

static int record_version(bool has_checksums)
{
	return has_checksums ? POOL_RECORD_VERSION_SUMS : POOL_RECORD_VERSION;
}

/* A number that JSON can hold: below 2^63. */
static json_t *json_number_of(uint64_t number)
{
	must(number <= INT64_MAX);
	return json_integer((json_int_t)number);
}

/* ---- decoding of single values: each clears `*good` if the value is missing, of another type or out of range ---- */

static uint64_t number_at(const json_t *object, const char *key, uint64_t min, uint64_t max, bool *good)
{
	const json_t *value = json_object_get(object, key);

	if (!json_is_integer(value) || json_integer_value(value) < 0 || (uint64_t)json_integer_value(value) < min ||
	    (uint64_t)json_integer_value(value) > max) {
		*good = false;
		return min;
	}
	return (uint64_t)json_integer_value(value);
}

static bool boolean_at(const json_t *object, const char *key, bool *good)
{
	const json_t *value = json_object_get(object, key);

	*good = *good && json_is_boolean(value);
	return json_is_true(value);
}

static void uuid_at(const json_t *object, const char *key, uint8_t uuid_ret[POOL_UUID_BYTES], bool *good)
{
	const char *text = json_string_value(json_object_get(object, key));

	if (!text || uuid_parse(text, uuid_ret) < 0 || uuid_is_null(uuid_ret))
		*good = false;
}

/* The name of the folder, which the record gets. */
static void take_name(char name_ret[POOL_NAME_BYTES_MAX], const char *name)
{
	must(text_copy(name_ret, POOL_NAME_BYTES_MAX, name) == 0);
}

/* Release the decoded object and say whether all its values were good. */
static int end_decoding(json_t *object, bool good, const char *kind, struct fathom_fault *why)
{
	json_decref(object);
	return good ? 0 : fault(why, -EBADMSG, "a value of the %s is missing or out of range", kind);
}

/* ---- pools ---- */

/* The keys are there only with other values than the default. Takes `object`. NULL: out of memory. */
static json_t *with_scrub(json_t *object, const struct pool_record *record)
{
	int error = object ? 0 : -1;

	if (!error && record->scrub_off)
		error = json_object_set_new(object, "scrub_off", json_true());
	if (!error && record->scrub_seconds > 0)
		error = json_object_set_new(object, "scrub_seconds", json_integer(record->scrub_seconds));
	if (!error)
		return object;
	json_decref(object);
	return NULL;
}

static void decode_scrub(const json_t *object, struct pool_record *record, bool *good)
{
	if (json_object_get(object, "scrub_off"))
		record->scrub_off = boolean_at(object, "scrub_off", good);
	if (json_object_get(object, "scrub_seconds"))
		record->scrub_seconds = (uint32_t)number_at(object, "scrub_seconds", 0, UINT32_MAX, good);
}

int pool_record_encode(const struct pool_record *record, char **text_ret, size_t *bytes_ret)
{
	return encode("pool",
		      with_scrub(json_pack("{s:i, s:o, s:o, s:b, s:o}", "version", POOL_RECORD_VERSION, "uuid",
					   json_uuid(record->uuid), "size_bytes", json_number_of(record->size_bytes),
					   "overcommit", record->overcommit, "created_ns",
					   json_number_of(record->created_ns)),
				 record),
		      text_ret, bytes_ret);
}

int pool_record_decode(const char *name, const char *text, size_t bytes, struct pool_record *record_ret,
		       struct fathom_fault *why)
{
	struct pool_record record = { 0 };
	json_t *object;
	bool good = true;
	int error = decode("pool", text, bytes, &object, why);

	if (error)
		return error;
	take_name(record.name, name);
	uuid_at(object, "uuid", record.uuid, &good);
	record.size_bytes = number_at(object, "size_bytes", 0, INT64_MAX, &good);
	record.overcommit = boolean_at(object, "overcommit", &good);
	decode_scrub(object, &record, &good);
	record.created_ns = number_at(object, "created_ns", 0, INT64_MAX, &good);
	error = end_decoding(object, good, "pool", why);
	if (error == 0)
		*record_ret = record;
	return error;
}

/* ---- volumes ---- */

static json_t *json_hosts(const struct volume_record *record)
{
	json_t *hosts = json_array();

	must(record->host_count <= POOL_VOLUME_HOSTS_MAX);
	for (uint32_t i = 0; hosts && i < record->host_count; i++) {
		if (json_array_append_new(hosts, json_pack("{s:s}", "nqn", record->hosts[i].nqn)) < 0) {
			json_decref(hosts);
			hosts = NULL;
		}
	}
	return hosts;
}

static json_t *json_origin(const struct volume_record *record)
{
	if (!record->has_origin)
		return json_null();
	return json_pack("{s:o, s:o}", "volume", json_uuid(record->origin_volume), "snapshot",
			 json_uuid(record->origin_snapshot));
}

static const char *const moves[] = {
	[VOLUME_MOVE_NONE] = "",
	[VOLUME_MOVE_INCOMING] = "incoming",
	[VOLUME_MOVE_OUTGOING] = "outgoing",
};

const char *volume_move_text(enum volume_move move)
{
	must((size_t)move < sizeof(moves) / sizeof(moves[0]));
	return moves[move];
}

/* The key is there only during a move. Takes `object`. NULL: out of memory. */
static json_t *with_move(json_t *object, const struct volume_record *record)
{
	if (!object || record->move == VOLUME_MOVE_NONE)
		return object;
	if (json_object_set_new(object, "move", json_string(volume_move_text(record->move))) == 0)
		return object;
	json_decref(object);
	return NULL;
}

/* Keys that former releases do not have: each is there only where it says more than its absence. Takes `object`. */
static json_t *with_upkeep(json_t *object, const struct volume_record *record)
{
	bool good = object;

	if (good && record->allocating)
		good = json_object_set_new(object, "allocating", json_true()) == 0;
	if (good && (record->shares || record->has_origin))
		good = json_object_set_new(object, "shares", json_boolean(record->shares)) == 0;
	if (good)
		return object;
	json_decref(object);
	return NULL;
}

/* A clone of a former release may share blocks. */
static void decode_upkeep(const json_t *object, struct volume_record *record, bool *good)
{
	record->allocating = json_object_get(object, "allocating") && boolean_at(object, "allocating", good);
	record->shares = json_object_get(object, "shares") ? boolean_at(object, "shares", good) : record->has_origin;
}

static void decode_move(const json_t *object, struct volume_record *record, bool *good)
{
	const json_t *value = json_object_get(object, "move");
	const char *text = json_string_value(value);

	if (!value)
		return;
	if (text && strcmp(text, moves[VOLUME_MOVE_INCOMING]) == 0)
		record->move = VOLUME_MOVE_INCOMING;
	else if (text && strcmp(text, moves[VOLUME_MOVE_OUTGOING]) == 0)
		record->move = VOLUME_MOVE_OUTGOING;
	else
		*good = false;
}

int volume_record_encode(const struct volume_record *record, char **text_ret, size_t *bytes_ret)
{
	json_t *object;

	must(record->generation > 0);
	must(record->block_bytes > 0 && record->size_bytes % record->block_bytes == 0);
	object = json_pack("{s:i, s:o, s:o, s:i, s:i, s:b, s:b, s:b, s:o, s:o, s:o}", "version",
			   record_version(record->checksums), "uuid", json_uuid(record->uuid), "size_bytes",
			   json_number_of(record->size_bytes), "block_bytes", (int)record->block_bytes, "generation",
			   (int)record->generation, "thick", record->thick, "read_only", record->read_only, "checksums",
			   record->checksums, "created_ns", json_number_of(record->created_ns), "origin",
			   json_origin(record), "hosts", json_hosts(record));
	return encode("volume", with_upkeep(with_move(object, record), record), text_ret, bytes_ret);
}

static int decode_hosts(const json_t *object, struct volume_record *record, bool *good)
{
	const json_t *hosts = json_object_get(object, "hosts");
	size_t count = json_array_size(hosts);

	*good = *good && json_is_array(hosts) && count <= POOL_VOLUME_HOSTS_MAX;
	if (!*good || count == 0)
		return 0;
	record->hosts = calloc(count, sizeof(*record->hosts));
	if (!record->hosts)
		return -ENOMEM;
	record->host_count = (uint32_t)count;
	for (size_t i = 0; i < count; i++) {
		const char *nqn = json_string_value(json_object_get(json_array_get(hosts, i), "nqn"));

		*good = *good && nqn && text_copy(record->hosts[i].nqn, sizeof(record->hosts[i].nqn), nqn) == 0;
	}
	return 0;
}

static void decode_origin(const json_t *object, struct volume_record *record, bool *good)
{
	const json_t *origin = json_object_get(object, "origin");

	if (json_is_null(origin))
		return;
	record->has_origin = true;
	uuid_at(origin, "volume", record->origin_volume, good);
	uuid_at(origin, "snapshot", record->origin_snapshot, good);
}

int volume_record_decode(const char *name, const char *text, size_t bytes, struct volume_record *record_ret,
			 struct fathom_fault *why)
{
	struct volume_record record = { 0 };
	json_t *object;
	bool good = true;
	int error = decode("volume", text, bytes, &object, why);

	if (error)
		return error;
	take_name(record.name, name);
	uuid_at(object, "uuid", record.uuid, &good);
	record.block_bytes = (uint32_t)number_at(object, "block_bytes", 512, 65536, &good);
	record.size_bytes = number_at(object, "size_bytes", record.block_bytes, INT64_MAX, &good);
	good = good && record.size_bytes % record.block_bytes == 0;
	record.generation = (uint32_t)number_at(object, "generation", 1, INT32_MAX, &good);
	record.thick = boolean_at(object, "thick", &good);
	record.read_only = boolean_at(object, "read_only", &good);
	record.checksums = boolean_at(object, "checksums", &good);
	record.created_ns = number_at(object, "created_ns", 0, INT64_MAX, &good);
	decode_origin(object, &record, &good);
	decode_upkeep(object, &record, &good);
	decode_move(object, &record, &good);
	if (decode_hosts(object, &record, &good) < 0) {
		json_decref(object);
		return fault(why, -ENOMEM, "out of memory");
	}
	error = end_decoding(object, good, "volume", why);
	if (error)
		volume_record_deinit(&record);
	else
		*record_ret = record;
	return error;
}

/* ---- snapshots ---- */

int snapshot_record_encode(const struct snapshot_record *record, char **text_ret, size_t *bytes_ret)
{
	return encode("snapshot",
		      json_pack("{s:i, s:o, s:o, s:o, s:o, s:i, s:b, s:o}", "version", record_version(record->checksums),
				"uuid", json_uuid(record->uuid), "volume", json_uuid(record->volume), "group",
				json_uuid(record->group), "size_bytes", json_number_of(record->size_bytes), "block_bytes",
				(int)record->block_bytes, "checksums", record->checksums, "created_ns",
				json_number_of(record->created_ns)),
		      text_ret, bytes_ret);
}

int snapshot_record_decode(const char *name, const char *text, size_t bytes, struct snapshot_record *record_ret,
			   struct fathom_fault *why)
{
	struct snapshot_record record = { 0 };
	json_t *object;
	bool good = true;
	int error = decode("snapshot", text, bytes, &object, why);

	if (error)
		return error;
	take_name(record.name, name);
	uuid_at(object, "uuid", record.uuid, &good);
	uuid_at(object, "volume", record.volume, &good);
	uuid_at(object, "group", record.group, &good);
	record.block_bytes = (uint32_t)number_at(object, "block_bytes", 512, 65536, &good);
	record.size_bytes = number_at(object, "size_bytes", record.block_bytes, INT64_MAX, &good);
	good = good && record.size_bytes % record.block_bytes == 0;
	record.checksums = boolean_at(object, "checksums", &good);
	record.created_ns = number_at(object, "created_ns", 0, INT64_MAX, &good);
	error = end_decoding(object, good, "snapshot", why);
	if (error == 0)
		*record_ret = record;
	return error;
}

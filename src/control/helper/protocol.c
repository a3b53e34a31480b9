/* SPDX-License-Identifier: BSD-2-Clause */
/* Encoding of the helper's messages. One table lists the fields of each operation, for both directions. */
#include "control/helper/protocol.h"

#include <errno.h>
#include <string.h>

#include "base/bits.h"

enum { REQUEST_MAGIC = 0x51524846 /* "FHRQ" */, REPLY_MAGIC = 0x50524846 /* "FHRP" */ };
enum { MAGIC_AT = 0, BYTES_AT = 4, VERSION_AT = 8, OPERATION_AT = 10, WORD_AT = 12, ID_AT = 16 };

/* A field of a message: a string with its room, a u32 (room 0), or `room` bytes. */
struct field {
	uint16_t offset, room;
	bool is_bytes;
};

static_assert(sizeof(struct helper_request) <= UINT16_MAX, "each offset fits a field");
static_assert(sizeof(struct helper_reply) <= UINT16_MAX, "each offset fits a field");

#define TEXT_OF(type, member)                                                                                              \
	{                                                                                                                  \
		offsetof(struct type, member), sizeof(((struct type *)0)->member), false                                   \
	}
#define U32_OF(type, member)                                                                                               \
	{                                                                                                                  \
		offsetof(struct type, member), 0, false                                                                    \
	}
#define BYTES_OF(type, member)                                                                                             \
	{                                                                                                                  \
		offsetof(struct type, member), sizeof(((struct type *)0)->member), true                                    \
	}
#define FIELD_COUNT_MAX 6

struct operation_row {
	const char *name;
	uint32_t limit_ms;
	struct field request[FIELD_COUNT_MAX], reply[FIELD_COUNT_MAX]; /* a field of zeroes ends the list */
};

#define DEVICE TEXT_OF(helper_request, device)
#define TARGET TEXT_OF(helper_request, target)
#define LABEL TEXT_OF(helper_request, label)
#define FLAGS U32_OF(helper_request, flags)
#define SIGNATURE                                                                                                          \
	TEXT_OF(helper_reply, signature.type), TEXT_OF(helper_reply, signature.label), TEXT_OF(helper_reply, signature.uuid)

static const struct operation_row rows[HELPER_OPERATIONS_END] = {
	[HELPER_PING] = { "ping", 5000, { { 0 } }, { TEXT_OF(helper_reply, version), U32_OF(helper_reply, privileged) } },
	[HELPER_CHECK_FORMAT] = { "check-format",
				  30000,
				  { DEVICE },
				  { U32_OF(helper_reply, format), SIGNATURE, TEXT_OF(helper_reply, damage) } },
	[HELPER_FORMAT] = { "format", 600000, { DEVICE, LABEL, FLAGS }, { U32_OF(helper_reply, format), SIGNATURE } },
	[HELPER_MOUNT] = { "mount", 120000, { DEVICE, TARGET, LABEL }, { U32_OF(helper_reply, already) } },
	[HELPER_UNMOUNT] = { "unmount", 120000, { TARGET }, { U32_OF(helper_reply, already) } },
	[HELPER_READ_LABEL] = { "read-label", 30000, { DEVICE }, { SIGNATURE } },
	[HELPER_PREPARE] = { "prepare", 120000, { DEVICE, FLAGS }, { { 0 } } },
	[HELPER_HEALTH] = { "health",
			    30000,
			    { DEVICE },
			    { BYTES_OF(helper_reply, pages.identify), BYTES_OF(helper_reply, pages.smart),
			      BYTES_OF(helper_reply, pages.slots) } },
	[HELPER_FIRMWARE] = { "firmware",
			      600000,
			      { DEVICE, TARGET, FLAGS, U32_OF(helper_request, slot) },
			      { U32_OF(helper_reply, activation), BYTES_OF(helper_reply, pages.slots) } },
	[HELPER_LED] = { "led", 10000, { DEVICE, FLAGS }, { U32_OF(helper_reply, led) } },
};

static const struct field error_fields[] = {
	TEXT_OF(helper_reply, text), U32_OF(helper_reply, code), TEXT_OF(helper_reply, resolution), { 0 }
};
static_assert(HELPER_HEADER_BYTES + 2 + FAULT_TEXT_BYTES_MAX + 4 + 2 + FAULT_RESOLUTION_BYTES_MAX <=
		      HELPER_FRAME_BYTES_MAX / 2,
	      "the longest error fits a frame");
static const struct field no_fields[] = { { 0 } };

const char *helper_operation_name(enum helper_operation operation)
{
	must(operation >= HELPER_PING && operation < HELPER_OPERATIONS_END);
	return rows[operation].name;
}

int helper_operation_parse(const char *name, enum helper_operation *operation_ret)
{
	for (int i = HELPER_PING; i < HELPER_OPERATIONS_END; i++) {
		if (strcmp(rows[i].name, name) == 0) {
			*operation_ret = (enum helper_operation)i;
			return 0;
		}
	}
	return -EINVAL;
}

uint32_t helper_operation_limit_ms(enum helper_operation operation)
{
	must(operation >= HELPER_PING && operation < HELPER_OPERATIONS_END);
	return rows[operation].limit_ms;
}

void helper_reply_fail(struct helper_reply *reply, enum helper_operation operation, uint64_t id,
		       const struct fathom_fault *why)
{
	must(why->error < 0);
	must(why->code >= 0);
	must(operation < HELPER_OPERATIONS_END);
	*reply =
		(struct helper_reply){ .operation = operation, .id = id, .error = why->error, .code = (uint32_t)why->code };
	memcpy(reply->text, why->text, sizeof(reply->text));
	if (why->code)
		memcpy(reply->resolution, why->resolution, sizeof(reply->resolution));
}

void helper_reply_fault(const struct helper_reply *reply, struct fathom_fault *why_ret)
{
	must(reply->error <= 0);
	must(reply->code <= INT32_MAX);
	static_assert(sizeof(why_ret->text) == sizeof(reply->text), "a fault's text fits");
	static_assert(sizeof(why_ret->resolution) == sizeof(reply->resolution), "its resolution, too");
	*why_ret = (struct fathom_fault){ .error = reply->error, .code = (int)reply->code };
	memcpy(why_ret->text, reply->text, sizeof(reply->text));
	memcpy(why_ret->resolution, reply->resolution, sizeof(reply->resolution));
}

/* Little-endian numbers of `bytes` bytes. */
static void put_le(uint8_t *at, size_t bytes, uint64_t number)
{
	must(bytes <= sizeof(number));
	must(bytes == sizeof(number) || number >> 8 * bytes == 0); /* nothing is cut off */
	for (size_t i = 0; i < bytes; i++)
		at[i] = (uint8_t)(number >> 8 * i);
}

static uint64_t get_le(const uint8_t *at, size_t bytes)
{
	uint64_t number = 0;

	must(bytes <= sizeof(number));
	for (size_t i = 0; i < bytes; i++)
		number |= (uint64_t)at[i] << 8 * i;
	return number;
}

static bool is_end(const struct field *field)
{
	return field->offset == 0 && field->room == 0;
}

/* The header of a message. */
struct head {
	uint32_t magic;
	enum helper_operation operation;
	uint32_t word; /* of a request: its time-out; of a reply: its error */
	uint64_t id;
};

static size_t encode_message(uint8_t *frame, const struct head *head, const struct field *fields, const void *message)
{
	size_t used = HELPER_HEADER_BYTES;

	must(head->magic == REQUEST_MAGIC || head->magic == REPLY_MAGIC);
	for (; !is_end(fields); fields++) {
		const uint8_t *value = (const uint8_t *)message + fields->offset;

		if (fields->room == 0) {
			uint32_t number;

			memcpy(&number, value, sizeof(number));
			put_le(frame + used, 4, number);
			used += 4;
		} else if (fields->is_bytes) {
			memcpy(frame + used, value, fields->room);
			used += fields->room;
		} else {
			size_t length = strnlen((const char *)value, fields->room);

			must(length < fields->room);
			put_le(frame + used, 2, length);
			memcpy(frame + used + 2, value, length);
			used += 2 + length;
		}
		must(used <= HELPER_FRAME_BYTES_MAX / 2); /* the longest message needs at most half a frame */
	}
	put_le(frame + MAGIC_AT, 4, head->magic);
	put_le(frame + BYTES_AT, 4, used);
	put_le(frame + VERSION_AT, 2, HELPER_PROTOCOL_VERSION);
	put_le(frame + OPERATION_AT, 2, head->operation);
	put_le(frame + WORD_AT, 4, head->word);
	put_le(frame + ID_AT, 8, head->id);
	return used;
}

/* Operation 0: an answer to a malformed request, which has only the fields of an error. */
static const struct field *reply_fields(unsigned int operation, int error)
{
	if (error)
		return error_fields;
	return operation == 0 ? no_fields : rows[operation].reply;
}

size_t helper_encode_request(const struct helper_request *request, uint8_t frame[HELPER_FRAME_BYTES_MAX])
{
	const struct head head = { REQUEST_MAGIC, request->operation, request->timeout_ms, request->id };

	must(request->operation >= HELPER_PING);
	must(request->operation < HELPER_OPERATIONS_END);
	return encode_message(frame, &head, rows[request->operation].request, request);
}

size_t helper_encode_reply(const struct helper_reply *reply, uint8_t frame[HELPER_FRAME_BYTES_MAX])
{
	const struct head head = { REPLY_MAGIC, reply->operation, (uint32_t)-reply->error, reply->id };

	must(reply->operation < HELPER_OPERATIONS_END);
	must(reply->error <= 0);
	must(reply->operation != 0 || reply->error != 0);
	must(reply->format < STORAGE_FORMATS);
	must(reply->activation < STORAGE_ACTIVATIONS);
	return encode_message(frame, &head, reply_fields(reply->operation, reply->error), reply);
}

static int malformed(struct fathom_fault *why, const char *what)
{
	return fault(why, -EBADMSG, "a malformed message: %s", what);
}

static int decode_header(const uint8_t *frame, size_t bytes, uint32_t magic, uint64_t *id_ret, struct fathom_fault *why)
{
	*id_ret = 0;
	if (bytes < HELPER_HEADER_BYTES)
		return malformed(why, "it is shorter than its header");
	if (get_le(frame + MAGIC_AT, 4) != magic)
		return malformed(why, "its magic number is wrong");
	*id_ret = get_le(frame + ID_AT, 8);
	if (bytes > HELPER_FRAME_BYTES_MAX || get_le(frame + BYTES_AT, 4) > HELPER_FRAME_BYTES_MAX)
		return fault(why, -EMSGSIZE, "a message of more than %d bytes", HELPER_FRAME_BYTES_MAX);
	if (get_le(frame + VERSION_AT, 2) != HELPER_PROTOCOL_VERSION)
		return fault(
			why, -EPROTONOSUPPORT,
			"a message of protocol version %u, this program has %d: install server and helper of one release",
			(unsigned int)get_le(frame + VERSION_AT, 2), HELPER_PROTOCOL_VERSION);
	if (get_le(frame + BYTES_AT, 4) != bytes)
		return malformed(why, "its length field is wrong");
	return 0;
}

static int decode_fields(const uint8_t *frame, size_t bytes, const struct field *fields, void *message,
			 struct fathom_fault *why)
{
	size_t at = HELPER_HEADER_BYTES;

	must(bytes >= HELPER_HEADER_BYTES);
	must(bytes <= HELPER_FRAME_BYTES_MAX);
	for (; !is_end(fields); fields++) {
		uint8_t *value = (uint8_t *)message + fields->offset;
		size_t length;

		if (fields->room == 0) {
			uint32_t number;

			if (bytes - at < 4)
				return malformed(why, "a number is cut short");
			number = (uint32_t)get_le(frame + at, 4);
			memcpy(value, &number, sizeof(number));
			at += 4;
			continue;
		}
		if (fields->is_bytes) {
			if (bytes - at < fields->room)
				return malformed(why, "bytes are cut short");
			memcpy(value, frame + at, fields->room);
			at += fields->room;
			continue;
		}
		if (bytes - at < 2)
			return malformed(why, "a string is cut short");
		length = get_le(frame + at, 2);
		at += 2;
		if (length > bytes - at)
			return malformed(why, "a string is cut short");
		if (length >= fields->room)
			return malformed(why, "a string is too long");
		if (memchr(frame + at, 0, length))
			return malformed(why, "a string contains a NUL");
		memcpy(value, frame + at, length);
		value[length] = '\0';
		at += length;
	}
	must(at <= bytes);
	return at == bytes ? 0 : malformed(why, "bytes follow its end");
}

static_assert(HELPER_HEADER_BYTES == ID_AT + 8, "the header ends with the id");

int helper_decode_request(const uint8_t *frame, size_t bytes, struct helper_request *request_ret, struct fathom_fault *why)
{
	unsigned int operation;
	int error;

	memset(request_ret, 0, sizeof(*request_ret));
	error = decode_header(frame, bytes, REQUEST_MAGIC, &request_ret->id, why);
	if (error)
		return error;
	operation = (unsigned int)get_le(frame + OPERATION_AT, 2);
	if (operation < HELPER_PING || operation >= HELPER_OPERATIONS_END)
		return fault(why, -EOPNOTSUPP, "unknown operation %u", operation);
	request_ret->operation = (enum helper_operation)operation;
	request_ret->timeout_ms = (uint32_t)get_le(frame + WORD_AT, 4);
	return decode_fields(frame, bytes, rows[operation].request, request_ret, why);
}

int helper_decode_reply(const uint8_t *frame, size_t bytes, struct helper_reply *reply_ret, struct fathom_fault *why)
{
	unsigned int operation;
	uint32_t word;
	int error;

	memset(reply_ret, 0, sizeof(*reply_ret));
	error = decode_header(frame, bytes, REPLY_MAGIC, &reply_ret->id, why);
	if (error)
		return error;
	operation = (unsigned int)get_le(frame + OPERATION_AT, 2);
	word = (uint32_t)get_le(frame + WORD_AT, 4);
	if (operation >= HELPER_OPERATIONS_END || word > INT32_MAX || (operation == 0 && word == 0))
		return malformed(why, "a reply to no operation");
	reply_ret->operation = (enum helper_operation)operation;
	reply_ret->error = -(int)word;
	error = decode_fields(frame, bytes, reply_fields(operation, reply_ret->error), reply_ret, why);
	if (!error && reply_ret->code > INT32_MAX)
		return malformed(why, "an unknown fault code");
	if (!error && reply_ret->format >= STORAGE_FORMATS)
		return malformed(why, "an unknown format");
	if (!error && reply_ret->activation >= STORAGE_ACTIVATIONS)
		return malformed(why, "an unknown activation");
	return error;
}

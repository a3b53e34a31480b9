/* SPDX-License-Identifier: BSD-2-Clause */
/* params - decode parameters by a table. A message names the parameter and the values that are allowed. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/log.h"
#include "base/text.h"
#include "rpc/jsonrpc/internal.h"

enum { LIST_BYTES_MAX = 300, PATH_BYTES_MAX = 128, IGNORED_LOGGED_MAX = 128, UUID_BYTES = 16 };

/* The object that is decoded. Messages name its fields like "listen_address.traddr". */
struct decoder {
	const char *prefix; /* "" or "listen_address." */
	struct fathom_fault *why;
};

static int read_object(const struct decoder *decoder, const json_t *params, const struct rpc_param *fields, void *into);

static const char *type_name(const json_t *value)
{
	switch (json_typeof(value)) {
	case JSON_OBJECT:
		return "an object";
	case JSON_ARRAY:
		return "an array";
	case JSON_STRING:
		return "a string";
	case JSON_INTEGER:
		return "a number";
	case JSON_REAL:
		return "a fraction";
	case JSON_TRUE:
	case JSON_FALSE:
		return "a boolean";
	case JSON_NULL:
		return "null";
	}
	return "?";
}

static void fill_wrong_type(const struct decoder *decoder, const struct rpc_param *field, const json_t *value,
			    const char *wanted)
{
	fill_fault(decoder->why, -EINVAL, "parameter \"%s%s\" is %s, not %s", decoder->prefix, field->name,
		   type_name(value), wanted);
}

static int wrong_type(const struct decoder *decoder, const struct rpc_param *field, const json_t *value, const char *wanted)
{
	fill_wrong_type(decoder, field, value, wanted);
	return -EINVAL;
}

/* `names` as "a, b, c", cut to fit. */
static void list_add(char *list, size_t list_bytes, const char *name)
{
	size_t used = strlen(list);

	snprintf(list + used, list_bytes - used, "%s%s", used > 0 ? ", " : "", name);
}

static int read_number(const struct decoder *decoder, const struct rpc_param *field, const json_t *value, void *into)
{
	static const struct {
		int64_t min;
		uint64_t max;
	} ranges[] = {
		[RPC_U8] = { 0, UINT8_MAX },   [RPC_U16] = { 0, UINT16_MAX },	     [RPC_U32] = { 0, UINT32_MAX },
		[RPC_U64] = { 0, UINT64_MAX }, [RPC_I32] = { INT32_MIN, INT32_MAX },
	};
	const int64_t low = field->has_range ? field->low : ranges[field->type].min;
	const uint64_t high = field->has_range ? field->high : ranges[field->type].max;
	uint64_t number;
	bool negative = false;

	if (json_is_integer(value)) {
		negative = json_integer_value(value) < 0;
		number = (uint64_t)json_integer_value(value);
	} else if (!(json_is_string(value) && field->type == RPC_U64 &&
		     text_parse_u64(json_string_value(value), 10, UINT64_MAX, &number) == 0)) {
		return wrong_type(decoder, field, value, "a whole number");
	}
	if (negative ? (int64_t)number < low : number > high || (low > 0 && number < (uint64_t)low))
		return fault(decoder->why, -EINVAL, "parameter \"%s%s\" is %s%llu; it goes from %lld to %llu",
			     decoder->prefix, field->name, negative ? "-" : "",
			     (unsigned long long)(negative ? 0 - number : number), (long long)low,
			     (unsigned long long)high);
	switch (field->type) {
	case RPC_U8:
		*(uint8_t *)into = (uint8_t)number;
		break;
	case RPC_U16:
		*(uint16_t *)into = (uint16_t)number;
		break;
	case RPC_U32:
		*(uint32_t *)into = (uint32_t)number;
		break;
	case RPC_I32:
		*(int32_t *)into = (int32_t)number;
		break;
	default:
		must(field->type == RPC_U64);
		*(uint64_t *)into = number;
	}
	return 0;
}

static int read_enum(const struct decoder *decoder, const struct rpc_param *field, const json_t *value, void *into)
{
	char list[LIST_BYTES_MAX] = "";

	if (!json_is_string(value))
		return wrong_type(decoder, field, value, "a string");
	for (int i = 0; field->names[i]; i++) {
		if (strcasecmp(field->names[i], json_string_value(value)) == 0) {
			*(int *)into = i;
			return 0;
		}
		list_add(list, sizeof(list), field->names[i]);
	}
	return fault(decoder->why, -EINVAL, "parameter \"%s%s\" is \"%.64s\", not one of %s", decoder->prefix, field->name,
		     json_string_value(value), list);
}

static int read_names(const struct decoder *decoder, const struct rpc_param *field, const json_t *value)
{
	const json_t *name;
	size_t index;
	int ignored, error = 0;

	must(field->ignored || field->rejected);
	if (!json_is_array(value))
		return wrong_type(decoder, field, value, "an array of names");
	json_array_foreach (value, index, name) {
		error = read_enum(decoder, field, name, &ignored);
		if (error)
			break;
	}
	return error;
}

/* NULL, and an explanation: it is not a string, or it is empty. */
static const char *read_string(const struct decoder *decoder, const struct rpc_param *field, const json_t *value)
{
	if (!json_is_string(value))
		fill_wrong_type(decoder, field, value, "a string");
	else if (json_string_length(value) == 0)
		fill_fault(decoder->why, -EINVAL, "parameter \"%s%s\" is an empty string", decoder->prefix, field->name);
	else
		return json_string_value(value);
	return NULL;
}

/* `digits` has two hexadecimal digits for each of `bytes` bytes. */
static void copy_hex(uint8_t *to, const char *digits, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++) {
		unsigned int byte;

		must(sscanf(digits + i * 2, "%2x", &byte) == 1);
		to[i] = (uint8_t)byte;
	}
}

static int read_hex(const struct decoder *decoder, const struct rpc_param *field, const char *text, uint8_t *into)
{
	must(field->bytes > 0);
	if (strlen(text) != field->bytes * 2 || strspn(text, "0123456789abcdefABCDEF") != field->bytes * 2)
		return fault(decoder->why, -EINVAL, "\"%s%s\" is \"%.64s\", not %zu hexadecimal digits", decoder->prefix,
			     field->name, text, field->bytes * 2);
	copy_hex(into, text, field->bytes);
	return 0;
}

static int read_uuid(const struct decoder *decoder, const struct rpc_param *field, const char *text, uint8_t *into)
{
	char digits[UUID_BYTES * 2 + 1];
	size_t used = 0, at = 0;

	for (; text[at] && used < sizeof(digits) - 1; at++) {
		if ((at == 8 || at == 13 || at == 18 || at == 23) != (text[at] == '-'))
			break;
		if (text[at] != '-')
			digits[used++] = text[at];
	}
	digits[used] = '\0';
	if (used != sizeof(digits) - 1 || text[at] || strspn(digits, "0123456789abcdefABCDEF") != used)
		return fault(decoder->why, -EINVAL, "\"%s%s\" is \"%.64s\", not a UUID", decoder->prefix, field->name,
			     text);
	copy_hex(into, digits, UUID_BYTES);
	return 0;
}

static int read_text(const struct decoder *decoder, const struct rpc_param *field, const char *text, char *into)
{
	must(field->bytes > 1);
	if (text_copy(into, field->bytes, text) == 0)
		return 0;
	return fault(decoder->why, -EINVAL, "\"%s%s\" has more than %zu characters", decoder->prefix, field->name,
		     field->bytes - 1);
}

/* The types that are a string in JSON. */
static int read_string_value(const struct decoder *decoder, const struct rpc_param *field, const json_t *value, void *into)
{
	const char *text = read_string(decoder, field, value);

	if (!text)
		return -EINVAL;
	switch (field->type) {
	case RPC_HEX:
		return read_hex(decoder, field, text, into);
	case RPC_UUID:
		return read_uuid(decoder, field, text, into);
	case RPC_TEXT:
		return read_text(decoder, field, text, into);
	default:
		must(field->type == RPC_STRING);
		*(const char **)into = text;
		return 0;
	}
}

static int read_inner(const struct decoder *decoder, const struct rpc_param *field, const json_t *value, void *into)
{
	char prefix[PATH_BYTES_MAX];
	const struct decoder inner = { prefix, decoder->why };

	if (!json_is_object(value))
		return wrong_type(decoder, field, value, "an object");
	snprintf(prefix, sizeof(prefix), "%s%s.", decoder->prefix, field->name);
	return read_object(&inner, value, field->fields, into);
}

static int read_value(const struct decoder *decoder, const struct rpc_param *field, const json_t *value, void *into)
{
	switch (field->type) {
	case RPC_BOOL:
		if (!json_is_boolean(value))
			return wrong_type(decoder, field, value, "true or false");
		*(bool *)into = json_is_true(value);
		return 0;
	case RPC_STRING:
	case RPC_TEXT:
	case RPC_HEX:
	case RPC_UUID:
		return read_string_value(decoder, field, value, into);
	case RPC_ENUM:
		return read_enum(decoder, field, value, into);
	case RPC_OBJECT:
		return read_inner(decoder, field, value, into);
	case RPC_JSON:
		*(const json_t **)into = value;
		return 0;
	case RPC_NAMES:
		return read_names(decoder, field, value);
	default:
		return read_number(decoder, field, value, into);
	}
}

static const struct rpc_param *field_find(const struct rpc_param *fields, const char *name)
{
	for (; fields->name; fields++) {
		if (strcmp(fields->name, name) == 0)
			return fields;
	}
	return NULL;
}

static int check_known(const struct decoder *decoder, const json_t *params, const struct rpc_param *fields)
{
	const char *name;
	json_t *value;

	json_object_foreach ((json_t *)params, name, value) {
		char list[LIST_BYTES_MAX] = "";

		if (field_find(fields, name))
			continue;
		for (const struct rpc_param *field = fields; field->name; field++)
			list_add(list, sizeof(list), field->name);
		return fault(decoder->why, -EINVAL, "no parameter \"%s%.64s\" here; %s%s", decoder->prefix, name,
			     list[0] ? "there are " : "there are none", list);
	}
	return 0;
}

static int read_object(const struct decoder *decoder, const json_t *params, const struct rpc_param *fields, void *into)
{
	int error = check_known(decoder, params, fields);

	for (const struct rpc_param *field = fields; field->name && error == 0; field++) {
		const json_t *value = json_object_get(params, field->name);
		uint64_t dropped[2]; /* for any type but RPC_OBJECT, whose fields are dropped one by one */
		bool is_dropped = field->ignored || field->rejected;

		static_assert(sizeof(dropped) >= UUID_BYTES, "the largest type that may be dropped");
		must(!is_dropped || (field->type != RPC_TEXT && field->type != RPC_HEX));
		if (value && !json_is_null(value))
			error = read_value(decoder, field, value,
					   is_dropped ? (char *)dropped : (char *)into + field->offset);
		else if (field->required)
			error = fault(decoder->why, -EINVAL, "parameter \"%s%s\" is missing", decoder->prefix, field->name);
	}
	return error;
}

/* ---- rejected values ---- */

static bool is_rejected(const struct rpc_param *field, const json_t *value)
{
	const char *text = json_string_value(value);

	if (field->rejected_value)
		return text && strcasecmp(text, field->rejected_value) == 0;
	if (json_is_integer(value))
		return json_integer_value(value) != 0;
	if (json_is_array(value))
		return json_array_size(value) > 0;
	if (text)
		return !field->allowed_value || strcasecmp(text, field->allowed_value) != 0;
	return json_is_true(value);
}

/* The types of `params` were checked. */
static int check_rejected(const struct decoder *decoder, const json_t *params, const struct rpc_param *fields)
{
	int error = 0;

	for (const struct rpc_param *field = fields; field->name && error == 0; field++) {
		const json_t *value = json_object_get(params, field->name);

		if (field->type == RPC_OBJECT && json_is_object(value)) {
			char prefix[PATH_BYTES_MAX];
			const struct decoder inner = { prefix, decoder->why };

			snprintf(prefix, sizeof(prefix), "%s%s.", decoder->prefix, field->name);
			error = check_rejected(&inner, value, field->fields);
		} else if (field->rejected && value && is_rejected(field, value)) {
			error = fault(decoder->why, -EINVAL, "\"%s%s\": %s", decoder->prefix, field->name, field->reason);
		}
	}
	return error;
}

/* ---- the whole ---- */

int rpc_params_read(const json_t *params, const struct rpc_param *fields, void *into, struct fathom_fault *why)
{
	static const struct rpc_param none[] = { { .name = NULL } };
	const struct decoder decoder = { "", why };
	int error;

	if (!json_is_object(params))
		return fault(why, -EINVAL, "\"params\" must be an object; this is %s", type_name(params));
	if (!fields)
		fields = none;
	error = read_object(&decoder, params, fields, into);
	return error ? error : check_rejected(&decoder, params, fields);
}

/* Log once for each parameter that it is ignored. */
static void log_ignored(const char *method, const json_t *params, const struct rpc_param *fields)
{
	static const struct rpc_param *logged[IGNORED_LOGGED_MAX];
	static size_t logged_count;

	for (const struct rpc_param *field = fields; field->name; field++) {
		const json_t *value = json_object_get(params, field->name);
		size_t i = 0;

		if (!field->ignored || !value || json_is_null(value) || json_is_false(value))
			continue;
		while (i < logged_count && logged[i] != field)
			i++;
		if (i < logged_count || logged_count == IGNORED_LOGGED_MAX)
			continue;
		logged[logged_count++] = field;
		log_notice("%s: the parameter \"%s\" has no meaning here", method, field->name);
	}
}

bool rpc_params(struct rpc_request *request, const json_t *params, const struct rpc_param *fields, void *into)
{
	struct fathom_fault why;

	if (rpc_params_read(params, fields, into, &why) == 0) {
		if (fields)
			log_ignored(rpc_request_method(request), params, fields);
		return true;
	}
	rpc_error(request, RPC_CODE_INVALID_PARAMETERS, "Invalid parameters: %s", why.text);
	return false;
}

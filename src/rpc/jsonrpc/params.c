/* SPDX-License-Identifier: BSD-2-Clause */
/* params - decode parameters by a table. A message names the parameter and the values that are allowed. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/log.h"
#include "base/text.h"
#include "rpc/jsonrpc/internal.h"

enum { LIST_BYTES_MAX = 300, PATH_BYTES_MAX = 128, MEANINGLESS_MAX = 128 };

/* The object that is being decoded. Messages name its fields like "listen_address.traddr". */
struct reading {
	const char *prefix; /* "" or "listen_address." */
	struct fathom_fault *why;
};

static int read_object(const struct reading *reading, const json_t *params, const struct rpc_param *fields, void *into);

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

static int wrong_type(const struct reading *reading, const struct rpc_param *field, const json_t *value, const char *wanted)
{
	return fault(reading->why, -EINVAL, "parameter \"%s%s\" is %s, not %s", reading->prefix, field->name,
		     type_name(value), wanted);
}

/* `names` as "a, b, c", cut to fit. */
static void list_add(char *list, size_t list_bytes, const char *name)
{
	size_t used = strlen(list);

	snprintf(list + used, list_bytes - used, "%s%s", used > 0 ? ", " : "", name);
}

static int read_number(const struct reading *reading, const struct rpc_param *field, const json_t *value, void *into)
{
	static const struct {
		int64_t min;
		uint64_t max;
	} ranges[] = {
		[RPC_U8] = { 0, UINT8_MAX },   [RPC_U16] = { 0, UINT16_MAX },	     [RPC_U32] = { 0, UINT32_MAX },
		[RPC_U64] = { 0, UINT64_MAX }, [RPC_I32] = { INT32_MIN, INT32_MAX },
	};
	uint64_t number;
	bool negative = false;

	if (json_is_integer(value)) {
		negative = json_integer_value(value) < 0;
		number = (uint64_t)json_integer_value(value);
	} else if (!(json_is_string(value) && field->type == RPC_U64 &&
		     text_parse_u64(json_string_value(value), 10, UINT64_MAX, &number) == 0)) {
		return wrong_type(reading, field, value, "a whole number");
	}
	if (negative ? (int64_t)number < ranges[field->type].min : number > ranges[field->type].max)
		return fault(reading->why, -EINVAL, "parameter \"%s%s\" is %s%llu; it goes from %lld to %llu",
			     reading->prefix, field->name, negative ? "-" : "",
			     (unsigned long long)(negative ? 0 - number : number), (long long)ranges[field->type].min,
			     (unsigned long long)ranges[field->type].max);
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

static int read_enum(const struct reading *reading, const struct rpc_param *field, const json_t *value, void *into)
{
	char list[LIST_BYTES_MAX] = "";

	if (!json_is_string(value))
		return wrong_type(reading, field, value, "a string");
	for (int i = 0; field->names[i]; i++) {
		if (strcasecmp(field->names[i], json_string_value(value)) == 0) {
			*(int *)into = i;
			return 0;
		}
		list_add(list, sizeof(list), field->names[i]);
	}
	return fault(reading->why, -EINVAL, "parameter \"%s%s\" is \"%.64s\", not one of %s", reading->prefix, field->name,
		     json_string_value(value), list);
}

static int read_names(const struct reading *reading, const struct rpc_param *field, const json_t *value)
{
	const json_t *name;
	size_t index;
	int ignored, error = 0;

	must(field->meaningless);
	if (!json_is_array(value))
		return wrong_type(reading, field, value, "an array of names");
	json_array_foreach (value, index, name) {
		error = read_enum(reading, field, name, &ignored);
		if (error)
			break;
	}
	return error;
}

static int read_string(const struct reading *reading, const struct rpc_param *field, const json_t *value, void *into)
{
	if (!json_is_string(value))
		return wrong_type(reading, field, value, "a string");
	if (json_string_length(value) == 0 && !field->may_be_empty)
		return fault(reading->why, -EINVAL, "parameter \"%s%s\" is an empty string", reading->prefix, field->name);
	*(const char **)into = json_string_value(value);
	return 0;
}

static int read_inner(const struct reading *reading, const struct rpc_param *field, const json_t *value, void *into)
{
	char prefix[PATH_BYTES_MAX];
	const struct reading inner = { prefix, reading->why };

	if (!json_is_object(value))
		return wrong_type(reading, field, value, "an object");
	snprintf(prefix, sizeof(prefix), "%s%s.", reading->prefix, field->name);
	return read_object(&inner, value, field->fields, into);
}

static int read_value(const struct reading *reading, const struct rpc_param *field, const json_t *value, void *into)
{
	switch (field->type) {
	case RPC_BOOL:
		if (!json_is_boolean(value))
			return wrong_type(reading, field, value, "true or false");
		*(bool *)into = json_is_true(value);
		return 0;
	case RPC_STRING:
		return read_string(reading, field, value, into);
	case RPC_ENUM:
		return read_enum(reading, field, value, into);
	case RPC_OBJECT:
		return read_inner(reading, field, value, into);
	case RPC_JSON:
		*(const json_t **)into = value;
		return 0;
	case RPC_NAMES:
		return read_names(reading, field, value);
	default:
		return read_number(reading, field, value, into);
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

static int check_known(const struct reading *reading, const json_t *params, const struct rpc_param *fields)
{
	const char *name;
	json_t *value;

	json_object_foreach ((json_t *)params, name, value) {
		char list[LIST_BYTES_MAX] = "";

		if (field_find(fields, name))
			continue;
		for (const struct rpc_param *field = fields; field->name; field++)
			list_add(list, sizeof(list), field->name);
		return fault(reading->why, -EINVAL, "no parameter \"%s%.64s\" here; %s%s", reading->prefix, name,
			     list[0] ? "there are " : "there are none", list);
	}
	return 0;
}

static int read_object(const struct reading *reading, const json_t *params, const struct rpc_param *fields, void *into)
{
	int error = check_known(reading, params, fields);

	for (const struct rpc_param *field = fields; field->name && error == 0; field++) {
		const json_t *value = json_object_get(params, field->name);
		uint64_t dropped; /* large enough for any type but RPC_OBJECT, whose fields are ignored one by one */

		static_assert(sizeof(dropped) >= sizeof(const char *), "likewise");
		if (value && !json_is_null(value))
			error = read_value(reading, field, value,
					   field->meaningless ? (char *)&dropped : (char *)into + field->offset);
		else if (field->required)
			error = fault(reading->why, -EINVAL, "parameter \"%s%s\" is missing", reading->prefix, field->name);
	}
	return error;
}

int rpc_params_read(const json_t *params, const struct rpc_param *fields, void *into, struct fathom_fault *why)
{
	static const struct rpc_param none[] = { RPC_PARAM_END };
	const struct reading reading = { "", why };

	if (!json_is_object(params))
		return fault(why, -EINVAL, "parameters are given by name, in an object; this is %s", type_name(params));
	return read_object(&reading, params, fields ? fields : none, into);
}

/* Logged once for each. */
static void say_meaningless(const char *method, const json_t *params, const struct rpc_param *fields)
{
	static const struct rpc_param *said[MEANINGLESS_MAX];
	static size_t said_count;

	for (const struct rpc_param *field = fields; field->name; field++) {
		const json_t *value = json_object_get(params, field->name);
		size_t i = 0;

		if (!field->meaningless || !value || json_is_null(value) || json_is_false(value))
			continue;
		while (i < said_count && said[i] != field)
			i++;
		if (i < said_count || said_count == MEANINGLESS_MAX)
			continue;
		said[said_count++] = field;
		log_notice("%s: the parameter \"%s\" has no meaning here", method, field->name);
	}
}

bool rpc_params(struct rpc_request *request, const json_t *params, const struct rpc_param *fields, void *into)
{
	struct fathom_fault why;

	if (rpc_params_read(params, fields, into, &why) == 0) {
		if (fields)
			say_meaningless(rpc_request_method(request), params, fields);
		return true;
	}
	rpc_error(request, RPC_CODE_INVALID_PARAMETERS, "Invalid parameters: %s", why.text);
	return false;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Parse values and store them in the structure; describe the allowed values. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "control/config/internal.h"

/* config_set_defaults() uses the order: a type before STRINGS has one scalar as its value */
static_assert(CONFIG_BOOL < CONFIG_STRINGS && CONFIG_NUMBER < CONFIG_STRINGS && CONFIG_BYTES < CONFIG_STRINGS, "scalars");
static_assert(CONFIG_STRING < CONFIG_STRINGS && CONFIG_CHOICE < CONFIG_STRINGS, "scalars");
static_assert(CONFIG_MAP > CONFIG_STRINGS && CONFIG_LIST > CONFIG_STRINGS, "no scalars");

static void *place_of(const struct config_key *key, void *target)
{
	return (char *)target + key->offset;
}

static uint64_t max_of(const struct config_key *key)
{
	must(key->type == CONFIG_NUMBER || key->type == CONFIG_BYTES);
	return key->max ? key->max : UINT64_MAX;
}

const char *config_expected(const struct config_key *key, char *text)
{
	size_t used = 0;

	switch (key->type) {
	case CONFIG_BOOL:
		snprintf(text, CONFIG_EXPECTED_BYTES, "true or false");
		break;
	case CONFIG_NUMBER:
	case CONFIG_BYTES:
		if (key->max || key->min)
			snprintf(text, CONFIG_EXPECTED_BYTES, "%s from %" PRIu64 " to %" PRIu64,
				 key->type == CONFIG_NUMBER ? "a number" : "a size in bytes", key->min, max_of(key));
		else
			snprintf(text, CONFIG_EXPECTED_BYTES,
				 key->type == CONFIG_NUMBER ? "a number" : "a size: 4096, 16MiB, 2GiB");
		break;
	case CONFIG_CHOICE:
		text[0] = '\0';
		for (size_t i = 0; key->choices[i] && used < CONFIG_EXPECTED_BYTES; i++) {
			const char *between = i == 0 ? "" : key->choices[i + 1] ? ", " : " or ";

			used += (size_t)snprintf(text + used, CONFIG_EXPECTED_BYTES - used, "%s%s", between,
						 key->choices[i]);
		}
		break;
	case CONFIG_STRING:
		snprintf(text, CONFIG_EXPECTED_BYTES, "a text");
		break;
	case CONFIG_STRINGS:
		snprintf(text, CONFIG_EXPECTED_BYTES, "a list: [one, two], or each behind a dash");
		break;
	case CONFIG_MAP:
		snprintf(text, CONFIG_EXPECTED_BYTES, "keys below it, indented");
		break;
	case CONFIG_LIST:
		snprintf(text, CONFIG_EXPECTED_BYTES, "a list: its items each behind a dash");
		break;
	}
	return text;
}

static int parse_number(const struct config_key *key, const char *value, uint64_t *number_ret)
{
	uint64_t number = 0;
	int error;

	must(key->min <= max_of(key)); /* else no value is valid */
	if (key->type == CONFIG_BYTES)
		error = text_parse_bytes(value, &number);
	else if (strncmp(value, "0x", 2) == 0)
		error = text_parse_u64(value, 16, UINT64_MAX, &number);
	else
		error = text_parse_u64(value, 10, UINT64_MAX, &number);
	if (error < 0 || number < key->min || number > max_of(key))
		return -EINVAL;
	*number_ret = number;
	return 0;
}

static int parse_choice(const struct config_key *key, const char *value, uint32_t *choice_ret)
{
	must(key->type == CONFIG_CHOICE);
	for (uint32_t i = 0; key->choices[i]; i++) {
		if (strcmp(value, key->choices[i]) == 0) {
			*choice_ret = i;
			return 0;
		}
	}
	return -EINVAL;
}

static int parse_bool(const char *value, bool *bool_ret)
{
	if (strcmp(value, "true") != 0 && strcmp(value, "false") != 0)
		return -EINVAL;
	*bool_ret = *value == 't';
	return 0;
}

/* Replace the string of a STRING key, or append to the list of a STRINGS key. */
static int set_string(const struct config_key *key, void *place, const char *value, char *expected_ret)
{
	const char *wrong = strlen(value) > CONFIG_STRING_BYTES_MAX ? "fewer letters"
			    : key->check			    ? key->check(value)
								    : NULL;
	struct config_strings *strings = place;
	char *copy, **items;

	must(key->type == CONFIG_STRING || key->type == CONFIG_STRINGS);
	if (wrong) {
		snprintf(expected_ret, CONFIG_EXPECTED_BYTES, "%s", wrong);
		return -EINVAL;
	}
	copy = strdup(value);
	if (!copy)
		return -ENOMEM;
	if (key->type == CONFIG_STRING) {
		free(*(char **)place);
		*(char **)place = copy;
		return 0;
	}
	items = realloc(strings->items, (strings->count + 1) * sizeof(*items));
	if (!items) {
		free(copy);
		return -ENOMEM;
	}
	strings->items = items;
	strings->items[strings->count++] = copy;
	return 0;
}

int config_set(const struct config_key *key, void *target, const char *value, bool is_quoted, char *expected_ret)
{
	void *place = place_of(key, target);
	bool is_text = key->type == CONFIG_STRING || key->type == CONFIG_STRINGS;

	must(key->type <= CONFIG_STRINGS); /* a map and a list have no scalar value */
	config_expected(key, expected_ret);
	/* no value; "~" and "null" mean no value to other YAML parsers */
	if (!is_quoted && (!*value || strcmp(value, "~") == 0 || strcmp(value, "null") == 0))
		return -EINVAL;
	if (is_text)
		return set_string(key, place, value, expected_ret);
	if (is_quoted && key->type != CONFIG_CHOICE)
		return -EINVAL;
	if (key->type == CONFIG_BOOL)
		return parse_bool(value, place);
	if (key->type == CONFIG_CHOICE)
		return parse_choice(key, value, place);
	return parse_number(key, value, place);
}

/* A key in its table: the fields that its type requires, and no others. */
static void check_key(const struct config_schema *schema, const struct config_key *key)
{
	must(key->name);
	must(key->offset < schema->struct_bytes);
	must((key->choices != NULL) == (key->type == CONFIG_CHOICE));
	must((key->schema != NULL) == (key->type == CONFIG_MAP || key->type == CONFIG_LIST));
	must(!key->check || key->type == CONFIG_STRING || key->type == CONFIG_STRINGS);
	must(!key->is_required || !key->initial); /* a required key needs no default */
}

int config_set_defaults(const struct config_schema *schema, void *target)
{
	char expected[CONFIG_EXPECTED_BYTES];
	int error = 0;

	must(schema->key_count <= CONFIG_KEYS_MAX);
	memset(target, 0, schema->struct_bytes);
	for (size_t i = 0; !error && i < schema->key_count; i++) {
		const struct config_key *key = &schema->keys[i];

		check_key(schema, key);
		if (key->type == CONFIG_MAP)
			error = config_set_defaults(key->schema, place_of(key, target));
		else if (key->initial && key->type < CONFIG_STRINGS)
			error = config_set(key, target, key->initial, false, expected);
		must(error == 0 || error == -ENOMEM);
	}
	if (error)
		config_free(schema, target);
	return error;
}

static void free_strings(struct config_strings *strings)
{
	must(strings->items || strings->count == 0);
	for (size_t i = 0; i < strings->count; i++)
		free(strings->items[i]);
	free(strings->items);
}

static void free_list(const struct config_schema *schema, struct config_list *list)
{
	must(list->items || list->count == 0);
	for (size_t i = 0; i < list->count; i++)
		config_free(schema, (char *)list->items + i * schema->struct_bytes);
	free(list->items);
}

void config_free(const struct config_schema *schema, void *target)
{
	for (size_t i = 0; i < schema->key_count; i++) {
		const struct config_key *key = &schema->keys[i];
		void *place = place_of(key, target);

		if (key->type == CONFIG_STRING)
			free(*(char **)place);
		else if (key->type == CONFIG_STRINGS)
			free_strings(place);
		else if (key->type == CONFIG_MAP)
			config_free(key->schema, place);
		else if (key->type == CONFIG_LIST)
			free_list(key->schema, place);
	}
	memset(target, 0, schema->struct_bytes);
}

const char *config_system_name(const char *value)
{
	size_t letters = strspn(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.");

	return letters > 0 && letters < 64 && !value[letters]
		       ? NULL
		       : "a name of 1 to 63 letters (a to z, A to Z), digits, '-', '_' and '.'";
}

static void print_rows(const struct config_schema *schema, const char *prefix, FILE *out)
{
	char expected[CONFIG_EXPECTED_BYTES], below[CONFIG_EXPECTED_BYTES];

	for (size_t i = 0; i < schema->key_count; i++) {
		const struct config_key *key = &schema->keys[i];
		const char *initial = key->initial ? key->initial : key->type == CONFIG_BOOL ? "false" : "-";

		fprintf(out, "| `%s%s` | %s | %s | %s |\n", prefix, key->name, config_expected(key, expected),
			key->is_required ? "required" : initial, key->doc);
		if (key->schema) {
			snprintf(below, sizeof(below), "%s%s%s.", prefix, key->name, key->type == CONFIG_LIST ? "[]" : "");
			print_rows(key->schema, below, out);
		}
	}
}

void config_print_reference(const struct config_schema *schema, FILE *out)
{
	fputs("| key | takes | default | |\n|---|---|---|---|\n", out);
	print_rows(schema, "", out);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Read a file: match libyaml's events with the schema. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <yaml.h>

#include "base/text.h"
#include "control/fault/fault.h"
#include "control/config/internal.h"

struct reader {
	yaml_parser_t parser;
	yaml_event_t event; /* the current one */
	bool has_event;
	const char *name;
	struct fathom_fault *why;
};

static uint32_t line_of(const struct reader *reader)
{
	must(reader->has_event);
	return (uint32_t)reader->event.start_mark.line + 1;
}

static const char *text_of(const struct reader *reader)
{
	must(reader->has_event);
	must(reader->event.type == YAML_SCALAR_EVENT);
	return (const char *)reader->event.data.scalar.value;
}

/* Reason to reject `event`: an alias, an anchor, a tag or a NUL. NULL: none of these. */
static const char *unsupported_reason(const yaml_event_t *event)
{
	if (event->type == YAML_ALIAS_EVENT)
		return "an alias (*name) is not taken here";
	if (event->type == YAML_SCALAR_EVENT) {
		if (event->data.scalar.anchor)
			return "an anchor (&name) is not taken here";
		if (event->data.scalar.tag)
			return "a tag (!name) is not taken here";
		if (strlen((const char *)event->data.scalar.value) != event->data.scalar.length)
			return "there is a NUL in the text";
	}
	if (event->type == YAML_MAPPING_START_EVENT && (event->data.mapping_start.anchor || event->data.mapping_start.tag))
		return "an anchor or a tag is not taken here";
	if (event->type == YAML_SEQUENCE_START_EVENT &&
	    (event->data.sequence_start.anchor || event->data.sequence_start.tag))
		return "an anchor or a tag is not taken here";
	return NULL;
}

static int next_event(struct reader *reader)
{
	const char *odd;

	if (reader->has_event)
		yaml_event_delete(&reader->event);
	reader->has_event = yaml_parser_parse(&reader->parser, &reader->event);
	if (!reader->has_event) {
		const yaml_parser_t *parser = &reader->parser;
		/* libyaml sets no problem mark for invalid UTF-8: use the reader's position */
		uint32_t line =
			(uint32_t)(parser->error == YAML_READER_ERROR ? parser->mark.line : parser->problem_mark.line) + 1;

		if (parser->error == YAML_MEMORY_ERROR)
			return -ENOMEM;
		return fault_config_syntax(reader->why, reader->name, line,
					   parser->problem ? parser->problem : "this is no YAML");
	}
	odd = unsupported_reason(&reader->event);
	return odd ? fault_config_syntax(reader->why, reader->name, line_of(reader), odd) : 0;
}

/* Skip the map or list that the current event begins. Invalid YAML in it ("[a" without an end) is reported as such. */
static int skip_node(struct reader *reader)
{
	int depth = 1, error = 0;

	must(reader->event.type == YAML_MAPPING_START_EVENT || reader->event.type == YAML_SEQUENCE_START_EVENT);
	while (depth > 0 && !error) {
		error = next_event(reader);
		if (error)
			break;
		depth += reader->event.type == YAML_MAPPING_START_EVENT || reader->event.type == YAML_SEQUENCE_START_EVENT;
		depth -= reader->event.type == YAML_MAPPING_END_EVENT || reader->event.type == YAML_SEQUENCE_END_EVENT;
	}
	return error;
}

static int reject_value(struct reader *reader, const struct config_key *key, const char *expected)
{
	const char *value = reader->event.type == YAML_MAPPING_START_EVENT ? "{...}" : "[...]";
	uint32_t line = line_of(reader);
	int error;

	if (reader->event.type == YAML_SCALAR_EVENT)
		return fault_config_value(reader->why, reader->name, line, key->name, text_of(reader), expected);
	error = skip_node(reader);
	return error ? error : fault_config_value(reader->why, reader->name, line, key->name, value, expected);
}

static int read_map(struct reader *reader, const struct config_schema *schema, void *target);

static int read_scalar(struct reader *reader, const struct config_key *key, void *target)
{
	char expected[CONFIG_EXPECTED_BYTES];
	int error;

	if (reader->event.type != YAML_SCALAR_EVENT)
		return reject_value(reader, key, config_expected(key, expected));
	error = config_set(key, target, text_of(reader), reader->event.data.scalar.style != YAML_PLAIN_SCALAR_STYLE,
			   expected);
	return error == -EINVAL ? reject_value(reader, key, expected) : error;
}

/* Append a structure with its defaults to the list, and read it. */
static int read_item(struct reader *reader, const struct config_key *key, struct config_list *list)
{
	size_t bytes = key->schema->struct_bytes;
	char expected[CONFIG_EXPECTED_BYTES];
	char *items;
	int error;

	if (reader->event.type != YAML_MAPPING_START_EVENT)
		return reject_value(reader, key, config_expected(key, expected));
	must(list->count < CONFIG_ITEMS_MAX);
	items = realloc(list->items, (list->count + 1) * bytes);
	if (!items)
		return -ENOMEM;
	list->items = items;
	error = config_set_defaults(key->schema, items + list->count * bytes);
	if (error)
		return error;
	list->count++;
	return read_map(reader, key->schema, items + (list->count - 1) * bytes);
}

static int read_list(struct reader *reader, const struct config_key *key, void *target)
{
	char expected[CONFIG_EXPECTED_BYTES];
	int error = 0;

	must(key->type == CONFIG_STRINGS || key->type == CONFIG_LIST);
	if (reader->event.type != YAML_SEQUENCE_START_EVENT)
		return reject_value(reader, key, config_expected(key, expected));
	for (size_t count = 0; !error; count++) {
		error = next_event(reader);
		if (error || reader->event.type == YAML_SEQUENCE_END_EVENT)
			return error;
		if (count == CONFIG_ITEMS_MAX)
			return fault_config_syntax(reader->why, reader->name, line_of(reader), "the list is too long");
		error = key->type == CONFIG_STRINGS ? read_scalar(reader, key, target)
						    : read_item(reader, key, (void *)((char *)target + key->offset));
	}
	return error;
}

static int read_value(struct reader *reader, const struct config_key *key, void *target)
{
	char expected[CONFIG_EXPECTED_BYTES];

	if (key->type == CONFIG_STRINGS || key->type == CONFIG_LIST)
		return read_list(reader, key, target);
	if (key->type != CONFIG_MAP)
		return read_scalar(reader, key, target);
	if (reader->event.type != YAML_MAPPING_START_EVENT)
		return reject_value(reader, key, config_expected(key, expected));
	return read_map(reader, key->schema, (char *)target + key->offset);
}

static bool is_name(const char *known, const char *name, size_t bytes)
{
	return known && strlen(known) == bytes && memcmp(known, name, bytes) == 0;
}

const struct config_key *config_find_key(const struct config_schema *schema, const char *name, size_t bytes)
{
	for (size_t i = 0; i < schema->key_count; i++) {
		const struct config_key *key = &schema->keys[i];

		if (is_name(key->name, name, bytes) || is_name(key->alias, name, bytes))
			return key;
	}
	return NULL;
}

static int reject_key(const struct reader *reader, const struct config_schema *schema, const char *name)
{
	size_t best = strlen(name) / 3 + 2;
	const char *nearest = NULL;

	for (size_t i = 0; i < schema->key_count; i++) {
		size_t far = text_distance(name, schema->keys[i].name);

		if (far < best) {
			best = far;
			nearest = schema->keys[i].name;
		}
	}
	if (nearest)
		return fault_config_key_nearly(reader->why, reader->name, line_of(reader), name, nearest);
	return fault_config_key_unknown(reader->why, reader->name, line_of(reader), name);
}

/* The current event begins the map. On success the current event is the end of the map. */
static int read_map(struct reader *reader, const struct config_schema *schema, void *target)
{
	uint32_t lines[CONFIG_KEYS_MAX] = { 0 }; /* the line of each key; 0: absent */
	uint32_t begin = line_of(reader);
	int error;

	must(schema->key_count <= CONFIG_KEYS_MAX);
	must(reader->event.type == YAML_MAPPING_START_EVENT);
	error = next_event(reader);
	while (!error && reader->event.type != YAML_MAPPING_END_EVENT) {
		const struct config_key *key;
		size_t index;

		if (reader->event.type != YAML_SCALAR_EVENT)
			return fault_config_syntax(reader->why, reader->name, line_of(reader), "a key is expected");
		key = config_find_key(schema, text_of(reader), strlen(text_of(reader)));
		if (!key)
			return reject_key(reader, schema, text_of(reader));
		index = (size_t)(key - schema->keys);
		must(index < schema->key_count);
		if (lines[index])
			return fault_config_key_twice(reader->why, reader->name, line_of(reader), key->name, lines[index]);
		lines[index] = line_of(reader);
		error = next_event(reader);
		if (!error)
			error = read_value(reader, key, target);
		if (!error)
			error = next_event(reader);
	}
	must(error || reader->event.type == YAML_MAPPING_END_EVENT);
	for (size_t i = 0; !error && i < schema->key_count; i++) {
		if (schema->keys[i].is_required && !lines[i])
			return fault_config_key_missing(reader->why, reader->name, begin, schema->keys[i].name);
	}
	return error;
}

/* The file has no keys: reject it if `schema` requires any. */
static int check_nothing_required(const struct reader *reader, const struct config_schema *schema)
{
	if (schema->needs_keys)
		return fault_config_empty(reader->why, reader->name);
	for (size_t i = 0; i < schema->key_count; i++) {
		if (schema->keys[i].is_required)
			return fault_config_key_missing(reader->why, reader->name, 1, schema->keys[i].name);
	}
	return 0;
}

static int read_stream(struct reader *reader, const struct config_schema *schema, void *target)
{
	int error = next_event(reader);

	must(error || reader->event.type == YAML_STREAM_START_EVENT);
	if (!error)
		error = next_event(reader);
	if (error)
		return error;
	if (reader->event.type == YAML_STREAM_END_EVENT)
		return check_nothing_required(reader, schema);
	error = next_event(reader);
	if (error)
		return error;
	if (reader->event.type == YAML_SCALAR_EVENT && !*text_of(reader))
		error = check_nothing_required(reader, schema);
	else if (reader->event.type != YAML_MAPPING_START_EVENT)
		return fault_config_syntax(reader->why, reader->name, line_of(reader), "keys and values are expected");
	else
		error = read_map(reader, schema, target);
	if (!error)
		error = next_event(reader);
	if (!error)
		error = next_event(reader);
	if (!error && reader->event.type != YAML_STREAM_END_EVENT)
		error = fault_config_syntax(reader->why, reader->name, line_of(reader), "a second document begins here");
	return error;
}

int config_read(const char *name, const char *text, size_t bytes, const struct config_schema *schema, void *target,
		struct fathom_fault *why)
{
	struct reader reader = { .name = name, .why = why };
	int error;

	if (bytes > CONFIG_FILE_BYTES_MAX)
		return fault_config_unreadable(why, name, "it is larger than 1 MiB");
	error = config_set_defaults(schema, target);
	if (error)
		return error;
	if (!yaml_parser_initialize(&reader.parser)) {
		config_free(schema, target);
		return -ENOMEM;
	}
	yaml_parser_set_input_string(&reader.parser, (const unsigned char *)text, bytes);
	error = read_stream(&reader, schema, target);
	if (reader.has_event)
		yaml_event_delete(&reader.event);
	yaml_parser_delete(&reader.parser);
	if (error)
		config_free(schema, target);
	return error;
}

/* Read the whole file. If it is too large, `*bytes_ret` exceeds CONFIG_FILE_BYTES_MAX. The caller frees `*text_ret`. */
static int read_text(const char *path, char **text_ret, size_t *bytes_ret, struct fathom_fault *why)
{
	size_t used = 0;
	ssize_t got = 1;
	char *text;
	int fd, error;

	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return fault_config_unreadable(why, path, strerror(errno));
	text = malloc(CONFIG_FILE_BYTES_MAX + 1);
	while (text && got > 0 && used <= CONFIG_FILE_BYTES_MAX) {
		got = read(fd, text + used, CONFIG_FILE_BYTES_MAX + 1 - used);
		if (got > 0)
			used += (size_t)got;
		else if (got < 0 && errno == EINTR)
			got = 1;
	}
	must(used <= CONFIG_FILE_BYTES_MAX + 1);
	error = !text ? -ENOMEM : got < 0 ? fault_config_unreadable(why, path, strerror(errno)) : 0;
	close(fd);
	if (error) {
		free(text);
		return error;
	}
	*text_ret = text;
	*bytes_ret = used;
	return 0;
}

int config_read_file(const char *path, const struct config_schema *schema, void *target, struct fathom_fault *why)
{
	size_t bytes = 0;
	char *text = NULL;
	int error = read_text(path, &text, &bytes, why);

	if (!error)
		error = config_read(path, text, bytes, schema, target, why);
	free(text);
	return error;
}

uint32_t config_line_of_file(const char *path, const struct config_schema *schema, const char *key)
{
	size_t bytes = 0;
	char *text = NULL;
	uint32_t line;

	if (read_text(path, &text, &bytes, NULL) != 0)
		return 0;
	line = config_line(text, bytes, schema, key);
	free(text);
	return line;
}

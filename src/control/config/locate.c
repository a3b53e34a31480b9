/* SPDX-License-Identifier: BSD-2-Clause */
/* Find the line of a key, for faults found after the file was parsed and its events were freed. */
#include <stdlib.h>
#include <string.h>

#include <yaml.h>

#include "control/config/internal.h"

struct place {
	yaml_document_t *document;
	const yaml_node_t *node; /* NULL: the rest of the key is not in the file */
	const struct config_schema *schema;
	uint32_t line;
};

static uint32_t line_of(const yaml_node_t *node)
{
	return (uint32_t)node->start_mark.line + 1;
}

/* Move `place` to the value of key `name` in the current map. */
static void enter_key(struct place *place, const char *name, size_t bytes)
{
	const yaml_node_t *map = place->node;
	const struct config_key *wanted = place->schema ? config_find_key(place->schema, name, bytes) : NULL;

	must(map);
	place->node = NULL;
	if (!wanted || map->type != YAML_MAPPING_NODE)
		return;
	for (const yaml_node_pair_t *pair = map->data.mapping.pairs.start; pair < map->data.mapping.pairs.top; pair++) {
		const yaml_node_t *key = yaml_document_get_node(place->document, pair->key);

		if (key->type != YAML_SCALAR_NODE ||
		    config_find_key(place->schema, (const char *)key->data.scalar.value, key->data.scalar.length) != wanted)
			continue;
		place->line = line_of(key);
		place->node = yaml_document_get_node(place->document, pair->value);
		place->schema = wanted->schema;
		return;
	}
}

static void enter_item(struct place *place, size_t index)
{
	const yaml_node_t *list = place->node;

	must(list);
	place->node = NULL;
	if (list->type != YAML_SEQUENCE_NODE ||
	    index >= (size_t)(list->data.sequence.items.top - list->data.sequence.items.start))
		return;
	place->node = yaml_document_get_node(place->document, list->data.sequence.items.start[index]);
	place->line = line_of(place->node);
}

static uint32_t locate_key(yaml_document_t *document, const struct config_schema *schema, const char *key)
{
	struct place place = { document, yaml_document_get_root_node(document), schema, 0 };

	while (*key && place.node) {
		size_t bytes = strcspn(key, ".[");

		if (*key == '[') {
			char *end;

			enter_item(&place, strtoul(key + 1, &end, 10));
			key = *end == ']' ? end + 1 : end;
		} else {
			enter_key(&place, key, bytes);
			key += bytes;
		}
		key += *key == '.';
	}
	return place.line;
}

uint32_t config_line(const char *text, size_t bytes, const struct config_schema *schema, const char *key)
{
	yaml_document_t document;
	yaml_parser_t parser;
	uint32_t line = 0;

	if (!yaml_parser_initialize(&parser))
		return 0;
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, bytes);
	if (yaml_parser_load(&parser, &document)) {
		line = locate_key(&document, schema, key);
		yaml_document_delete(&document);
	}
	yaml_parser_delete(&parser);
	return line;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * config - configuration files, read strictly into structures.
 *
 * A schema is a table of keys: name, type, place in the structure, default, documentation. What is not in the table, what
 * stands there twice and what has the wrong type is an error that names file, line and key, and the key that may have been
 * meant. Anchors, aliases, tags and second documents are refused; so is a key without a value. Reading is by libyaml.
 *
 *     static const struct config_key keys[] = {
 *             { .name = "port", .type = CONFIG_NUMBER, .offset = offsetof(struct config, port), .initial = "10001",
 *               .min = 1, .max = 65535, .doc = "where the server listens" }, ...
 *     };
 *     static const struct config_schema schema = CONFIG_SCHEMA(struct config, keys);
 */
#ifndef CONTROL_CONFIG_CONFIG_H
#define CONTROL_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/bits.h"
#include "base/fault.h"

enum {
	CONFIG_FILE_BYTES_MAX = 1 << 20,
	CONFIG_KEYS_MAX = 64,	 /* of a schema */
	CONFIG_ITEMS_MAX = 4096, /* of a list */
	CONFIG_STRING_BYTES_MAX = 4096,
};

enum config_type {
	CONFIG_BOOL,	/* bool: true or false */
	CONFIG_NUMBER,	/* uint64_t: decimal, or hexadecimal behind 0x */
	CONFIG_BYTES,	/* uint64_t: "4096", "16MiB" */
	CONFIG_STRING,	/* char *: NULL if it is not there and has no default */
	CONFIG_CHOICE,	/* uint32_t: the index of one of `choices` */
	CONFIG_STRINGS, /* struct config_strings */
	CONFIG_MAP,	/* the structure of `schema`, which lies in this one */
	CONFIG_LIST,	/* struct config_list of structures of `schema` */
};

struct config_strings {
	char **items;
	size_t count;
};

struct config_list {
	void *items;
	size_t count;
};

struct config_key {
	const char *name;
	const char *alias; /* another name that it may have; NULL: none */
	enum config_type type;
	bool is_required;
	size_t offset;
	const char *initial;	    /* as it would stand in a file; NULL: zero, or nothing */
	uint64_t min, max;	    /* of NUMBER and BYTES; max 0: no limit */
	const char *const *choices; /* of CHOICE, behind the last one NULL */
	const struct config_schema *schema;
	/* STRING, and each of STRINGS: NULL if it is fine, else what is expected ("an absolute path") */
	const char *(*check)(const char *value);
	const char *doc;
};

struct config_schema {
	const struct config_key *keys;
	size_t key_count;
	size_t struct_bytes;
	bool needs_keys; /* a file without any is refused: it was cut off, or never written */
};

#define CONFIG_SCHEMA(type, table)                                                                                         \
	{                                                                                                                  \
		.keys = (table), .key_count = ARRAY_COUNT(table), .struct_bytes = sizeof(type)                             \
	}

/*
 * Read the file at `path` into `target`, a structure of `schema`, all of which is overwritten; config_free() it. Errors:
 * -EINVAL and others, with a `why` of config_...; -ENOMEM. Then there is nothing to free.
 */
MUST_CHECK int config_read_file(const char *path, const struct config_schema *schema, void *target, struct fault *why);

/* The same of `bytes` at `text`; `name` is the file in faults. */
MUST_CHECK int config_read(const char *name, const char *text, size_t bytes, const struct config_schema *schema,
			   void *target, struct fault *why);

/*
 * The line where `key` ("engines[1].storage[0].scm_mount") stands in the text, or in the file as it is now; where only what
 * holds it does, that one's. 0: it cannot be said.
 */
uint32_t config_line(const char *text, size_t bytes, const struct config_schema *schema, const char *key);
uint32_t config_line_of_file(const char *path, const struct config_schema *schema, const char *key);

/* Free what a read put into `target`, which is then all zeroes. */
void config_free(const struct config_schema *schema, void *target);

/* A check of system names: servers and clients take the same. */
const char *config_system_name(const char *value);

/* Every key of `schema` and of those in it as rows of a Markdown table: key, what it takes, default, what it is. */
void config_print_reference(const struct config_schema *schema, FILE *out);

#endif

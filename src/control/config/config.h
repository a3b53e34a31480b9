/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * config - read configuration files (YAML) strictly into structures.
 *
 * A schema is a table of keys: name, type, offset in the structure, default, documentation. An unknown key, a duplicate key
 * and a value of the wrong type are errors. The fault names file, line, key, and the nearest known key. Anchors, aliases,
 * tags, second documents and keys without a value are rejected. libyaml does the parsing.
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
	CONFIG_STRING,	/* char *: NULL if the key is absent and has no default */
	CONFIG_CHOICE,	/* uint32_t: the index of one of `choices` */
	CONFIG_STRINGS, /* struct config_strings */
	CONFIG_MAP,	/* a structure of `schema`, embedded in this one */
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
	const char *alias; /* an alternative name; NULL: none */
	enum config_type type;
	bool is_required;
	size_t offset;
	const char *initial;	    /* the default, written as in a file; NULL: zero or empty */
	uint64_t min, max;	    /* of NUMBER and BYTES; max 0: no limit */
	const char *const *choices; /* of CHOICE, NULL-terminated */
	const struct config_schema *schema;
	/* for STRING, and each item of STRINGS: NULL if `value` is valid, else the expected form ("an absolute path") */
	const char *(*check)(const char *value);
	const char *doc;
};

struct config_schema {
	const struct config_key *keys;
	size_t key_count;
	size_t struct_bytes;
	bool needs_keys; /* reject a file without any key: it was truncated or never written */
};

#define CONFIG_SCHEMA(type, table)                                                                                         \
	{                                                                                                                  \
		.keys = (table), .key_count = ARRAY_COUNT(table), .struct_bytes = sizeof(type)                             \
	}

/*
 * Read the file at `path` into `target`, a structure of `schema`; its old contents are overwritten without being freed.
 * Free it with config_free(). Errors: -EINVAL and others, with `why` (config_...); -ENOMEM. On failure there is nothing to
 * free.
 */
MUST_CHECK int config_read_file(const char *path, const struct config_schema *schema, void *target,
				struct fathom_fault *why);

/* The same for `bytes` at `text`; `name` is the file name in faults. */
MUST_CHECK int config_read(const char *name, const char *text, size_t bytes, const struct config_schema *schema,
			   void *target, struct fathom_fault *why);

/*
 * The line of `key` ("engines[1].storage[0].scm_mount") in the text, or in the current file. If only an enclosing key is
 * there, the line of the innermost one. 0: unknown.
 */
uint32_t config_line(const char *text, size_t bytes, const struct config_schema *schema, const char *key);
uint32_t config_line_of_file(const char *path, const struct config_schema *schema, const char *key);

/* Free everything that a read allocated in `target`, and zero it. */
void config_free(const struct config_schema *schema, void *target);

/* A `check` function for system names, shared by servers and clients. */
const char *config_system_name(const char *value);

/* Print a Markdown table with all keys of `schema`, nested ones included: key, allowed values, default, documentation. */
void config_print_reference(const struct config_schema *schema, FILE *out);

#endif

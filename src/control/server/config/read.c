/* SPDX-License-Identifier: BSD-2-Clause */
/* Checks a configuration as a whole: values that are valid alone and contradict each other. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "control/fault/fault.h"
#include "control/server/config/configuration.h"

enum { KEY_BYTES = 96 };

/* The checked text: a file, or a text in memory with the name of a file. */
struct source {
	const char *name, *text; /* NULL: the file of that name */
	size_t bytes;
	char place[SERVER_PLACE_BYTES];
};

/* "s.yml:12": the line of the key; "s.yml" if the line is unknown. */
static const char *put_place(char *place, const char *name, uint32_t line)
{
	if (line)
		snprintf(place, SERVER_PLACE_BYTES, "%s:%" PRIu32, name, line);
	else
		snprintf(place, SERVER_PLACE_BYTES, "%s", name);
	return place;
}

static const char *key_place(struct source *source, const char *key)
{
	return put_place(source->place, source->name,
			 source->text ? config_line(source->text, source->bytes, &server_config_schema, key)
				      : config_line_of_file(source->name, &server_config_schema, key));
}

const char *server_config_place(const char *file, const char *key, char *place)
{
	return put_place(place, file, config_line_of_file(file, &server_config_schema, key));
}

const struct server_engine *server_config_engine(const struct server_config *config, size_t index)
{
	must(index < config->engines.count);
	return (const struct server_engine *)config->engines.items + index;
}

const struct server_storage *server_engine_storage(const struct server_engine *engine)
{
	must(engine->storage.count == 1);
	return engine->storage.items;
}

bool server_config_needs_helper(const struct server_config *config)
{
	for (size_t i = 0; i < config->engines.count; i++) {
		if (server_engine_storage(server_config_engine(config, i))->class != SERVER_STORAGE_FILE)
			return true;
	}
	return false;
}

/* "engines[1].storage[0].scm_mount". Returns `key`, of KEY_BYTES. */
static const char *engine_key(char *key, size_t index, const char *rest)
{
	must(index < SERVER_ENGINES_MAX);
	must((size_t)snprintf(key, KEY_BYTES, "engines[%zu].%s", index, rest) < KEY_BYTES);
	return key;
}

static int check_storage(struct source *source, const struct server_engine *engine, size_t index, struct fathom_fault *why)
{
	const struct server_storage *storage = engine->storage.items;
	char key[KEY_BYTES], other[KEY_BYTES];

	if (engine->storage.count != 1)
		return fault_config_count(why, key_place(source, engine_key(key, index, "storage")), key,
					  (uint32_t)engine->storage.count,
					  "each engine has one storage: a list with one entry");
	if (storage->class == SERVER_STORAGE_FILE) {
		if (storage->bdev_list.count > 0)
			return fault_config_beside(why, key_place(source, engine_key(key, index, "storage[0].bdev_list")),
						   key, "class: file");
		return 0;
	}
	if (storage->bdev_list.count != 1)
		return fault_config_count(why, key_place(source, engine_key(key, index, "storage[0].bdev_list")), key,
					  (uint32_t)storage->bdev_list.count,
					  "a storage of class kdev or nvme is one device: [/dev/nvme0n1]");
	if (storage->bdev_size)
		return fault_config_beside(why, key_place(source, engine_key(key, index, "storage[0].bdev_size")), key,
					   engine_key(other, index, "storage[0].bdev_list"));
	return 0;
}

static int check_engine(struct source *source, const struct server_engine *engine, size_t index, struct fathom_fault *why)
{
	const struct {
		const char *name, *value;
	} places[] = {
		{ "cpus", engine->cpus },
		{ "first_core", engine->first_core },
		{ "pinned_numa_node", engine->pinned_numa_node },
	};
	char key[KEY_BYTES], other[KEY_BYTES];
	const char *first = NULL;

	for (size_t i = 0; i < ARRAY_COUNT(places); i++) {
		if (places[i].value && first)
			return fault_config_beside(why, key_place(source, engine_key(key, index, places[i].name)), key,
						   engine_key(other, index, first));
		if (places[i].value)
			first = places[i].name;
	}
	return check_storage(source, engine, index, why);
}

/* The paths are equal, or one contains the other. */
static bool paths_overlap(const char *a, const char *b)
{
	size_t bytes = strlen(a) < strlen(b) ? strlen(a) : strlen(b);

	must(*a == '/' && *b == '/'); /* the table of keys requires absolute paths */
	while (bytes > 1 && (a[bytes - 1] == '/' || b[bytes - 1] == '/'))
		bytes--;
	return strncmp(a, b, bytes) == 0 && (a[bytes] == '\0' || a[bytes] == '/') && (b[bytes] == '\0' || b[bytes] == '/');
}

/* Check the values that two engines must not share: port, folder, device, log file. */
static int check_pair(struct source *source, const struct server_config *config, size_t a, size_t b,
		      struct fathom_fault *why)
{
	const struct server_engine *one = server_config_engine(config, a), *two = server_config_engine(config, b);
	const struct server_storage *of_one = server_engine_storage(one), *of_two = server_engine_storage(two);
	char key[KEY_BYTES], other[KEY_BYTES], text[32];

	must(a < b);
	if (one->fabric_iface_port == two->fabric_iface_port) {
		snprintf(text, sizeof(text), "%" PRIu64, one->fabric_iface_port);
		return fault_config_shared(why, key_place(source, engine_key(other, b, "fabric_iface_port")),
					   engine_key(key, a, "fabric_iface_port"), other, text);
	}
	if (paths_overlap(of_one->scm_mount, of_two->scm_mount))
		return fault_config_shared(why, key_place(source, engine_key(other, b, "storage[0].scm_mount")),
					   engine_key(key, a, "storage[0].scm_mount"), other, of_two->scm_mount);
	if (of_one->bdev_list.count && of_two->bdev_list.count &&
	    strcmp(of_one->bdev_list.items[0], of_two->bdev_list.items[0]) == 0)
		return fault_config_shared(why, key_place(source, engine_key(other, b, "storage[0].bdev_list")),
					   engine_key(key, a, "storage[0].bdev_list"), other, of_one->bdev_list.items[0]);
	if (one->log_file && two->log_file && strcmp(one->log_file, two->log_file) == 0)
		return fault_config_shared(why, key_place(source, engine_key(other, b, "log_file")),
					   engine_key(key, a, "log_file"), other, one->log_file);
	return 0;
}

static int check_engines(struct source *source, const struct server_config *config, struct fathom_fault *why)
{
	int error = 0;

	if (config->engines.count > SERVER_ENGINES_MAX)
		return fault_config_count(why, key_place(source, "engines"), "engines", (uint32_t)config->engines.count,
					  "a host has up to 64");
	for (size_t i = 0; !error && i < config->engines.count; i++) {
		error = check_engine(source, server_config_engine(config, i), i, why);
		for (size_t other = 0; !error && other < i; other++)
			error = check_pair(source, config, other, i, why);
	}
	return error;
}

static int check_restart(struct source *source, const struct server_config *config, struct fathom_fault *why)
{
	for (size_t i = 0; i < SERVER_CAUSES; i++) {
		const struct server_restart *restart = &config->restart[i];
		uint64_t least, most;
		char key[KEY_BYTES], other[KEY_BYTES];

		must(text_parse_duration(restart->delay_min, &least) == 0);
		must(text_parse_duration(restart->delay_max, &most) == 0);
		if (least > most) {
			snprintf(key, sizeof(key), "engine_restart.%s.delay_min", server_cause_names[i]);
			snprintf(other, sizeof(other), "engine_restart.%s.delay_max", server_cause_names[i]);
			return fault_config_order(why, key_place(source, key), key, restart->delay_min, other,
						  restart->delay_max);
		}
	}
	return 0;
}

static int check_transport(struct source *source, const struct server_config *config, struct fathom_fault *why)
{
	if (config->transport.allow_insecure && config->transport.allow_tls12)
		return fault_config_beside(why, key_place(source, "transport_config.allow_tls12"),
					   "transport_config.allow_tls12", "allow_insecure: true");
	return 0;
}

static int check_all(struct source *source, const struct server_config *config, struct fathom_fault *why)
{
	int error;

	if (config->mgmt_svc_replicas.count != 1)
		return fault_config_count(why, key_place(source, "mgmt_svc_replicas"), "mgmt_svc_replicas",
					  (uint32_t)config->mgmt_svc_replicas.count,
					  "name one host: this version keeps the system's database on one");
	if (config->fault_path && config->fault_cb)
		return fault_config_beside(why, key_place(source, "fault_cb"), "fault_cb", "fault_path");
	error = check_transport(source, config, why);
	if (!error)
		error = check_restart(source, config, why);
	return error ? error : check_engines(source, config, why);
}

/* The schema has no defaults for lists. */
static int add_default_replica(struct server_config *config)
{
	struct config_strings *replicas = &config->mgmt_svc_replicas;

	if (replicas->count > 0)
		return 0;
	replicas->items = calloc(1, sizeof(*replicas->items));
	if (!replicas->items)
		return -ENOMEM;
	replicas->items[0] = strdup("localhost");
	if (!replicas->items[0])
		return -ENOMEM; /* server_config_free() frees the empty list */
	replicas->count = 1;
	return 0;
}

static int check_and_return(struct source *source, int error, struct server_config *config,
			    struct server_config *config_ret, struct fathom_fault *why)
{
	must(error <= 0);
	if (error)
		return error;
	must(config->name && config->provider && config->socket_dir && config->state_dir); /* they have defaults */
	must(config->transport.ca_cert && config->transport.cert && config->transport.key);
	must(config->port > 0 && config->port <= UINT16_MAX);
	error = add_default_replica(config);
	if (!error)
		error = check_all(source, config, why);
	if (error)
		server_config_free(config);
	else
		*config_ret = *config;
	must(error || (config_ret->mgmt_svc_replicas.count == 1 && config_ret->engines.count <= SERVER_ENGINES_MAX));
	return error;
}

int server_config_read(const char *path, struct server_config *config_ret, struct fathom_fault *why)
{
	struct source source = { .name = path };
	struct server_config config;
	int error = config_read_file(path, &server_config_schema, &config, why);

	return check_and_return(&source, error, &config, config_ret, why);
}

int server_config_read_text(const char *name, const char *text, size_t bytes, struct server_config *config_ret,
			    struct fathom_fault *why)
{
	struct source source = { .name = name, .text = text, .bytes = bytes };
	struct server_config config;
	int error = config_read(name, text, bytes, &server_config_schema, &config, why);

	return check_and_return(&source, error, &config, config_ret, why);
}

void server_config_free(struct server_config *config)
{
	config_free(&server_config_schema, config);
}

int server_database_path(const struct server_config *config, char *path, size_t bytes)
{
	const char *folder = config->metadata.path ? config->metadata.path : config->state_dir;
	int used = snprintf(path, bytes, "%s/system.db", folder);

	must(*folder == '/');
	return used < 0 || (size_t)used >= bytes ? -ENAMETOOLONG : 0;
}

int server_superblock_path(const struct server_config *config, size_t index, char *path, size_t bytes)
{
	int used;

	must(index < config->engines.count);
	if (config->metadata.path)
		used = snprintf(path, bytes, "%s/engine%zu/superblock", config->metadata.path, index);
	else
		used = snprintf(path, bytes, "%s/superblock",
				server_engine_storage(server_config_engine(config, index))->scm_mount);
	return used < 0 || (size_t)used >= bytes ? -ENAMETOOLONG : 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* commands - what `fathom ddb` can do. Names are those of DAOS's ddb where the thing is the same. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <uuid/uuid.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/table.h"
#include "cmd/fathom/ddb/ddb.h"
#include "cmd/options/options.h"

static const char *const kinds[] = { [STORE_POOL] = "pool", [STORE_VOLUME] = "volume", [STORE_SNAPSHOT] = "snapshot" };

/* ---- objects as JSON ---- */

static json_t *json_of_uuid(const uint8_t uuid[POOL_UUID_BYTES])
{
	char text[UUID_STR_LEN];

	uuid_unparse_lower(uuid, text);
	return json_string(text);
}

static json_t *json_of_time(uint64_t ns)
{
	char text[32];
	time_t seconds = (time_t)(ns / NS_PER_SEC);
	struct tm parts;

	if (!gmtime_r(&seconds, &parts) || strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
		return json_null();
	return json_string(text);
}

static json_t *json_of_pool(const struct pool_record *pool)
{
	return json_pack("{s:o, s:I, s:b, s:o}", "uuid", json_of_uuid(pool->uuid), "size_bytes",
			 (json_int_t)pool->size_bytes, "overcommit", pool->overcommit, "created",
			 json_of_time(pool->created_ns));
}

static json_t *json_of_volume(const struct volume_record *volume)
{
	json_t *object = json_pack("{s:o, s:I, s:I, s:I, s:b, s:b, s:b, s:o}", "uuid", json_of_uuid(volume->uuid),
				   "size_bytes", (json_int_t)volume->size_bytes, "block_bytes",
				   (json_int_t)volume->block_bytes, "generation", (json_int_t)volume->generation, "thick",
				   volume->thick, "read_only", volume->read_only, "checksums", volume->checksums, "created",
				   json_of_time(volume->created_ns));
	json_t *hosts = json_array();

	if (volume->has_origin) {
		json_object_set_new(object, "origin_volume", json_of_uuid(volume->origin_volume));
		json_object_set_new(object, "origin_snapshot", json_of_uuid(volume->origin_snapshot));
	}
	for (uint32_t i = 0; i < volume->host_count; i++)
		json_array_append_new(hosts, json_string(volume->hosts[i].nqn));
	json_object_set_new(object, "hosts", hosts);
	return object;
}

static json_t *json_of_snapshot(const struct snapshot_record *snapshot)
{
	return json_pack("{s:o, s:o, s:o, s:I, s:I, s:b, s:o}", "uuid", json_of_uuid(snapshot->uuid), "volume",
			 json_of_uuid(snapshot->volume), "group", json_of_uuid(snapshot->group), "size_bytes",
			 (json_int_t)snapshot->size_bytes, "block_bytes", (json_int_t)snapshot->block_bytes, "checksums",
			 snapshot->checksums, "created", json_of_time(snapshot->created_ns));
}

static bool is_damaged(const struct store *store, const struct store_object *object)
{
	size_t bytes = strlen(object->path);

	for (size_t i = 0; i < store->finding_count; i++) {
		const struct store_finding *finding = &store->findings[i];

		if (!store_problem_is_note(finding->problem) && strncmp(finding->path, object->path, bytes) == 0 &&
		    (finding->path[bytes] == '\0' ||
		     (finding->path[bytes] == '/' && !strchr(finding->path + bytes + 1, '/'))))
			return true;
	}
	return !object->is_read;
}

/* With its values: of the record, and of the data file. */
static json_t *json_of_object(const struct store *store, const struct store_object *object)
{
	json_t *row = json_pack("{s:s, s:s, s:s, s:b}", "kind", kinds[object->kind], "name", object->name, "path",
				object->path, "damaged", is_damaged(store, object));
	json_t *record = !object->is_read		? NULL
			 : object->kind == STORE_POOL	? json_of_pool(&object->record.pool)
			 : object->kind == STORE_VOLUME ? json_of_volume(&object->record.volume)
							: json_of_snapshot(&object->record.snapshot);

	must(row);
	if (record)
		json_object_update(row, record);
	json_decref(record);
	if (object->has_data) {
		json_object_set_new(row, "data_bytes", json_integer((json_int_t)object->data_bytes));
		json_object_set_new(row, "allocated_bytes", json_integer((json_int_t)object->allocated_bytes));
	}
	return row;
}

/* "key  value" for each value of an object. */
static void print_values(const json_t *object)
{
	const char *key;
	json_t *value;

	json_object_foreach ((json_t *)object, key, value) {
		char *text = json_is_string(value) ? NULL : json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);

		printf("%-16s %s\n", key, text ? text : json_string_value(value));
		free(text);
	}
}

static int print_object(const struct ddb *ddb, json_t *object)
{
	if (ddb->options.json)
		return ddb_print_json(object);
	print_values(object);
	json_decref(object);
	return EXIT_SUCCESS;
}

/* ---- ls, list, show ---- */

/* Is the object at `index` below `top`? With `deep`, at any depth. STORE_NONE is the root. */
static bool is_below(const struct store *store, int index, int top, bool deep)
{
	int parent = store->objects[index].parent;

	while (deep && parent != top && parent != STORE_NONE)
		parent = store->objects[parent].parent;
	return parent == top;
}

static void add_row(struct table *table, const struct store *store, const struct store_object *object)
{
	char size[24] = "-", allocated[24] = "-";

	if (object->is_read)
		snprintf(size, sizeof(size), "%" PRIu64, store_size_of(object));
	if (object->has_data)
		snprintf(allocated, sizeof(allocated), "%" PRIu64, object->allocated_bytes);
	must(table_add(table, (const char *const[]){ object->name, kinds[object->kind], size, allocated,
						     is_damaged(store, object) ? "damaged" : "ok" }) == 0);
}

static int print_objects(const struct ddb *ddb, const char *name, bool deep)
{
	static const struct table_column columns[] = { { .title = "Name" },
						       { .title = "Kind" },
						       { .title = "Bytes", .align = TABLE_RIGHT },
						       { .title = "Allocated", .align = TABLE_RIGHT },
						       { .title = "State" } };
	const struct store *store = ddb->store;
	struct table *table;
	struct fathom_fault why;
	json_t *array = json_array();
	int top = name && strcmp(name, "/") != 0 ? store_find(store, name, &why) : STORE_NONE;

	if (top < STORE_NONE)
		return ddb_fail(ddb, &why);
	table = table_create(&(struct table_layout){ TABLE_COLUMNS(columns), .gap = 2 });
	must(table && array);
	for (size_t i = 0; i < store->object_count; i++) {
		if (!is_below(store, (int)i, top, deep))
			continue;
		add_row(table, store, &store->objects[i]);
		json_array_append_new(array, json_of_object(store, &store->objects[i]));
	}
	if (ddb->options.json)
		(void)ddb_print_json(json_pack("{s:O}", "objects", array));
	else
		table_print(table, 0, stdout);
	table_destroy(table);
	json_decref(array);
	return EXIT_SUCCESS;
}

static int run_ls(struct ddb *ddb, char **words)
{
	return print_objects(ddb, words[0], false);
}

static int run_list(struct ddb *ddb, char **words)
{
	return print_objects(ddb, words[0], true);
}

static int run_show(struct ddb *ddb, char **words)
{
	struct fathom_fault why;
	int index = store_find(ddb->store, words[0], &why);

	if (index < 0)
		return ddb_fail(ddb, &why);
	return print_object(ddb, json_of_object(ddb->store, &ddb->store->objects[index]));
}

/* ---- open, close ---- */

static int run_open(struct ddb *ddb, char **words)
{
	return ddb_open(ddb, words[0]);
}

static int run_close(struct ddb *ddb, char **words)
{
	ddb_close(ddb);
	return EXIT_SUCCESS;
}

/* ---- superblock_dump, value_dump, value_load ---- */

static int run_superblock_dump(struct ddb *ddb, char **words)
{
	struct superblock superblock = ddb->superblock;
	struct fathom_fault why;
	char path[4096];
	int error;

	if (!ddb->superblock_path) {
		if (!ddb->store)
			return ddb_reject("nothing is open: open PATH");
		snprintf(path, sizeof(path), "%s/superblock", ddb->store->root_path);
		error = superblock_read(path, NULL, &superblock, &why);
		if (error == -ENOENT)
			return ddb_reject("%s does not exist: only an engine of a server has a superblock", path);
		if (error) {
			(void)ddb_fail(ddb, &why);
			return error == -EBADMSG ? DDB_FOUND : EXIT_USAGE;
		}
	}
	return print_object(ddb, json_pack("{s:o, s:o, s:s, s:b, s:I, s:s, s:s, s:I, s:b}", "path",
					   ddb_json_text(ddb->superblock_path ? ddb->superblock_path : path), "uuid",
					   json_of_uuid(superblock.uuid), "system", superblock.system, "has_rank",
					   superblock.has_rank, "rank", (json_int_t)superblock.rank, "uri", superblock.uri,
					   "fault_domain", superblock.domain, "incarnation",
					   (json_int_t)superblock.incarnation, "replacement", superblock.is_replacement));
}

/* Write to a new file. */
static int write_new(const char *path, const char *text)
{
	int error, fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0)
		return ddb_reject("cannot create %s: %s", path, strerror(errno));
	error = file_write(fd, text, strlen(text));
	close(fd);
	return error ? ddb_reject("cannot write %s: %s", path, strerror(-error)) : EXIT_SUCCESS;
}

static int run_value_dump(struct ddb *ddb, char **words)
{
	struct fathom_fault why;
	int status = EXIT_SUCCESS, index = store_find(ddb->store, words[0], &why);
	char *text;

	if (index < 0 || store_read_record(ddb->store, &ddb->store->objects[index], &text, &why) != 0)
		return ddb_fail(ddb, &why);
	if (words[1])
		status = write_new(words[1], text);
	else if (ddb->options.json)
		(void)ddb_print_json(
			json_pack("{s:o, s:o}", "name", ddb_json_text(words[0]), "value", ddb_json_text(text)));
	else
		printf("%s\n", text);
	free(text);
	return status;
}

/* Read a file of at most POOL_RECORD_BYTES_MAX. */
static int read_value(const char *path, char *text, size_t *bytes_ret)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t bytes = fd < 0 ? -1 : read(fd, text, POOL_RECORD_BYTES_MAX);

	if (bytes < 0)
		(void)ddb_reject("cannot read %s: %s", path, strerror(errno));
	if (fd >= 0)
		close(fd);
	*bytes_ret = bytes < 0 ? 0 : (size_t)bytes;
	return bytes < 0 ? EXIT_USAGE : EXIT_SUCCESS;
}

static int run_value_load(struct ddb *ddb, char **words)
{
	static char text[POOL_RECORD_BYTES_MAX];
	struct fathom_fault why;
	size_t bytes;
	int status, index = store_find(ddb->store, words[1], &why);

	if (index < 0)
		return ddb_fail(ddb, &why);
	status = read_value(words[0], text, &bytes);
	if (status)
		return status;
	if (!ddb->options.json)
		printf("The record of %s becomes that of %s, with the checksum of its values.\n", words[1], words[0]);
	if (!ddb_confirm(ddb, "Replace the record?"))
		return DDB_FOUND;
	if (store_write_record(ddb->store, &ddb->store->objects[index], text, bytes, &why) != 0)
		return ddb_fail(ddb, &why);
	store_read(ddb->store);
	index = store_find(ddb->store, words[1], &why);
	must(index >= 0);
	return print_object(ddb, json_of_object(ddb->store, &ddb->store->objects[index]));
}

/* ---- dump, load ---- */

static int print_copy(const struct ddb *ddb, const char *from, const char *to, const struct store_copy *copy)
{
	return print_object(ddb, json_pack("{s:o, s:o, s:I, s:I, s:s}", "from", ddb_json_text(from), "to",
					   ddb_json_text(to), "size_bytes", (json_int_t)copy->size_bytes, "written_bytes",
					   (json_int_t)copy->written_bytes, "sha256", copy->sha256));
}

static int run_dump(struct ddb *ddb, char **words)
{
	struct store_copy copy;
	struct fathom_fault why;
	int index = store_find(ddb->store, words[0], &why);

	if (index < 0 || store_dump(ddb->store, &ddb->store->objects[index], words[1], &copy, &why) != 0)
		return ddb_fail(ddb, &why);
	return print_copy(ddb, words[0], words[1], &copy);
}

static int run_load(struct ddb *ddb, char **words)
{
	struct store_copy copy;
	struct fathom_fault why;
	int index = store_find(ddb->store, words[1], &why);

	if (index < 0)
		return ddb_fail(ddb, &why);
	if (!ddb->options.json)
		printf("The data of %s are replaced by those of %s.\n", words[1], words[0]);
	if (!ddb_confirm(ddb, "Replace the data?"))
		return DDB_FOUND;
	if (store_load(ddb->store, &ddb->store->objects[index], words[0], words[2], &copy, &why) != 0)
		return ddb_fail(ddb, &why);
	store_read(ddb->store);
	return print_copy(ddb, words[0], words[1], &copy);
}

/* ---- rm ---- */

static int run_rm(struct ddb *ddb, char **words)
{
	struct fathom_fault why;
	const char *path = words[0];
	int index = store_find(ddb->store, words[0], NULL);

	if (index >= 0)
		path = ddb->store->objects[index].path;
	else if (strncmp(path, "pools/", 6) != 0 && strncmp(path, "pending/", 8) != 0 && strncmp(path, "commit/", 7) != 0)
		return ddb_reject(
			"there is no \"%s\"; name an object, or a path of a finding: pools/..., pending/..., commit/...",
			path);
	if (!ddb->options.json)
		printf("%s moves to the trash%s. The next start of an engine deletes it.\n", path,
		       index >= 0 && !is_damaged(ddb->store, &ddb->store->objects[index]) ? "; it is not damaged" : "");
	if (!ddb_confirm(ddb, "Remove it?"))
		return DDB_FOUND;
	if (store_trash(ddb->store, path, &why) != 0)
		return ddb_fail(ddb, &why);
	if (ddb->options.json)
		(void)ddb_print_json(json_pack("{s:o}", "removed", ddb_json_text(path)));
	store_read(ddb->store);
	return EXIT_SUCCESS;
}

/* ---- version, help, quit ---- */

static int run_version(struct ddb *ddb, char **words)
{
	if (ddb->options.json)
		return ddb_print_json(
			json_pack("{s:s, s:i}", "version", FATHOM_VERSION, "record_version", POOL_RECORD_VERSION_MAX));
	printf("fathom ddb %s, records of version %d\n", FATHOM_VERSION, POOL_RECORD_VERSION_MAX);
	return EXIT_SUCCESS;
}

static int run_quit(struct ddb *ddb, char **words)
{
	ddb->is_ending = true;
	return EXIT_SUCCESS;
}

static int run_help(struct ddb *ddb, char **words);

/* In alphabetical order. */
static const struct ddb_command commands[] = {
	{ "close", NULL, NULL, "close the storage", 0, 0, false, run_close },
	{ "dump", NULL, "PATH FILE", "copy the data of a volume or a snapshot to a new sparse file", 2, 2, true, run_dump },
	{ "help", NULL, "[COMMAND]", "list the commands", 0, 1, false, run_help },
	{ "list", NULL, "[PATH]", "everything below PATH, or in the storage", 0, 1, true, run_list },
	{ "load", NULL, "FILE PATH [SHA256]", "replace the data of a volume by those of a file (--write)", 2, 3, true,
	  run_load },
	{ "ls", NULL, "[PATH]", "pools; volumes of a pool; snapshots of a volume", 0, 1, true, run_ls },
	{ "open", NULL, "PATH", "open the storage at a folder, or a superblock", 1, 1, false, run_open },
	{ "quit", "exit", NULL, "end", 0, 0, false, run_quit },
	{ "repair", NULL, NULL, "show what can be repaired, ask, and repair it (--write)", 0, 0, true, ddb_repair },
	{ "rm", NULL, "PATH", "move an object, or what a finding names, to the trash (--write)", 1, 1, true, run_rm },
	{ "show", NULL, "PATH", "the values of a pool, a volume or a snapshot", 1, 1, true, run_show },
	{ "superblock_dump", NULL, NULL, "the superblock that is open, or that of the storage", 0, 0, false,
	  run_superblock_dump },
	{ "value_dump", NULL, "PATH [FILE]", "the record of an object as its file has it", 1, 2, true, run_value_dump },
	{ "value_load", NULL, "FILE PATH", "replace the record of an object; its checksum is computed (--write)", 2, 2,
	  true, run_value_load },
	{ "verify", NULL, NULL, "check records, their checksums, sizes of files, space, and what does not belong there", 0,
	  0, true, ddb_verify },
	{ "verify_data", NULL, "[PATH]", "compare the data of volumes with their checksums; it reads all data", 0, 1, true,
	  ddb_verify_data },
	{ "version", NULL, NULL, "print the version", 0, 0, false, run_version },
};

const struct ddb_command *ddb_commands(size_t *count_ret)
{
	*count_ret = ARRAY_COUNT(commands);
	return commands;
}

const struct ddb_command *ddb_find_command(const char *name)
{
	for (size_t i = 0; i < ARRAY_COUNT(commands); i++) {
		if (strcmp(commands[i].name, name) == 0 ||
		    (commands[i].other_name && strcmp(commands[i].other_name, name) == 0))
			return &commands[i];
	}
	return NULL;
}

static int run_help(struct ddb *ddb, char **words)
{
	if (words[0] && !ddb_find_command(words[0]))
		return ddb_reject("there is no command \"%s\"; `help` lists them", words[0]);
	for (size_t i = 0; i < ARRAY_COUNT(commands); i++) {
		char line[64];

		if (words[0] && ddb_find_command(words[0]) != &commands[i])
			continue;
		snprintf(line, sizeof(line), "%s %s", commands[i].name, commands[i].arguments ? commands[i].arguments : "");
		printf("%-24s %s\n", line, commands[i].help);
	}
	if (!words[0])
		printf("\nPATH: POOL[/VOLUME[/SNAPSHOT]]; [N] stands for the Nth name, from 0.\n");
	return EXIT_SUCCESS;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Which engine the storage belongs to: the superblock, engine.uuid on the storage itself, and superblock.erased. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <uuid/uuid.h>

#include "base/bits.h"
#include "base/text.h"
#include "control/fault/fault.h"
#include "control/instance/internal.h"

/* ---- engine.uuid ---- */

static void identity_path(const struct instance *instance, char *path)
{
	snprintf(path, INSTANCE_PATH_BYTES + 16, "%s/engine.uuid", instance->options.mount);
}

static bool has_identity(struct instance *instance)
{
	char path[INSTANCE_PATH_BYTES + 16];
	struct stat stat;

	identity_path(instance, path);
	return instance_stat_file(instance, path, &stat) == 0;
}

static int explain_unusable(const struct instance *instance, const char *path, int error, struct fathom_fault *why)
{
	return fault_storage_unusable(why, instance->options.index, path, strerror(-error));
}

/* Written after the superblock: storage without it was not finished, or is older than engine.uuid. */
static int write_identity(struct instance *instance, struct fathom_fault *why)
{
	char path[INSTANCE_PATH_BYTES + 16], uuid[MEMBER_UUID_TEXT_BYTES], text[MEMBER_UUID_TEXT_BYTES + 1];
	int error;

	identity_path(instance, path);
	snprintf(text, sizeof(text), "%s\n", member_uuid_format(instance->superblock.uuid, uuid));
	error = instance_replace_file(instance, path, text, true);
	return error ? explain_unusable(instance, path, error, why) : 0;
}

int instance_check_identity(struct instance *instance, bool missing, struct fathom_fault *why)
{
	char path[INSTANCE_PATH_BYTES + 16], stored[MEMBER_UUID_TEXT_BYTES + 1], uuid[MEMBER_UUID_TEXT_BYTES];
	int error;

	identity_path(instance, path);
	error = provider_read_text(instance->options.os, path, stored, sizeof(stored));
	if (error == -ENOENT)
		return missing ? 0 : write_identity(instance, why);
	if (error)
		return explain_unusable(instance, path, error, why);
	if (missing)
		return fault_superblock_missing(why, instance->superblock_path, instance->options.mount, stored);
	member_uuid_format(instance->superblock.uuid, uuid);
	return strcmp(stored, uuid) == 0
		       ? 0
		       : fault_superblock_of_other(why, instance->superblock_path, uuid, instance->options.mount, stored);
}

/* ---- superblock ---- */

bool instance_is_formatted_folder(struct instance *instance)
{
	struct stat stat;

	if (instance->options.file_bytes > 0)
		return instance_stat_file(instance, instance->data_path, &stat) == 0;
	return instance_stat_file(instance, instance->superblock_path, &stat) == 0 || has_identity(instance);
}

int instance_write_superblock(struct instance *instance, struct fathom_fault *why)
{
	/* a superblock of another system or without an engine must never be written */
	must(strcmp(instance->superblock.system, instance->options.system) == 0);
	must(!is_all_zero(instance->superblock.uuid, sizeof(instance->superblock.uuid)));
	return superblock_write(instance->superblock_path, &instance->superblock, why);
}

int instance_read_superblock(struct instance *instance, struct fathom_fault *why)
{
	struct superblock superblock;
	int error = superblock_read(instance->superblock_path, instance->options.system, &superblock, why);

	instance->has_superblock = error == 0;
	if (error) {
		instance_remember_rank(instance);
	} else {
		must(strcmp(superblock.system, instance->options.system) == 0); /* superblock_read() has checked it */
		instance->superblock = superblock;
	}
	return error;
}

/* Its superblock could not be read before, or nothing has read it yet: the server has just started. */
static bool may_learn_rank(enum instance_state state)
{
	return state == INSTANCE_IDLE || state == INSTANCE_ADOPTING || state == INSTANCE_CHECKING ||
	       state == INSTANCE_ERRORED;
}

void instance_learn_rank(struct instance *instance)
{
	struct superblock superblock;
	struct fathom_fault why;

	if (instance->has_superblock || !may_learn_rank(instance->state))
		return;
	if (superblock_read(instance->superblock_path, instance->options.system, &superblock, &why) == 0)
		instance->superblock = superblock;
	else if (instance->state != INSTANCE_ERRORED)
		instance_remember_rank(instance);
}

static void erased_path(const struct instance *instance, char *path)
{
	snprintf(path, INSTANCE_PATH_BYTES + 16, "%s.erased", instance->superblock_path);
}

bool instance_is_erased(struct instance *instance)
{
	char path[INSTANCE_PATH_BYTES + 16], identity[INSTANCE_PATH_BYTES + 16];
	struct stat stat;

	erased_path(instance, path);
	identity_path(instance, identity);
	return instance->options.storage == INSTANCE_STORAGE_DEVICE && instance_stat_file(instance, path, &stat) == 0 &&
	       (instance_stat_file(instance, instance->superblock_path, &stat) == -ENOENT ||
		instance_stat_file(instance, identity, &stat) == -ENOENT);
}

int instance_sign_erased(struct instance *instance)
{
	struct provider *os = instance->options.os;
	char path[INSTANCE_PATH_BYTES + 16];
	int fd, error;

	must(instance->options.storage == INSTANCE_STORAGE_DEVICE);
	must(instance->process.pid == 0);
	erased_path(instance, path);
	fd = os->calls->open(os, path, O_WRONLY | O_CREAT, 0600, false);
	if (fd < 0)
		return fd;
	error = os->calls->sync(os, fd);
	os->calls->close_fd(os, fd);
	return error ? error : instance_sync_folder(instance, path);
}

static int ignore_name(void *ctx, const char *name)
{
	return 0;
}

/*
 * Move all pools to the trash of the storage (docs/formats/storage.md): the next engine deletes them, and a new system does
 * not find volumes of the former one.
 */
static int discard_pools(struct instance *instance)
{
	char pools[INSTANCE_PATH_BYTES + 16], trash[INSTANCE_PATH_BYTES + 16], to[INSTANCE_PATH_BYTES + 64],
		name[UUID_STR_LEN];
	struct provider *os = instance->options.os;
	uuid_t uuid;
	int error;

	snprintf(pools, sizeof(pools), "%s/pools", instance->options.mount);
	snprintf(trash, sizeof(trash), "%s/trash", instance->options.mount);
	error = os->calls->list(os, pools, ignore_name, NULL);
	if (error)
		return error == -ENOENT ? 0 : error;
	error = os->calls->make_folder(os, trash, 0700);
	if (error && error != -EEXIST)
		return error;
	uuid_generate_random(uuid);
	uuid_unparse_lower(uuid, name);
	snprintf(to, sizeof(to), "%s/%s", trash, name);
	error = os->calls->rename(os, pools, to);
	if (!error)
		error = instance_sync_folder(instance, to);
	return error ? error : instance_sync_folder(instance, pools);
}

int instance_clear_folder(struct instance *instance)
{
	char engine[INSTANCE_PATH_BYTES + 16], new_engine[INSTANCE_PATH_BYTES + 20], identity[INSTANCE_PATH_BYTES + 16];
	const char *const paths[] = { instance->data_path, identity, new_engine, engine, instance->superblock_path };
	int error;

	must(instance->options.storage == INSTANCE_STORAGE_FOLDER);
	must(instance->process.pid == 0);
	must(instance->state == INSTANCE_CHECKING || instance->state == INSTANCE_FORMATTING);
	identity_path(instance, identity);
	snprintf(engine, sizeof(engine), "%s/engine.json", instance->options.mount);
	snprintf(new_engine, sizeof(new_engine), "%s.new", engine); /* of an interrupted write */
	error = discard_pools(instance);
	for (size_t i = 0; !error && i < ARRAY_COUNT(paths); i++)
		error = instance_remove_file(instance, paths[i]);
	return error;
}

void instance_remove_erased_sign(struct instance *instance)
{
	char path[INSTANCE_PATH_BYTES + 16];

	erased_path(instance, path);
	(void)!instance_remove_file(instance, path); /* one that stays is ignored, and removed at the next start */
}

int instance_new_superblock(struct instance *instance, bool replace, struct fathom_fault *why)
{
	struct superblock *superblock = &instance->superblock;
	int error = 0;

	must(instance->process.pid == 0);
	must(instance->state == INSTANCE_CHECKING || instance->state == INSTANCE_FORMATTING);
	instance_remove_erased_sign(instance);
	memset(superblock, 0, sizeof(*superblock));
	superblock->is_replacement = replace;
	uuid_generate_random(superblock->uuid);
	(void)text_copy(superblock->system, sizeof(superblock->system), instance->options.system); /* checked: they fit */
	(void)text_copy(superblock->domain, sizeof(superblock->domain), instance->options.domain);
	if (instance->options.superblock_dir)
		error = instance_make_folders(instance, instance->options.superblock_dir, why);
	if (!error)
		error = instance_write_superblock(instance, why);
	if (!error)
		error = write_identity(instance, why);
	instance->has_superblock = error == 0;
	return error;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checks the storage: is it formatted, is it mounted, which engine does it belong to?
 *
 *	FOLDER		data.img exists -> superblock; else it is missing (missing.c), or awaits formatting
 *	DEVICE		check format -> mount -> superblock
 *
 * Without the helper, only short calls on files of some hundred bytes are made.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uuid/uuid.h>

#include "base/clock.h"
#include "base/text.h"
#include "control/fault/fault.h"
#include "control/instance/internal.h"

/* ---- files ---- */

int instance_make_folders(struct instance *instance, const char *path, struct fathom_fault *why)
{
	struct provider *os = instance->options.os;
	char part[INSTANCE_PATH_BYTES];
	size_t bytes = strlen(path);
	int error;

	must(bytes < sizeof(part));
	for (size_t i = 1; i <= bytes; i++) {
		if (path[i] != '/' && path[i] != '\0')
			continue;
		memcpy(part, path, i);
		part[i] = '\0';
		error = os->calls->make_folder(os, part, 0755);
		if (error && error != -EEXIST && path[i] == '\0')
			return fault_storage_unusable(why, instance->options.index, path, strerror(-error));
	}
	return 0;
}

int instance_sync_folder(struct instance *instance, const char *path)
{
	struct provider *os = instance->options.os;
	char folder[INSTANCE_PATH_BYTES + 16];
	int fd, error;

	must(text_copy(folder, sizeof(folder), path) == 0 && strrchr(folder, '/'));
	strrchr(folder, '/')[1] = '\0';
	fd = os->calls->open(os, folder, O_RDONLY | O_DIRECTORY, 0, false);
	if (fd < 0)
		return fd;
	error = os->calls->sync(os, fd);
	os->calls->close_fd(os, fd);
	return error;
}

int instance_replace_file(struct instance *instance, const char *path, const char *text, bool sync)
{
	struct provider *os = instance->options.os;
	char new_path[INSTANCE_PATH_BYTES + 48];
	ssize_t put;
	int fd, error;

	must((size_t)snprintf(new_path, sizeof(new_path), "%s.new", path) < sizeof(new_path));
	fd = os->calls->open(os, new_path, O_WRONLY | O_CREAT | O_TRUNC, 0600, false);
	if (fd < 0)
		return fd;
	put = os->calls->write_at(os, fd, text, strlen(text), 0);
	error = put < 0 ? (int)put : (size_t)put < strlen(text) ? -ENOSPC : 0;
	if (!error && sync)
		error = os->calls->sync(os, fd);
	os->calls->close_fd(os, fd);
	if (!error)
		error = os->calls->rename(os, new_path, path);
	return !error && sync ? instance_sync_folder(instance, path) : error;
}

/* -errno; -ENOENT: the file does not exist. */
static int stat_file(struct instance *instance, const char *path, struct stat *stat_ret)
{
	struct provider *os = instance->options.os;
	int fd = os->calls->open(os, path, O_PATH, 0, false), error;

	if (fd < 0)
		return fd;
	error = os->calls->stat(os, fd, stat_ret);
	os->calls->close_fd(os, fd);
	return error;
}

/* ---- identity: engine.uuid ---- */

static void identity_path(const struct instance *instance, char *path)
{
	snprintf(path, INSTANCE_PATH_BYTES + 16, "%s/engine.uuid", instance->options.mount);
}

static bool has_identity(struct instance *instance)
{
	char path[INSTANCE_PATH_BYTES + 16];
	struct stat stat;

	identity_path(instance, path);
	return stat_file(instance, path, &stat) == 0;
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

/*
 * engine.uuid and the superblock, which may be outside of the storage, must have the same UUID. If only engine.uuid is
 * missing, it is written. `missing`: there is no superblock; that is a fault if engine.uuid exists.
 */
static int check_identity(struct instance *instance, bool missing, struct fathom_fault *why)
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
		return stat_file(instance, instance->data_path, &stat) == 0;
	return stat_file(instance, instance->superblock_path, &stat) == 0 || has_identity(instance);
}

int instance_write_superblock(struct instance *instance, struct fathom_fault *why)
{
	return superblock_write(instance->superblock_path, &instance->superblock, why);
}

int instance_read_superblock(struct instance *instance, struct fathom_fault *why)
{
	struct superblock superblock;
	int error = superblock_read(instance->superblock_path, instance->options.system, &superblock, why);

	instance->has_superblock = error == 0;
	if (error)
		instance_remember_rank(instance);
	else
		instance->superblock = superblock;
	return error;
}

void instance_learn_rank(struct instance *instance)
{
	struct superblock superblock;
	struct fathom_fault why;

	if (instance->state == INSTANCE_ERRORED && !instance->has_superblock &&
	    superblock_read(instance->superblock_path, instance->options.system, &superblock, &why) == 0)
		instance->superblock = superblock;
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
	return instance->options.storage == INSTANCE_STORAGE_DEVICE && stat_file(instance, path, &stat) == 0 &&
	       (stat_file(instance, instance->superblock_path, &stat) == -ENOENT ||
		stat_file(instance, identity, &stat) == -ENOENT);
}

int instance_sign_erased(struct instance *instance)
{
	struct provider *os = instance->options.os;
	char path[INSTANCE_PATH_BYTES + 16];
	int fd, error;

	erased_path(instance, path);
	fd = os->calls->open(os, path, O_WRONLY | O_CREAT, 0600, false);
	if (fd < 0)
		return fd;
	error = os->calls->sync(os, fd);
	os->calls->close_fd(os, fd);
	return error ? error : instance_sync_folder(instance, path);
}

static int remove_file(struct instance *instance, const char *path)
{
	int error = instance->options.os->calls->remove(instance->options.os, path);

	return error == -ENOENT ? 0 : error;
}

int instance_clear_folder(struct instance *instance)
{
	char engine[INSTANCE_PATH_BYTES + 16], identity[INSTANCE_PATH_BYTES + 16];
	const char *const paths[] = { instance->data_path, identity, engine, instance->superblock_path };
	int error = 0;

	identity_path(instance, identity);
	snprintf(engine, sizeof(engine), "%s/engine.json", instance->options.mount);
	for (size_t i = 0; !error && i < ARRAY_COUNT(paths); i++)
		error = remove_file(instance, paths[i]);
	return error;
}

/* Superblock and engine.uuid agree, so superblock.erased is obsolete. */
static void remove_erased_sign(struct instance *instance)
{
	char path[INSTANCE_PATH_BYTES + 16];

	erased_path(instance, path);
	(void)!remove_file(instance, path); /* one that stays is ignored, and removed at the next start */
}

int instance_new_superblock(struct instance *instance, bool replace, struct fathom_fault *why)
{
	struct superblock *superblock = &instance->superblock;
	int error = 0;

	remove_erased_sign(instance);
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

/* ---- the helper ---- */

struct helper_request instance_helper_request(const struct instance *instance, enum helper_operation operation)
{
	const struct instance_options *options = &instance->options;
	struct helper_request request = { .operation = operation };
	bool with_target = operation == HELPER_MOUNT || operation == HELPER_UNMOUNT;

	if (operation != HELPER_UNMOUNT)
		(void)text_copy(request.device, sizeof(request.device), options->device); /* these fit: checked */
	if (with_target)
		(void)text_copy(request.target, sizeof(request.target), options->mount);
	if (operation == HELPER_FORMAT || operation == HELPER_MOUNT)
		snprintf(request.label, sizeof(request.label), "fathom%u", options->index % 1000000);
	return request;
}

static void on_helper_replied(void *ctx, const struct helper_reply *reply, const struct fathom_fault *why)
{
	struct instance_step *step = ctx;
	void (*then)(struct instance *, const struct helper_reply *, const struct fathom_fault *, bool) = step->then.helper;
	bool current;
	struct instance *instance = instance_step_end(step, &current);

	if (!instance)
		return;
	must(instance->working > 0);
	instance->working--;
	if (reply->error == 0 && reply->operation == HELPER_MOUNT)
		instance->mounted = true;
	if (reply->error == 0 && reply->operation == HELPER_UNMOUNT)
		instance->mounted = false;
	then(instance, reply, why, current);
	if (!current && instance->state == INSTANCE_STOPPING)
		instance_stop_next(instance);
	instance_turn_soon(instance);
}

void instance_ask_helper(struct instance *instance, struct helper_request *request,
			 void (*then)(struct instance *, const struct helper_reply *, const struct fathom_fault *, bool))
{
	struct instance_step *step = instance_step_begin(instance);

	step->then.helper = then;
	instance->working++;
	helper_client_submit(instance->options.helper, request, on_helper_replied, step);
}

/* A retry may succeed without an operator. */
static bool is_transient(int error)
{
	return error == -ETIMEDOUT || error == -ECONNRESET || error == -ENOMEM || error == -EAGAIN || error == -EMFILE ||
	       error == -ENFILE;
}

static void fail_check(struct instance *instance, const struct fathom_fault *why)
{
	enum instance_cause cause = INSTANCE_FAILED;

	instance_fail(instance, why, is_transient(why->error) && instance->purpose == INSTANCE_DO_START ? &cause : NULL);
}

/* ---- unmounting ---- */

static void unmount_again(struct deadline *deadline)
{
	instance_stop_next(container_of(deadline, struct instance, again));
}

static void on_unmounted(struct instance *instance, const struct helper_reply *reply, const struct fathom_fault *why,
			 bool current)
{
	if (!current)
		return;
	must(instance->state == INSTANCE_STOPPING);
	if (reply->error && ++instance->tries < INSTANCE_TRIES_MAX) {
		deadline_set(&instance->deadlines, &instance->again, INSTANCE_AGAIN_MS * NS_PER_MS, unmount_again);
		return;
	}
	if (reply->error)
		instance->why = *why; /* shown; the stop succeeds nevertheless */
	instance->mounted = false;    /* unknown: the next request checks */
	instance_stop_next(instance);
}

void instance_unmount(struct instance *instance)
{
	struct helper_request request = instance_helper_request(instance, HELPER_UNMOUNT);

	instance_ask_helper(instance, &request, on_unmounted);
}

/* ---- checking ---- */

static void await_format(struct instance *instance)
{
	struct ras_event event;
	struct fathom_fault why;

	fill_fault_not_formatted(&why, instance->options.index); /* reported and shown */
	instance->why = why;
	instance->has_superblock = false;
	memset(&instance->superblock, 0, sizeof(instance->superblock));
	instance_move(instance, INSTANCE_AWAIT_FORMAT);
	if (!instance->said_format_required) {
		ras_event_init(&event, RAS_ENGINE_FORMAT_REQUIRED, "the storage of instance %u needs formatting",
			       instance->options.index);
		instance->hooks.event(instance->hooks.ctx, instance, &event.message);
		instance->said_format_required = true;
	}
	instance_answer_all(instance, INSTANCE_DO_START, &why);
	instance_answer_all(instance, INSTANCE_DO_ERASE, NULL);
	instance_answer_all(instance, INSTANCE_DO_STOP, NULL); /* it does not run */
}

/* superblock.erased is durable before the superblock is removed: after a crash in between, the device is not erased. */
static int erase_device(struct instance *instance)
{
	int error = instance_sign_erased(instance);

	return error ? error : remove_file(instance, instance->superblock_path);
}

static int erase_folder(struct instance *instance)
{
	int error = instance_clear_folder(instance);

	return error ? error : instance_sync_folder(instance, instance->data_path);
}

static void erase_storage(struct instance *instance)
{
	bool device = instance->options.storage == INSTANCE_STORAGE_DEVICE;
	int error = device ? erase_device(instance) : erase_folder(instance);
	struct fathom_fault why;

	if (!error)
		error = instance_sync_folder(instance, instance->superblock_path);
	if (error) {
		fill_fault_superblock_unwritten(&why, instance->superblock_path, strerror(-error)); /* reported */
		instance_fail(instance, &why, NULL);
	} else {
		(void)!instance_record_erased(instance); /* with a former record it is missing: --new-storage overrides */
		await_format(instance);
	}
}

static void check_superblock(struct instance *instance);

static void check_superblock_again(struct deadline *deadline)
{
	check_superblock(container_of(deadline, struct instance, again));
}

static void check_superblock(struct instance *instance)
{
	struct fathom_fault why = { .error = 0 };
	int error = instance_check_free(instance, check_superblock_again, &why);
	bool missing;

	if (error == -EAGAIN)
		return;
	if (error) {
		instance_fail(instance, &why, NULL);
		return;
	}
	if (instance->purpose == INSTANCE_DO_ERASE) {
		erase_storage(instance);
		return;
	}
	if (instance_is_erased(instance)) {
		await_format(instance);
		return;
	}
	error = instance_read_superblock(instance, &why);
	missing = error == -ENOENT;
	if (!error || missing)
		error = check_identity(instance, missing, &why);
	if (!error && missing)
		error = instance_new_superblock(instance, false, &why);
	else if (!error)
		remove_erased_sign(instance);
	instance->said_format_required = instance->said_missing = false;
	if (error) {
		must(why.error);
		fail_check(instance, &why);
	} else {
		(void)!instance_record_formatted(instance); /* the next start tries again */
		instance->why.error = 0;
		instance_spawn(instance);
	}
}

static void on_mounted(struct instance *instance, const struct helper_reply *reply, const struct fathom_fault *why,
		       bool current)
{
	if (!current)
		return;
	if (reply->error)
		fail_check(instance, why);
	else
		check_superblock(instance);
}

static void on_format_checked(struct instance *instance, const struct helper_reply *reply, const struct fathom_fault *why,
			      bool current)
{
	struct helper_request request = instance_helper_request(instance, HELPER_MOUNT);
	struct fathom_fault damaged, gone;

	if (!current)
		return;
	if (reply->error) {
		fail_check(instance, why);
	} else if (reply->format == STORAGE_FORMAT_DAMAGED) {
		fill_fault_filesystem_damaged(&damaged, instance->options.device, reply->damage); /* reported */
		instance_fail(instance, &damaged, NULL);
	} else if (reply->format == STORAGE_FORMAT_XFS) {
		instance_ask_helper(instance, &request, on_mounted);
	} else if (instance_check_remembered(instance, &gone) != 0) {
		instance_miss(instance, &gone);
	} else {
		await_format(instance);
	}
}

static void check_folder(struct instance *instance)
{
	struct stat stat = { .st_mode = 0 };
	int error = stat_file(instance, instance->options.mount, &stat);
	struct fathom_fault why;

	if (!error && !S_ISDIR(stat.st_mode))
		error = -ENOTDIR;
	if (error && error != -ENOENT) {
		fill_fault_storage_unusable(&why, instance->options.index, instance->options.mount,
					    strerror(-error)); /* reported */
		fail_check(instance, &why);
	} else if (!error && instance_is_formatted_folder(instance)) {
		check_superblock(instance);
	} else if (instance_check_present(instance, &why) != 0) {
		instance_miss(instance, &why);
	} else if (instance->purpose == INSTANCE_DO_ERASE) {
		check_superblock(instance);
	} else {
		await_format(instance);
	}
}

void instance_check_storage(struct instance *instance)
{
	struct helper_request request;

	must(instance->state == INSTANCE_CHECKING);
	if (instance->options.storage == INSTANCE_STORAGE_FOLDER) {
		check_folder(instance);
		return;
	}
	request = instance_helper_request(instance, HELPER_CHECK_FORMAT);
	instance_ask_helper(instance, &request, on_format_checked);
}

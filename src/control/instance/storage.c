/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checks the storage: is it formatted, is it mounted, which engine does it belong to?
 *
 *	FOLDER		data.img exists -> superblock; else it is missing (missing.c), or awaits formatting
 *	DEVICE		check format -> mount -> superblock
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/text.h"
#include "control/fault/fault.h"
#include "control/instance/internal.h"

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
	must(instance->options.storage == INSTANCE_STORAGE_DEVICE);
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

	must(instance->options.storage == INSTANCE_STORAGE_DEVICE);
	must(instance->options.helper);
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

	must(instance->state == INSTANCE_CHECKING);
	must(instance->process.pid == 0);
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

	return error ? error : instance_remove_file(instance, instance->superblock_path);
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

	must(instance->purpose == INSTANCE_DO_ERASE);
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
		error = instance_check_identity(instance, missing, &why);
	if (!error && missing)
		error = instance_new_superblock(instance, false, &why);
	else if (!error)
		instance_remove_erased_sign(instance);
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
	int error = instance_stat_file(instance, instance->options.mount, &stat);
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

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Formatting. The helper formats a device: unmount, check, format, mount. A folder is formatted here:
 *
 *	pools are moved to the trash; data.img, engine.uuid, engine.json and the superblock are removed, as by erasing
 *	data.img.new gets its blocks, in slices so that the work can be abandoned in between, and is synced and renamed
 *
 * Both get a superblock with a new UUID. Files of an interrupted formatting are garbage, and are created again.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "control/fault/fault.h"
#include "control/instance/internal.h"

enum { SLICE_BYTES = 256 << 20 };

/* data.img during its creation; lent to the ring until its operation is done. */
struct filling {
	struct uring_op op;
	struct instance_step *step;
	struct provider *os;
	uint64_t done_bytes, bytes;
};

static struct instance_call *format_call(const struct instance *instance)
{
	struct instance_call *call;

	TAILQ_FOREACH (call, &instance->calls, link) {
		if (call->kind == INSTANCE_DO_FORMAT && call->taken)
			return call;
	}
	must(!"there is a request while it is formatted");
	return NULL;
}

/* Nothing was written: return to the former state. */
static void reject_format(struct instance *instance, const struct fathom_fault *why)
{
	instance_answer_all(instance, INSTANCE_DO_FORMAT, why);
	instance_restore(instance);
}

/* The storage is ready: write the superblock of a new engine, then start it. */
static void finish_format(struct instance *instance)
{
	bool replace = format_call(instance)->format.replace, stopped = instance->purpose == INSTANCE_DO_STOP;
	struct fathom_fault why;

	must(instance->state == INSTANCE_FORMATTING);
	must(instance->working == 0);
	must(!instance->restart_held); /* another engine from here on: the former engine's restart does not apply */
	if (instance_new_superblock(instance, replace, &why) != 0) {
		instance_fail(instance, &why, NULL);
		return;
	}
	(void)!instance_record_formatted(instance); /* the start that follows tries again */
	instance->said_format_required = instance->said_missing = false;
	instance->why.error = 0;
	instance_answer_all(instance, INSTANCE_DO_FORMAT, NULL);
	if (stopped && !instance_waits(instance, INSTANCE_DO_START)) {
		instance_begin_stopping(instance, false);
		return;
	}
	instance->purpose = INSTANCE_DO_START;
	instance_move(instance, INSTANCE_CHECKING);
	instance_check_storage(instance);
}

/* ---- a folder ---- */

static void new_path(const struct instance *instance, char *path)
{
	must((size_t)snprintf(path, INSTANCE_PATH_BYTES + 8, "%s.new", instance->data_path) < INSTANCE_PATH_BYTES + 8);
}

static void fail_at(struct instance *instance, const char *path, int error)
{
	struct fathom_fault why;

	fill_fault_storage_unusable(&why, instance->options.index, path, strerror(-error)); /* reported */
	instance_fail(instance, &why, NULL);
}

/* `error`: of the last operation. The descriptor is closed already. */
static void finish_data_file(struct instance *instance, int error)
{
	struct provider *os = instance->options.os;
	char path[INSTANCE_PATH_BYTES + 8];

	new_path(instance, path);
	if (!error)
		error = os->calls->rename(os, path, instance->data_path);
	if (!error)
		error = instance_sync_folder(instance, instance->data_path);
	if (error) {
		(void)!os->calls->remove(os, path); /* garbage, if it stays */
		fail_at(instance, instance->data_path, error);
	} else {
		finish_format(instance);
	}
}

static void close_data_file(struct filling *filling, int error)
{
	bool current;
	struct instance *instance = instance_step_end(filling->step, &current);

	filling->os->calls->close_fd(filling->os, filling->op.fd);
	free(filling);
	if (!instance)
		return;
	must(current);
	must(instance->state == INSTANCE_FORMATTING);
	must(instance->working > 0);
	instance->working--;
	finish_data_file(instance, error);
	instance_turn_soon(instance);
}

static void allocate_slice(struct filling *filling);

static void on_slice_allocated(struct uring_op *op, int32_t result)
{
	struct filling *filling = container_of(op, struct filling, op);

	if (op->kind == URING_FALLOCATE && result >= 0 && filling->step->instance) {
		filling->done_bytes += op->length_bytes;
		allocate_slice(filling);
		return;
	}
	close_data_file(filling, result < 0 ? result : 0);
}

static void allocate_slice(struct filling *filling)
{
	struct uring_op *op = &filling->op;

	must(filling->done_bytes <= filling->bytes);
	op->kind = filling->done_bytes < filling->bytes ? URING_FALLOCATE : URING_FDATASYNC;
	op->offset_bytes = filling->done_bytes;
	op->length_bytes = min_u64(filling->bytes - filling->done_bytes, SLICE_BYTES);
	uring_submit(op);
}

static void create_data_file(struct instance *instance)
{
	struct provider *os = instance->options.os;
	struct filling *filling = calloc(1, sizeof(*filling));
	char path[INSTANCE_PATH_BYTES + 8];
	int fd;

	must(filling);
	must(instance->options.file_bytes > 0);
	new_path(instance, path);
	fd = os->calls->open(os, path, O_WRONLY | O_CREAT | O_TRUNC, 0600, false);
	if (fd < 0) {
		free(filling);
		fail_at(instance, path, fd);
		return;
	}
	*filling = (struct filling){
		.op = { .fd = fd, .done = on_slice_allocated, .mode = 0 },
		.step = instance_step_begin(instance),
		.os = os,
		.bytes = instance->options.file_bytes,
	};
	instance->working++;
	allocate_slice(filling);
}

static void format_folder(struct instance *instance);

static void format_folder_again(struct deadline *deadline)
{
	format_folder(container_of(deadline, struct instance, again));
}

static void format_folder(struct instance *instance)
{
	struct fathom_fault why;
	int error;

	if (instance_is_formatted_folder(instance) && !format_call(instance)->format.reformat) {
		fill_fault_already_formatted(&why, instance->options.index); /* reported */
		reject_format(instance, &why);
		return;
	}
	if (!format_call(instance)->format.new_storage && instance_check_present(instance, &why) != 0) {
		reject_format(instance, &why);
		return;
	}
	if (instance_make_folders(instance, instance->options.mount, &why) != 0) {
		instance_fail(instance, &why, NULL);
		return;
	}
	error = instance_check_free(instance, format_folder_again, &why);
	if (error == -EAGAIN)
		return;
	if (error) {
		reject_format(instance, &why);
		return;
	}
	instance->restart_held = false; /* from here on it is another engine */
	error = instance_clear_folder(instance);
	if (error)
		fail_at(instance, instance->options.mount, error);
	else if (instance->options.file_bytes == 0)
		finish_format(instance);
	else
		create_data_file(instance);
}

/* ---- a device ---- */

static void on_device_mounted(struct instance *instance, const struct helper_reply *reply, const struct fathom_fault *why,
			      bool current)
{
	must(current);
	if (reply->error)
		instance_fail(instance, why, NULL);
	else
		finish_format(instance);
}

static void on_device_formatted(struct instance *instance, const struct helper_reply *reply, const struct fathom_fault *why,
				bool current)
{
	struct helper_request request = instance_helper_request(instance, HELPER_MOUNT);
	struct provider *os = instance->options.os;

	must(current);
	if (reply->error == 0) {
		instance->restart_held = false;	      /* it is another engine now */
		if (instance->options.superblock_dir) /* the former engine's superblock is no longer valid */
			(void)!os->calls->remove(os,
						 instance->superblock_path); /* a remaining one is replaced at the end */
		instance_ask_helper(instance, &request, on_device_mounted);
	} else if (reply->error == -EEXIST || reply->error == -EBUSY) {
		reject_format(instance, why); /* it holds data, or is in use: nothing was written */
	} else {
		instance->restart_held = false; /* unknown what was written */
		instance_fail(instance, why, NULL);
	}
}

/*
 * A superblock that is not on the device survives the formatting. superblock.erased marks it: from now on it is valid only
 * if engine.uuid exists on the storage.
 */
static int mark_superblock_doubtful(struct instance *instance, struct fathom_fault *why)
{
	int error;

	if (!instance->options.superblock_dir || access(instance->superblock_path, F_OK) != 0)
		return 0;
	error = instance_sign_erased(instance);
	return error ? fault_superblock_unwritten(why, instance->superblock_path, strerror(-error)) : 0;
}

static void format_device(struct instance *instance)
{
	struct helper_request request = instance_helper_request(instance, HELPER_FORMAT);
	struct fathom_fault why;

	if (mark_superblock_doubtful(instance, &why) != 0) {
		reject_format(instance, &why);
		return;
	}
	request.flags = format_call(instance)->format.reformat ? HELPER_FLAG_FORCE : 0;
	instance_ask_helper(instance, &request, on_device_formatted);
}

static void on_device_checked(struct instance *instance, const struct helper_reply *reply, const struct fathom_fault *why,
			      bool current)
{
	struct helper_request labelled = instance_helper_request(instance, HELPER_FORMAT);
	struct fathom_fault already;

	must(current);
	if (reply->error) {
		instance_fail(instance, why, NULL);
	} else if (reply->format == STORAGE_FORMAT_XFS && strcmp(reply->signature.label, labelled.label) == 0) {
		fill_fault_already_formatted(&already, instance->options.index); /* reported */
		reject_format(instance, &already);
	} else if (reply->format == STORAGE_FORMAT_NONE && !format_call(instance)->format.new_storage &&
		   instance_check_remembered(instance, &already) != 0) {
		reject_format(instance, &already);
	} else {
		format_device(instance);
	}
}

static void on_device_unmounted(struct instance *instance, const struct helper_reply *reply, const struct fathom_fault *why,
				bool current)
{
	must(current);
	if (reply->error)
		reject_format(instance, why);
	else
		format_device(instance);
}

void instance_do_format(struct instance *instance)
{
	struct instance_call *call = format_call(instance);
	struct helper_request request;

	must(instance->state == INSTANCE_FORMATTING);
	if (instance->options.storage == INSTANCE_STORAGE_FOLDER) {
		format_folder(instance);
		return;
	}
	/* an operator has erased it; while it stays mounted, no other device can have its name */
	if (instance->mounted && instance_is_erased(instance))
		call->format.reformat = true;
	if (call->format.reformat) {
		request = instance_helper_request(instance, HELPER_UNMOUNT);
		instance_ask_helper(instance, &request, on_device_unmounted);
	} else {
		request = instance_helper_request(instance, HELPER_CHECK_FORMAT);
		instance_ask_helper(instance, &request, on_device_checked);
	}
}

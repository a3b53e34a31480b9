/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Missing storage. The record (storage_record.c) distinguishes it from storage that was never formatted:
 *
 *	the folder does not exist				missing
 *	it is not a mount point, and the record says it was	missing
 *	it is not formatted, and the record says it was		missing
 *
 * The server looks for a missing folder every few seconds, and starts the engine when the folder is back. It looks for a
 * missing device only on request, since that needs the helper.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "control/fault/fault.h"
#include "control/instance/internal.h"

bool instance_is_mount(struct instance *instance)
{
	char above[INSTANCE_PATH_BYTES + 16];
	struct stat here, there;

	snprintf(above, sizeof(above), "%s/..", instance->options.mount);
	return instance_stat_file(instance, instance->options.mount, &here) == 0 &&
	       instance_stat_file(instance, above, &there) == 0 && here.st_dev != there.st_dev;
}

static int explain_missing(const struct instance *instance, const char *what, struct fathom_fault *why)
{
	return fault_storage_missing(why, instance->options.index,
				     instance->options.device ? instance->options.device : instance->options.mount, what);
}

int instance_check_remembered(struct instance *instance, struct fathom_fault *why)
{
	char what[80], uuid[MEMBER_UUID_TEXT_BYTES];
	struct instance_record record;
	struct stat stat;

	if (instance_read_record(instance, &record)) {
		if (!record.is_formatted)
			return 0;
		snprintf(what, sizeof(what), "it is empty, and had engine %s", member_uuid_format(record.uuid, uuid));
		return explain_missing(instance, what, why);
	}
	if (instance->options.storage == INSTANCE_STORAGE_FOLDER && instance->options.superblock_dir &&
	    instance_stat_file(instance, instance->superblock_path, &stat) == 0)
		return explain_missing(instance, "it is empty, and its superblock elsewhere says that it was formatted",
				       why);
	return 0;
}

int instance_check_present(struct instance *instance, struct fathom_fault *why)
{
	struct instance_record record;
	struct stat stat;

	must(instance->options.storage == INSTANCE_STORAGE_FOLDER);
	if (instance_stat_file(instance, instance->options.mount, &stat) == -ENOENT)
		return explain_missing(instance, "there is no such folder", why);
	if (instance_read_record(instance, &record) && record.is_mount && !instance_is_mount(instance))
		return explain_missing(instance, "nothing is mounted there, and a filesystem of its own was", why);
	return instance_is_formatted_folder(instance) ? 0 : instance_check_remembered(instance, why);
}

static void check_missing_folder(struct deadline *deadline)
{
	struct instance *instance = container_of(deadline, struct instance, again);
	struct fathom_fault why;

	instance_check(instance);
	must(instance->state == INSTANCE_MISSING);
	must(instance->options.storage == INSTANCE_STORAGE_FOLDER);
	if (instance->working == 0 &&
	    (instance_is_formatted_folder(instance) || instance_check_present(instance, &why) == 0))
		instance_begin(instance, INSTANCE_DO_START);
	else
		instance_poll_missing_storage(instance);
}

void instance_poll_missing_storage(struct instance *instance)
{
	if (instance->options.storage == INSTANCE_STORAGE_FOLDER)
		deadline_set(&instance->deadlines, &instance->again, instance->options.missing_interval_ns,
			     check_missing_folder);
}

void instance_remember_rank(struct instance *instance)
{
	struct instance_record record;

	if (instance->superblock.has_rank || !instance_read_record(instance, &record) || !record.is_formatted)
		return;
	memcpy(instance->superblock.uuid, record.uuid, sizeof(record.uuid));
	instance->superblock.rank = record.rank;
	instance->superblock.has_rank = record.rank != RANK_NONE;
}

void instance_miss(struct instance *instance, const struct fathom_fault *why)
{
	struct ras_event event;

	must(instance->state == INSTANCE_CHECKING);
	must(why->error < 0);
	must(instance->process.pid == 0);
	if (instance->purpose == INSTANCE_DO_ERASE) { /* ERRORED: the engine must not start when its storage is back */
		instance_fail(instance, why, NULL);
		return;
	}
	instance->why = *why;
	instance_remember_rank(instance);
	instance_move(instance, INSTANCE_MISSING);
	if (!instance->said_missing) {
		ras_event_init(&event, RAS_STORAGE_MISSING, "%s", why->text);
		instance->hooks.event(instance->hooks.ctx, instance, &event.message);
		instance->said_missing = true;
	}
	instance_answer_all(instance, INSTANCE_DO_START, why);
	instance_answer_all(instance, INSTANCE_DO_STOP, NULL); /* it does not run */
	instance_poll_missing_storage(instance);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "data/engine/move/image.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uuid/uuid.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "data/engine/control.h"
#include "data/engine/probes.gen.h"
#include "data/engine/volume_export.h"
#include "data/store/backend/backend.h"
#include "data/target/target.h"

enum { IMAGE_NSID = 1 };

static void move(struct move_image *image, enum move_image_state to)
{
	move_image_state_move(clock_ticks(), image, to);
}

void move_image_nqn(const uint8_t uuid[POOL_UUID_BYTES], char nqn_ret[NVME_NQN_FIELD_BYTES])
{
	char text[UUID_STR_LEN];

	uuid_unparse_lower(uuid, text);
	must(snprintf(nqn_ret, NVME_NQN_FIELD_BYTES, NVME_UUID_NQN_PREFIX "%s", text) < NVME_NQN_FIELD_BYTES);
}

void move_image_init(struct move_image *image, void *ctx)
{
	*image = (struct move_image){ .ctx = ctx };
	trace_object_init(&image->trace, TRACE_OBJECT_MOVE_IMAGE);
}

/* ---- the end ---- */

/* Nothing of it is left. */
static void rest(struct move_image *image)
{
	void (*done)(void *ctx, const struct fathom_fault *why) = image->done;
	void (*ended)(void *ctx) = image->ended;
	struct fathom_fault why = image->why;

	must(!image->is_busy && !image->has_subsystem);
	move(image, MOVE_IMAGE_ABSENT);
	uuid_clear(image->uuid);
	image->done = NULL;
	image->ended = NULL;
	if (image->is_ending) {
		image->is_ending = false;
		ended(image->ctx); /* may free it */
	} else {
		must(done && why.error);
		done(image->ctx, &why);
	}
}

static void note_device_gone(void *ctx)
{
	struct move_image *image = ctx;

	image->is_busy = false;
	rest(image);
}

static void remove_device(struct move_image *image)
{
	bool has_device = image->has_device;

	image->has_device = false;
	/* when the engine stops, it removes all block devices */
	if (!has_device || exports_are_stopped()) {
		rest(image);
		return;
	}
	image->is_busy = true;
	if (backend_delete(image->device, NULL, note_device_gone, image) < 0)
		note_device_gone(image); /* it was removed meanwhile */
}

static void note_subsystem_gone(void *ctx, int rc, const struct fathom_fault *why)
{
	struct move_image *image = ctx;

	maybe(rc); /* it was destroyed by its NQN meanwhile */
	image->is_busy = image->has_subsystem = false;
	remove_device(image);
}

static void start_remove(struct move_image *image)
{
	must(!image->is_busy);
	move(image, MOVE_IMAGE_REMOVING);
	if (!image->has_subsystem || exports_are_stopped()) {
		image->has_subsystem = false;
		remove_device(image);
		return;
	}
	image->is_busy = true;
	nvmf_subsystem_destroy(image->nqn, note_subsystem_gone, image);
}

/* ---- the serve, step by step ---- */

static void go_on(struct move_image *image);

static void end_step(struct move_image *image, int rc, const struct fathom_fault *why)
{
	must(image->is_busy && image->state == MOVE_IMAGE_MAKING);
	image->is_busy = false;
	if (rc)
		fill_fault(&image->why, rc, "snapshot %s cannot be served to the other engine: %.300s", image->device,
			   why->text);
	if (rc || image->is_ending || exports_are_stopped()) {
		if (!image->why.error)
			fill_fault(&image->why, -ESHUTDOWN, "the engine is stopping");
		start_remove(image);
	} else {
		go_on(image);
	}
}

static void note_step(void *ctx, int rc, const struct fathom_fault *why)
{
	end_step(ctx, rc, why);
}

static void note_made(void *ctx, int rc, const struct fathom_fault *why)
{
	struct move_image *image = ctx;

	/* if it could not be started, it exists all the same; -EEXIST: another has the NQN */
	image->has_subsystem = rc == 0 || (rc != -EEXIST && nvmf_subsystem_find(image->nqn));
	end_step(image, rc, why);
}

static void note_host_added(void *ctx, int rc, const struct fathom_fault *why)
{
	struct move_image *image = ctx;

	image->has_host = rc == 0;
	end_step(image, rc, why);
}

static void note_ns_added(void *ctx, int rc, const struct fathom_fault *why, uint32_t nsid)
{
	must(rc || nsid == IMAGE_NSID);
	end_step(ctx, rc, why);
}

static void make_subsystem(struct move_image *image)
{
	struct nvmf_subsystem_options options;

	nvmf_subsystem_options_init(&options);
	(void)text_copy(options.nqn, sizeof(options.nqn), image->nqn); /* as long */
	(void)text_copy(options.model_number, sizeof(options.model_number), "Fathom Snapshot");
	for (size_t i = 0; i < NVMF_SERIAL_BYTES / 2; i++)
		snprintf(&options.serial_number[2 * i], 3, "%02X", image->uuid[i]);
	options.max_namespaces = IMAGE_NSID;
	nvmf_subsystem_create(&options, note_made, image);
}

static void add_namespace(struct move_image *image)
{
	struct nvmf_ns_options options;

	nvmf_ns_options_init(&options);
	options.nsid = IMAGE_NSID;
	options.bdev_name = image->device;
	memcpy(options.uuid, image->uuid, sizeof(options.uuid));
	memcpy(options.nguid, image->uuid, sizeof(options.nguid));
	nvmf_subsystem_add_ns(image->nqn, &options, note_ns_added, image);
}

static void add_listener(struct move_image *image)
{
	struct nvmf_address address = { .trtype = "TCP" };
	struct fathom_fault why;

	if (!engine_control.traddr[0]) {
		fill_fault(&why, -EDESTADDRREQ, "the engine has no address for hosts");
		end_step(image, why.error, &why);
		return;
	}
	(void)text_copy(address.traddr, sizeof(address.traddr), engine_control.traddr); /* numeric, so it fits */
	(void)text_copy(address.trsvcid, sizeof(address.trsvcid), engine_control.trsvcid);
	nvmf_subsystem_add_listener(image->nqn, &address, NULL, note_step, image);
}

/* The listener comes last, so the host does not find a subsystem that is not complete. */
static void go_on(struct move_image *image)
{
	const struct nvmf_subsystem *subsystem = nvmf_subsystem_find(image->nqn);
	void (*done)(void *ctx, const struct fathom_fault *why) = image->done;
	struct nvmf_ns_info info;

	image->is_busy = true;
	if (!image->has_subsystem) {
		make_subsystem(image);
	} else if (!subsystem) {
		end_step(image, -ENOENT, &(struct fathom_fault){ .text = "its subsystem was destroyed" });
	} else if (!nvmf_subsystem_next_ns(subsystem, 0, &info)) {
		add_namespace(image);
	} else if (!image->has_host) {
		nvmf_subsystem_add_host(image->nqn, image->host, note_host_added, image);
	} else if (!nvmf_subsystem_listener_at(subsystem, 0)) {
		add_listener(image);
	} else {
		image->is_busy = false;
		image->done = NULL;
		move(image, MOVE_IMAGE_SERVED);
		done(image->ctx, NULL);
	}
}

/* Worker thread. */
static void open_device(struct worker_job *job)
{
	struct move_image *image = container_of(job, struct move_image, job);
	struct file_options options = {
		.name = image->device,
		.filename = image->data,
		.sums_filename = image->sums,
		.kind = FILE_KIND_VOLUME,
		.block_bytes = image->block_bytes,
		.read_only = true,
	};

	memcpy(options.uuid, image->uuid, sizeof(options.uuid));
	if (file_volume_open(&options, &image->opened, &image->why))
		must(image->why.error && !image->opened);
}

static void free_paths(struct move_image *image)
{
	free(image->data);
	free(image->sums);
	image->data = image->sums = NULL;
}

/* The files are open, or cannot be opened. */
static void note_opened(struct worker_job *job)
{
	struct move_image *image = container_of(job, struct move_image, job);
	struct file_bdev *opened = image->opened;
	struct fathom_fault why = image->why;

	image->opened = NULL;
	free_paths(image);
	if (opened && (image->is_ending || exports_are_stopped()))
		file_volume_abandon(opened);
	else if (opened)
		image->has_device = file_volume_register(opened, NULL, &why) == 0;
	end_step(image, why.error, &why);
}

void move_image_serve(struct move_image *image, const struct volume *volume, const struct snapshot *snapshot,
		      const char *host, void (*done)(void *ctx, const struct fathom_fault *why))
{
	const struct volumes *volumes = engine_storage();
	int error;

	must(image->state == MOVE_IMAGE_ABSENT && !image->is_busy);
	image->why = (struct fathom_fault){ 0 };
	image->has_host = false;
	image->done = done;
	uuid_copy(image->uuid, snapshot->record.uuid);
	move_image_nqn(image->uuid, image->nqn);
	must(snprintf(image->device, sizeof(image->device), "%s@%s", volume->device, snapshot->record.name) <
	     (int)sizeof(image->device));
	(void)text_copy(image->host, sizeof(image->host), host); /* as long */
	image->block_bytes = snapshot->record.block_bytes;
	image->data = volumes_snapshot_path(volumes, volume, snapshot, false);
	image->sums = snapshot->record.checksums ? volumes_snapshot_path(volumes, volume, snapshot, true) : NULL;
	must(image->data && (image->sums || !snapshot->record.checksums)); /* as a session, a path is small */
	move(image, MOVE_IMAGE_MAKING);
	image->is_busy = true;
	image->job = (struct worker_job){ .work = open_device, .done = note_opened };
	error = worker_start(&image->job);
	if (!error)
		return;
	fill_fault(&image->why, error, "cannot start a thread: %s", strerror(-error));
	note_opened(&image->job);
}

void move_image_end(struct move_image *image, void (*ended)(void *ctx))
{
	must(!image->is_ending);
	image->is_ending = true;
	image->ended = ended;
	image->done = NULL;
	if (image->state == MOVE_IMAGE_ABSENT) {
		image->is_ending = false;
		image->ended = NULL;
		ended(image->ctx);
	} else if (image->state == MOVE_IMAGE_SERVED) {
		start_remove(image);
	} else {
		maybe(image->is_busy); /* its step calls end_step(), or the removal goes on */
	}
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* storage - opens the folder of --storage with its pools and volumes when the engine starts, and closes it at the end. */
#include <errno.h>
#include <string.h>
#include <uuid/uuid.h>

#include "base/log.h"
#include "data/engine/control.h"
#include "data/engine/internal.h"
#include "data/engine/load.h"
#include "data/store/pool/fs.h"
#include "data/store/volume/volumes.h"

static struct {
	const char *root;
	struct volumes *volumes;
	bool is_open;
	engine_done_fn done;
	void *ctx;
} storage;

/* A volume in use became READ_ONLY or ERRORED; NULL: the storage became FAILED. The server asks for the details at once. */
static void note_failure(void *ctx, const struct volume *volume)
{
	char uuid[UUID_STR_LEN];

	if (!volume) {
		engine_raise_event(RAS_STORAGE_FAILED, NULL, STORAGE_FAILED_REASON);
		return;
	}
	uuid_unparse_lower(volume->record.uuid, uuid);
	engine_raise_event(volume->state == VOLUME_READ_ONLY ? RAS_VOLUME_READ_ONLY : RAS_VOLUME_ERRORED, uuid,
			   "volume %s: %s", volume->device, volume->why.text);
}

static void finish_open(void *ctx, const struct fathom_fault *why)
{
	struct volumes_info info;
	struct fathom_fault named;

	if (why) {
		fill_fault(&named, why->error, "--storage %s: %s", storage.root, why->text);
		storage.done(storage.ctx, &named);
		return;
	}
	storage.is_open = true;
	space_watch_start();
	load_start();
	volumes_get_info(storage.volumes, &info);
	if (info.volumes > 0)
		log_notice("storage %s: %u volume%s, %u of them not usable", storage.root, info.volumes,
			   info.volumes == 1 ? "" : "s", info.damaged);
	storage.done(storage.ctx, NULL);
}

void engine_storage_open(const char *root, engine_done_fn done, void *ctx)
{
	struct fathom_fault why;
	int error;

	must(!storage.volumes);
	if (!root) {
		done(ctx, NULL);
		return;
	}
	storage.root = root;
	storage.done = done;
	storage.ctx = ctx;
	error = volumes_open(pool_fs_system(), root, finish_open, NULL, &storage.volumes);
	if (!error) {
		volumes_on_failure(storage.volumes, note_failure, NULL);
		return;
	}
	fill_fault(&why, error, "--storage %s: %s", root, strerror(-error));
	done(ctx, &why);
}

void engine_storage_close(void (*closed)(void *ctx), void *ctx)
{
	struct volumes *volumes = storage.volumes;

	storage.volumes = NULL;
	storage.is_open = false;
	space_watch_stop();
	load_stop();
	if (volumes)
		volumes_close(volumes, closed, ctx);
	else
		closed(ctx);
}

struct volumes *engine_storage(void)
{
	return storage.is_open ? storage.volumes : NULL;
}

bool engine_volume_is_errored(const char *device)
{
	const struct pool *pool = engine_storage() ? volumes_first_pool(storage.volumes) : NULL;
	const struct volume *volume;

	for (; pool; pool = TAILQ_NEXT(pool, link)) {
		TAILQ_FOREACH (volume, &pool->volumes, link) {
			if (strcmp(volume->device, device) == 0)
				return volume->state == VOLUME_ERRORED;
		}
	}
	return false;
}

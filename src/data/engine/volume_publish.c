/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * volume_publish - changes of volumes whose hosts must gain or lose them: the record on disk first, then the subsystem. A
 * volume that is destroyed loses its subsystem before, because its block device must be free; it is held meanwhile, and
 * served again if it cannot be destroyed.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uuid/uuid.h>

#include "base/text.h"
#include "data/engine/control.h"
#include "data/engine/volume_export.h"
#include "data/target/target.h"

enum { HOSTS_NAMED_MAX = 2 };

static void end_with(volumes_done_fn done, void *ctx, int error, const char *format, ...) PRINTF_LIKE(4, 5);

static void end_with(volumes_done_fn done, void *ctx, int error, const char *format, ...)
{
	char text[FAULT_TEXT_BYTES_MAX];
	struct fathom_fault why;
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	fill_fault(&why, error, "%s", text);
	done(ctx, &why);
}

/* The volume of `key`; NULL: there is none with its names and UUIDs. */
static const struct volume *find_volume(const struct volumes *volumes, const struct volume_key *key)
{
	const struct volume *volume = volumes_find(volumes, key->pool, key->volume);

	if (!volume || (!uuid_is_null(key->pool_uuid) && uuid_compare(key->pool_uuid, volume->pool->record.uuid) != 0) ||
	    (!uuid_is_null(key->uuid) && uuid_compare(key->uuid, volume->record.uuid) != 0))
		return NULL;
	return volume;
}

/* ---- publish, unpublish ---- */

struct publishing {
	struct volumes *volumes;
	uint8_t uuid[POOL_UUID_BYTES];
	volumes_done_fn done;
	void *ctx;
};

static void end_publishing(void *ctx, const struct fathom_fault *why)
{
	struct publishing *publishing = ctx;

	publishing->done(publishing->ctx, why);
	free(publishing);
}

static void note_stored(void *ctx, const struct fathom_fault *why)
{
	struct publishing *publishing = ctx;

	if (why)
		end_publishing(publishing, why);
	else
		export_follow(publishing->uuid, end_publishing, publishing);
}

static struct publishing *create_publishing(const struct volume *volume, volumes_done_fn done, void *ctx)
{
	struct publishing *publishing = calloc(1, sizeof(*publishing));

	must(publishing);
	publishing->done = done;
	publishing->ctx = ctx;
	uuid_copy(publishing->uuid, volume->record.uuid);
	return publishing;
}

/*
 * The names of `key` may be another volume's when the change runs: its export would not follow. If there is no volume now,
 * the UUID fits none.
 */
static struct volume_key exact_key(const struct volume_key *key, const struct volume *volume)
{
	struct volume_key exact = *key;

	if (volume)
		uuid_copy(exact.uuid, volume->record.uuid);
	else
		uuid_generate(exact.uuid);
	return exact;
}

void export_publish(struct volumes *volumes, const struct volume_key *key, const char *host_nqn, volumes_done_fn done,
		    void *ctx)
{
	const struct volume *volume = find_volume(volumes, key);
	const struct bdev *bdev = volume ? bdev_find(volume->device) : NULL;
	struct volume_key exact = exact_key(key, volume);

	if (!volume || !volume_is_served(volume))
		volumes_publish(volumes, &exact, host_nqn, done, ctx); /* which says why not */
	else if (!nvmf_nqn_valid(host_nqn))
		end_with(done, ctx, -EINVAL, "\"%.223s\" is not an NQN", host_nqn);
	else if (!engine_control.traddr[0])
		end_with(done, ctx, -EDESTADDRREQ, "the engine has no address for hosts: start it with --listen");
	else if (export_is_held(volume))
		end_with(done, ctx, -EBUSY, "volume %s is being destroyed", volume->device);
	else if (!export_find(volume) && nvmf_subsystem_count() >= nvmf_target_max_subsystems())
		end_with(done, ctx, -ENOSPC, "the engine serves %u subsystems already", nvmf_subsystem_count());
	else if (!export_find(volume) && bdev && bdev->claimed)
		end_with(done, ctx, -EBUSY, "volume %s is in use by a namespace or another block device: remove that first",
			 volume->device);
	else
		volumes_publish(volumes, &exact, host_nqn, note_stored, create_publishing(volume, done, ctx));
}

void export_unpublish(struct volumes *volumes, const struct volume_key *key, const char *host_nqn, bool force,
		      volumes_done_fn done, void *ctx)
{
	const struct volume *volume = find_volume(volumes, key);
	struct volume_key exact = exact_key(key, volume);
	struct export_host host;

	if (!volume) {
		volumes_unpublish(volumes, &exact, host_nqn, done, ctx); /* which says why not */
		return;
	}
	export_get_host(volume, host_nqn, &host);
	if (host.connections > 0 && !force)
		end_with(done, ctx, -EBUSY, "host %s is connected to volume %s from %s: disconnect it, or use force",
			 host_nqn, volume->device, host.address);
	else
		volumes_unpublish(volumes, &exact, host_nqn, note_stored, create_publishing(volume, done, ctx));
}

/* ---- destroy ---- */

struct destroying {
	struct volumes *volumes;
	bool is_pool;
	uint8_t pool_uuid[POOL_UUID_BYTES], uuid[POOL_UUID_BYTES];
	char pool[POOL_NAME_BYTES_MAX], volume[POOL_NAME_BYTES_MAX];
	volumes_done_fn done;
	void *ctx;
	uint32_t waiting;		   /* for so many exports, and one for the start */
	uint8_t (*uuids)[POOL_UUID_BYTES]; /* of the volumes whose exports are held */
	uint32_t uuid_count;
	TAILQ_ENTRY(destroying) link;
};

static TAILQ_HEAD(, destroying) all_destroying = TAILQ_HEAD_INITIALIZER(all_destroying);

bool export_is_held(const struct volume *volume)
{
	const struct destroying *destroying;

	TAILQ_FOREACH (destroying, &all_destroying, link) {
		if (destroying->is_pool ? uuid_compare(destroying->pool_uuid, volume->pool->record.uuid) == 0
					: uuid_compare(destroying->uuid, volume->record.uuid) == 0)
			return true;
	}
	return false;
}

/* "host A (connected from ADDRESS), host B and 3 more" */
static void describe_hosts(const struct volume *volume, char *text, size_t bytes)
{
	const struct volume_record *record = &volume->record;
	uint32_t named = 0;
	int at = 0;

	text[0] = '\0';
	for (int connected = 1; connected >= 0; connected--) {
		for (uint32_t i = 0; i < record->host_count; i++) {
			struct export_host host;

			export_get_host(volume, record->hosts[i].nqn, &host);
			if ((host.connections > 0) != connected || named == HOSTS_NAMED_MAX || (size_t)at >= bytes)
				continue;
			at += snprintf(text + at, bytes - (size_t)at, "%shost %s%s%s%s", named ? ", " : "",
				       record->hosts[i].nqn, connected ? " (connected from " : "", host.address,
				       connected ? ")" : "");
			named++;
		}
	}
	if (record->host_count > named && (size_t)at < bytes)
		snprintf(text + at, bytes - (size_t)at, " and %u more", record->host_count - named);
}

struct users {
	char *text; /* "host A (connected from ADDRESS), host B (...) and 3 more" */
	size_t bytes;
	uint32_t count;
	int at;
};

static void add_user(void *ctx, const struct nvmf_connection *connection)
{
	struct users *users = ctx;

	if (users->count++ < HOSTS_NAMED_MAX && (size_t)users->at < users->bytes)
		users->at += snprintf(users->text + users->at, users->bytes - (size_t)users->at,
				      "%shost %s (connected from %s)", users->count > 1 ? ", " : "", connection->host_nqn,
				      connection->peer_address);
}

/* The hosts that are connected to a subsystem with a namespace on the volume. Returns their number. */
static uint32_t describe_users(const struct volume *volume, char *text, size_t bytes)
{
	const struct nvmf_subsystem *subsystem = nvmf_subsystem_first();
	struct users users = { .text = text, .bytes = bytes };

	text[0] = '\0';
	for (; subsystem; subsystem = nvmf_subsystem_next(subsystem)) {
		struct nvmf_ns_info info = { 0 };

		while (nvmf_subsystem_next_ns(subsystem, info.nsid, &info)) {
			if (strcmp(info.bdev_name, volume->device) != 0)
				continue;
			nvmf_subsystem_each_connection(subsystem, add_user, &users);
			break;
		}
	}
	if (users.count > HOSTS_NAMED_MAX && (size_t)users.at < bytes)
		snprintf(text + users.at, bytes - (size_t)users.at, " and %u more", users.count - HOSTS_NAMED_MAX);
	return users.count;
}

static void end_destroying(void *ctx, const struct fathom_fault *why)
{
	struct destroying *destroying = ctx;

	TAILQ_REMOVE(&all_destroying, destroying, link);
	for (uint32_t i = 0; i < destroying->uuid_count; i++) {
		if (why && !exports_are_stopped())
			export_follow(destroying->uuids[i], NULL, NULL); /* serve it again */
	}
	destroying->done(destroying->ctx, why);
	free(destroying->uuids);
	free(destroying);
}

/* An export is gone, or the engine stops; or the start has ended. The last one goes on. */
static void note_gone(void *ctx, const struct fathom_fault *why)
{
	struct destroying *destroying = ctx;
	struct volume_key key = { .pool = destroying->pool, .volume = destroying->volume };
	struct fathom_fault stopped;

	must(destroying->waiting > 0);
	if (--destroying->waiting > 0)
		return;
	if (exports_are_stopped()) { /* the storage may be closed */
		fill_fault(&stopped, -ESHUTDOWN, "the engine is stopping");
		end_destroying(destroying, &stopped);
		return;
	}
	uuid_copy(key.pool_uuid, destroying->pool_uuid);
	uuid_copy(key.uuid, destroying->uuid);
	if (destroying->is_pool)
		volumes_destroy_pool(destroying->volumes, &key, true, end_destroying, destroying);
	else
		volumes_destroy(destroying->volumes, &key, true, end_destroying, destroying);
}

/* Let go of a volume's export, if it has one. */
static void hold(struct destroying *destroying, const struct volume *volume)
{
	if (!export_find(volume))
		return;
	uuid_copy(destroying->uuids[destroying->uuid_count++], volume->record.uuid);
	destroying->waiting++;
}

static void start_destroying(struct volumes *volumes, const struct pool *pool, const struct volume *volume,
			     volumes_done_fn done, void *ctx)
{
	struct destroying *destroying = calloc(1, sizeof(*destroying));
	const struct volume *each;

	must(destroying);
	destroying->uuids = calloc(volume ? 1 : pool->volume_count + 1, sizeof(*destroying->uuids));
	must(destroying->uuids);
	destroying->volumes = volumes;
	destroying->is_pool = !volume;
	destroying->done = done;
	destroying->ctx = ctx;
	destroying->waiting = 1;
	uuid_copy(destroying->pool_uuid, pool->record.uuid);
	memcpy(destroying->pool, pool->record.name, sizeof(destroying->pool));
	if (volume) {
		uuid_copy(destroying->uuid, volume->record.uuid);
		memcpy(destroying->volume, volume->record.name, sizeof(destroying->volume));
		hold(destroying, volume);
	} else {
		TAILQ_FOREACH (each, &pool->volumes, link)
			hold(destroying, each);
	}
	TAILQ_INSERT_TAIL(&all_destroying, destroying, link);
	for (uint32_t i = 0; i < destroying->uuid_count; i++)
		export_follow(destroying->uuids[i], note_gone, destroying);
	note_gone(destroying, NULL);
}

void export_destroy_volume(struct volumes *volumes, const struct volume_key *key, bool force, volumes_done_fn done,
			   void *ctx)
{
	const struct volume *volume = find_volume(volumes, key);
	char hosts[FAULT_TEXT_BYTES_MAX - 128];

	if (volume && volume->record.host_count > 0 && !force) {
		describe_hosts(volume, hosts, sizeof(hosts));
		end_with(done, ctx, -EBUSY, "volume %s is published to %s: unpublish it, or use force", volume->device,
			 hosts);
	} else if (volume && !force && describe_users(volume, hosts, sizeof(hosts)) > 0) {
		end_with(done, ctx, -EBUSY, "volume %s is in use by %s: %s", volume->device, hosts,
			 engine_control_is_on() ? "disconnect there, or repeat the request with --force, which ends these"
						  " connections"
						: "remove its namespace, or use force");
	} else if (volume && export_find(volume)) {
		start_destroying(volumes, volume->pool, volume, done, ctx);
	} else {
		volumes_destroy(volumes, key, force, done, ctx);
	}
}

void export_destroy_pool(struct volumes *volumes, const struct volume_key *key, bool force, volumes_done_fn done, void *ctx)
{
	const struct pool *pool = volumes_find_pool(volumes, key->pool);

	if (force && pool && (uuid_is_null(key->pool_uuid) || uuid_compare(key->pool_uuid, pool->record.uuid) == 0))
		start_destroying(volumes, pool, NULL, done, ctx);
	else
		volumes_destroy_pool(volumes, key, force, done, ctx);
}

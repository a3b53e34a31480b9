/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * changes_publish - which hosts may use a volume: the `hosts` of its record. Here is only the record; the engine serves the
 * volume to its hosts after the change has ended (data/engine/volume_export.h).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "data/store/volume/internal.h"

static const struct volume_host *find_host(const struct volume_record *record, const char *nqn)
{
	for (uint32_t i = 0; i < record->host_count; i++) {
		if (strcmp(record->hosts[i].nqn, nqn) == 0)
			return &record->hosts[i];
	}
	return NULL;
}

bool volume_has_host(const struct volume *volume, const char *nqn)
{
	return find_host(&volume->record, nqn);
}

/* Copy the record of `volume` into the change. */
static int copy_record(struct change *change, const struct volume *volume, struct fathom_fault *why)
{
	volume_record_deinit(&change->record);
	if (volume_record_copy(&change->record, &volume->record))
		return fault(why, -ENOMEM, "out of memory");
	return 0;
}

/* `nqn` fits. */
static int add_host(struct volume_record *record, const char *nqn, struct fathom_fault *why)
{
	struct volume_host *hosts = realloc(record->hosts, (record->host_count + 1) * sizeof(*hosts));

	if (!hosts)
		return fault(why, -ENOMEM, "out of memory");
	record->hosts = hosts;
	(void)text_copy(hosts[record->host_count].nqn, sizeof(hosts->nqn), nqn);
	record->host_count++;
	return 0;
}

static void remove_host(struct volume_record *record, const char *nqn)
{
	size_t index = (size_t)(find_host(record, nqn) - record->hosts);

	must(index < record->host_count);
	record->host_count--;
	memmove(&record->hosts[index], &record->hosts[index + 1], (record->host_count - index) * sizeof(*record->hosts));
	if (record->host_count == 0) {
		free(record->hosts);
		record->hosts = NULL;
	}
}

static int work_hosts(struct change *change, struct fathom_fault *why)
{
	return volume_update(change->volumes->tree, change->pool, &change->record, why);
}

/* The volume gets the hosts of the change. */
static void apply_hosts(struct change *change)
{
	struct volume *volume = change_find_volume(change, NULL);

	must(volume);
	free(volume->record.hosts);
	volume->record.hosts = change->record.hosts;
	volume->record.host_count = change->record.host_count;
	change->record.hosts = NULL;
	change->record.host_count = 0;
}

/* ---- publish ---- */

/* Names of hosts are NQNs. The rest of their syntax is checked by the target. */
static int check_nqn(const char *nqn, struct fathom_fault *why)
{
	if (nqn[0] == '\0')
		return fault(why, -EINVAL, "the NQN of the host is empty or longer than %d bytes", POOL_NQN_BYTES_MAX - 1);
	for (const char *at = nqn; *at;) {
		size_t bytes = text_utf8_length(at, strlen(at));

		if (bytes == 0 || (unsigned char)*at <= ' ' || *at == 0x7f || *at == '"' || *at == '\\')
			return fault(why, -EINVAL, "the NQN of the host has a character that is not allowed, at byte %td",
				     at - nqn);
		at += bytes;
	}
	return 0;
}

static int check_publish(struct change *change, struct fathom_fault *why)
{
	struct volume *volume = change_find_volume(change, why);
	int error;

	if (!volume)
		return -ENOENT;
	if (!volume_is_served(volume))
		return fault(why, -EIO, "volume %s is %s: %s", volume->device, volume_state_name(volume->state),
			     volume->why.text);
	error = check_nqn(change->host, why);
	if (error)
		return error;
	if (volume->record.move != VOLUME_MOVE_NONE)
		return change_check_still(volume, why);
	if (volume_has_host(volume, change->host))
		return -EALREADY;
	if (volume->record.host_count >= POOL_VOLUME_HOSTS_MAX)
		return fault(why, -ENOSPC, "volume %s is published to %d hosts already", volume->device,
			     POOL_VOLUME_HOSTS_MAX);
	error = copy_record(change, volume, why);
	return error ? error : add_host(&change->record, change->host, why);
}

static const struct change_kind publish_kind = {
	.change = VOLUME_CHANGE_PUBLISH,
	.check = check_publish,
	.work = work_hosts,
	.apply = apply_hosts,
};

/* ---- unpublish ---- */

static int check_unpublish(struct change *change, struct fathom_fault *why)
{
	struct volume *volume = change_find_volume(change, why);
	int error;

	if (!volume)
		return -ENOENT;
	if (volume->record.generation == 0) /* what the record says is not known, so it cannot be replaced */
		return fault(why, -EIO, "volume %s is %s: %s", volume->device, volume_state_name(volume->state),
			     volume->why.text);
	if (!volume_has_host(volume, change->host))
		return -EALREADY;
	error = copy_record(change, volume, why);
	if (!error)
		remove_host(&change->record, change->host);
	return error;
}

static const struct change_kind unpublish_kind = {
	.change = VOLUME_CHANGE_UNPUBLISH,
	.check = check_unpublish,
	.work = work_hosts,
	.apply = apply_hosts,
};

/* ---- calls ---- */

static void submit(struct volumes *volumes, const struct change_kind *kind, const struct volume_key *key,
		   const char *host_nqn, volumes_done_fn done, void *ctx)
{
	struct change *change = change_of_volume(volumes, kind, key, done, ctx);

	if (text_copy(change->host, sizeof(change->host), host_nqn) != 0)
		change->host[0] = '\0'; /* which check_nqn() rejects */
	change_submit(change);
}

void volumes_publish(struct volumes *volumes, const struct volume_key *key, const char *host_nqn, volumes_done_fn done,
		     void *ctx)
{
	submit(volumes, &publish_kind, key, host_nqn, done, ctx);
}

void volumes_unpublish(struct volumes *volumes, const struct volume_key *key, const char *host_nqn, volumes_done_fn done,
		       void *ctx)
{
	submit(volumes, &unpublish_kind, key, host_nqn, done, ctx);
}

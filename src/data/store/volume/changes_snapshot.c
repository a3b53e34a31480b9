/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * changes_snapshot - take and destroy snapshots.
 *
 *   SNAPSHOT_CREATE   space is promised and empty files are made in `pending`; the copy of one instant; then the files are
 *                     synced and appear in the tree, all of the group or none
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <uuid/uuid.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/text.h"
#include "data/store/pool/sums.h"
#include "data/store/volume/copy.h"
#include "data/store/volume/ledger.h"
#include "data/store/volume/upkeep.h"

enum { NAMES_BYTES_MAX = 256 }; /* of the names of snapshots in a message */

/* ---- take: check ---- */

static struct volume *find_member(const struct change *change, uint32_t index, struct fathom_fault *why)
{
	const struct copy_volume *member = &change->copy->volumes[index];
	const struct pool *pool = model_find_pool(&change->volumes->pools, member->pool);
	struct volume *volume = pool ? model_find_volume(pool, member->name) : NULL;

	if (volume && (uuid_is_null(member->uuid) || uuid_compare(member->uuid, volume->record.uuid) == 0))
		return volume;
	fill_fault(why, -ENOENT,
		   volume ? "there is another volume \"%s\" in pool \"%s\"" : "there is no volume \"%s\" in pool \"%s\"",
		   member->name, member->pool);
	return NULL;
}

/* Whether the snapshot may be taken. 1: it exists, and is what was asked for. */
static int check_member(struct change *change, uint32_t index, struct fathom_fault *why)
{
	const struct snapshot_record *asked = &change->copy->members[index].record;
	struct volume *volume = find_member(change, index, why);
	const struct snapshot *snapshot;
	int error;

	if (!volume)
		return -ENOENT;
	error = pool_name_check("snapshot", asked->name, why);
	if (error)
		return error;
	for (uint32_t i = 0; i < index; i++) {
		if (find_member(change, i, NULL) == volume)
			return fault(why, -EINVAL, "volume %s is named twice", volume->device);
	}
	snapshot = volumes_find_snapshot(volume, asked->name);
	if (snapshot && !uuid_is_null(asked->uuid) && uuid_compare(asked->uuid, snapshot->record.uuid) != 0)
		return fault(why, -EEXIST, "volume %s has another snapshot \"%s\"", volume->device, asked->name);
	if (snapshot)
		return 1;
	if (volume->state != VOLUME_ONLINE)
		return fault(why, -EIO, "volume %s is %s: %s", volume->device, volume_state_name(volume->state),
			     volume->why.text);
	if (volume->snapshot_count >= SNAPSHOTS_MAX)
		return fault(why, -EDQUOT, "volume %s has %u snapshots, and may have %d: destroy one first", volume->device,
			     volume->snapshot_count, SNAPSHOTS_MAX);
	if (!change->copy->is_copied)
		return change_check_still(volume, why);
	if (volume->record.move != VOLUME_MOVE_INCOMING)
		return fault(why, -EINVAL, "volume %s is no copy in progress", volume->device);
	return 0;
}

/*
 * How much of the data file is cloned. A copied snapshot may be smaller than the volume: then whole blocks of the file
 * system. If it is larger, the file is as long as the snapshot.
 */
static uint64_t cloned_bytes(const struct snapshot_record *snapshot, uint64_t volume_bytes)
{
	uint64_t bytes = round_up(snapshot->size_bytes, SUMS_ALIGN_BYTES);

	return bytes <= volume_bytes ? bytes : max_u64(snapshot->size_bytes, min_u64(bytes, volume_bytes));
}

/* Fill what the volume decides. */
static void fill_member(struct change *change, uint32_t index)
{
	const struct volume *volume = find_member(change, index, NULL);
	struct snapshot_member *member = &change->copy->members[index];

	member->pool = change->copy->volumes[index].pool;
	member->volume = change->copy->volumes[index].name;
	if (!change->copy->is_copied)
		member->record.size_bytes = volume->record.size_bytes;
	member->record.block_bytes = volume->record.block_bytes;
	member->record.checksums = volume->record.checksums;
	uuid_copy(member->record.volume, volume->record.uuid);
	change->copy->files[index].device = volume->device;
	change->copy->files[index].bytes = volume->record.size_bytes;
	if (change->copy->is_copied) { /* the volume is not served, and its file may have another length */
		change->copy->files[index].device = NULL;
		change->copy->files[index].bytes = cloned_bytes(&member->record, volume->record.size_bytes);
	}
}

int change_check_reflinks(const struct change *change, struct fathom_fault *why)
{
	if (change->volumes->has_reflinks)
		return 0;
	return fault(why, -EOPNOTSUPP,
		     "the file system of storage %s has no reflinks, which snapshots and clones need: use XFS, made with "
		     "mkfs.xfs"
		     " -m reflink=1",
		     change->volumes->root);
}

/* All of the snapshots exist. -EALREADY: they were taken together. */
static int check_existing(const struct change *change, struct fathom_fault *why)
{
	const struct copy *copy = change->copy;
	const struct snapshot_record *first = NULL;

	for (uint32_t i = 0; i < copy->count; i++) {
		const struct snapshot *snapshot = volumes_find_snapshot(find_member(change, i, NULL),
									copy->members[i].record.name);

		if (first && uuid_compare(first->group, snapshot->record.group) != 0)
			return fault(why, -EEXIST, "the %u snapshots exist already, and are not of one instant",
				     copy->count);
		first = &snapshot->record;
	}
	return -EALREADY;
}

static int check_snapshot(struct change *change, struct fathom_fault *why)
{
	struct copy *copy = change->copy;
	uint32_t existing = 0;
	int found;

	for (uint32_t i = 0; i < copy->count; i++) {
		found = check_member(change, i, why);
		if (found < 0)
			return found;
		existing += (uint32_t)found;
	}
	if (existing == copy->count)
		return check_existing(change, why);
	if (existing > 0)
		return fault(why, -EEXIST, "%u of the %u snapshots exist already, and they would be of another instant",
			     existing, copy->count);
	found = change_check_reflinks(change, why);
	if (found)
		return found;
	for (uint32_t i = 0; i < copy->count; i++)
		fill_member(change, i);
	return 0;
}

/* ---- take: begin ---- */

/* Most checksums reach the disk now: the clone of their file writes the rest, while writes of hosts wait. */
static int open_sums(struct change *change, uint32_t index, struct fathom_fault *why)
{
	const struct volume_record *record = &find_member(change, index, NULL)->record;
	const struct pool_fs *fs = change->volumes->fs;
	struct barrier_member *file = &change->copy->files[index];
	int error;

	if (!record->checksums)
		return 0;
	file->sums_bytes = sums_file_bytes(change->copy->members[index].record.size_bytes);
	file->sums_to = change->copy->members[index].sums_fd;
	error = volume_open_sums(change->volumes->tree, change->copy->volumes[index].pool, record, O_RDONLY,
				 &file->sums_from, why);
	if (error)
		return error;
	error = fs->sync(fs->ctx, file->sums_from);
	return error ? fault(why, error, "cannot sync the checksums of volume %s: %s", record->name, strerror(-error)) : 0;
}

static int open_sources(struct change *change, struct fathom_fault *why)
{
	struct copy *copy = change->copy;
	int error = 0;

	for (uint32_t i = 0; !error && i < copy->count; i++) {
		error = volume_open_data(change->volumes->tree, copy->volumes[i].pool,
					 &find_member(change, i, NULL)->record, O_RDONLY, &copy->files[i].from, why);
		copy->files[i].to = copy->members[i].fd;
		if (!error)
			error = open_sums(change, i, why);
	}
	return error;
}

static int promise_space(struct change *change, struct fathom_fault *why)
{
	bool is_promised = false;
	uint64_t bytes = 0, more;
	int error = 0;

	for (uint32_t i = 0; !error && i < change->copy->count; i++) {
		const struct volume *volume = find_member(change, i, NULL);

		is_promised = is_promised || ledger_is_promised(volume->pool, &volume->record);
		error = ledger_snapshot_bytes(change->volumes, volume, &more, why);
		bytes += error ? 0 : more;
	}
	if (error || !is_promised)
		return error;
	change->copy->promised_bytes = bytes;
	return ledger_check_bytes(change->volumes, "what hosts write after the snapshot", bytes, why);
}

/*
 * Let the records say that the data files share blocks, before they do: after the last snapshot upkeep.h goes on with what
 * a file that shared blocks needs, also after a crash.
 */
static int mark_sharing(struct change *change, struct fathom_fault *why)
{
	struct copy *copy = change->copy;
	int error = 0;

	for (uint32_t i = 0; !error && i < copy->count; i++) {
		struct volume_record record = find_member(change, i, NULL)->record;

		if (record.shares)
			continue;
		record.shares = true;
		error = volume_update(change->volumes->tree, copy->volumes[i].pool, &record, why);
		copy->volumes[i].is_marked = !error;
	}
	return error;
}

/* The records on disk say so, whether the snapshots come to be or not. */
static void note_sharing(struct change *change)
{
	for (uint32_t i = 0; i < change->copy->count; i++) {
		struct volume *volume = find_member(change, i, NULL);

		if (!change->copy->volumes[i].is_marked)
			continue;
		change->copy->volumes[i].is_marked = false;
		volume->record.shares = true;
		upkeep_note(volume);
	}
}

static int work_snapshot(struct change *change, struct fathom_fault *why)
{
	struct copy *copy = change->copy;
	uint8_t group[POOL_UUID_BYTES];
	int error = promise_space(change, why);

	if (!error)
		error = mark_sharing(change, why);
	if (error)
		return error;
	uuid_generate(group);
	for (uint32_t i = 0; i < copy->count; i++) {
		if (!copy->is_copied)
			uuid_copy(copy->members[i].record.group, group);
		if (uuid_is_null(copy->members[i].record.uuid))
			uuid_generate(copy->members[i].record.uuid);
	}
	copy->group = (struct snapshot_group){ .members = copy->members, .count = copy->count };
	error = snapshot_group_begin(change->volumes->tree, &copy->group, why);
	if (error)
		return error;
	error = open_sources(change, why);
	if (error) {
		copy_close_sources(copy);
		snapshot_group_abandon(change->volumes->tree, &copy->group);
		return error;
	}
	copy->is_open = true;
	return 0;
}

/* ---- take: end ---- */

static int check_nothing(struct change *change, struct fathom_fault *why)
{
	return 0;
}

/* What the image occupies; 0 if that cannot be read. */
static uint64_t read_allocated(const struct pool_fs *fs, int fd)
{
	struct stat stat;

	return fs->stat(fs->ctx, fd, &stat) == 0 ? (uint64_t)stat.st_blocks * 512 : 0;
}

/* A copied snapshot has got whole blocks of the file system: cut it to its size. */
static int cut_member(struct change *change, uint32_t index, struct fathom_fault *why)
{
	const struct snapshot_member *member = &change->copy->members[index];
	const struct pool_fs *fs = change->volumes->fs;
	int error = fs->set_size(fs->ctx, member->fd, member->record.size_bytes);

	return error ? fault(why, error, "cannot set the size of a snapshot: %s", strerror(-error)) : 0;
}

static int abandon_group(struct change *change, int error)
{
	snapshot_group_abandon(change->volumes->tree, &change->copy->group);
	return error;
}

static int work_snapshot_end(struct change *change, struct fathom_fault *why)
{
	struct copy *copy = change->copy;

	copy->is_open = false;
	copy_close_sources(copy);
	if (copy->error) {
		*why = copy->why;
		return abandon_group(change, copy->error);
	}
	for (uint32_t i = 0; i < copy->count; i++) {
		copy->volumes[i].allocated_bytes = read_allocated(change->volumes->fs, copy->members[i].fd);
		if (!copy->is_copied)
			copy->members[i].record.created_ns = copy->instant_ns;
		else if (cut_member(change, i, why))
			return abandon_group(change, why->error);
	}
	return snapshot_group_commit(change->volumes->tree, &copy->group, why);
}

static void apply_snapshot_end(struct change *change)
{
	struct copy *copy = change->copy;

	for (uint32_t i = 0; i < copy->count; i++)
		must(model_add_snapshot(find_member(change, i, NULL), &copy->members[i].record,
					copy->volumes[i].allocated_bytes));
	copy_end(change);
}

static void undo_snapshot_end(struct change *change)
{
	if (change->copy->is_open) /* no thread could be started */
		snapshot_group_abandon(change->volumes->tree, &change->copy->group);
	change->copy->is_open = false;
	for (uint32_t i = 0; i < change->copy->count; i++)
		model_set_limit(find_member(change, i, NULL), false);
	copy_end(change);
}

static const struct change_kind snapshot_end_kind = {
	.change = VOLUME_CHANGE_SNAPSHOT_CREATE,
	.check = check_nothing,
	.work = work_snapshot_end,
	.apply = apply_snapshot_end,
	.undo = undo_snapshot_end,
};

static void apply_snapshot(struct change *change)
{
	note_sharing(change);
	for (uint32_t i = 0; i < change->copy->count; i++)
		model_set_limit(find_member(change, i, NULL), true);
	copy_begin(change, &snapshot_end_kind);
}

static const struct change_kind snapshot_kind = {
	.change = VOLUME_CHANGE_SNAPSHOT_CREATE,
	.check = check_snapshot,
	.work = work_snapshot,
	.apply = apply_snapshot,
	.undo = note_sharing,
};

/* ---- destroy ---- */

int change_fault_snapshots(const struct volume *volume, struct fathom_fault *why)
{
	const struct snapshot *snapshot;
	char names[NAMES_BYTES_MAX];
	size_t used = 0;

	names[0] = '\0';
	TAILQ_FOREACH (snapshot, &volume->snapshots, link) {
		if (used + 2 * POOL_NAME_BYTES_MAX > sizeof(names)) {
			snprintf(names + used, sizeof(names) - used, " ...");
			break;
		}
		used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s", used > 0 ? ", " : "",
					 snapshot->record.name);
	}
	return fault(why, -ENOTEMPTY, "volume %s has %u snapshot%s (%s): destroy %s first, or use force", volume->device,
		     volume->snapshot_count, volume->snapshot_count == 1 ? "" : "s", names,
		     volume->snapshot_count == 1 ? "it" : "them");
}

struct snapshot *change_find_snapshot(const struct change *change, struct fathom_fault *why)
{
	const struct volume *volume = change_find_volume(change, why);
	struct snapshot *snapshot = volume ? volumes_find_snapshot(volume, change->snapshot) : NULL;

	if (volume && !snapshot)
		fill_fault(why, -ENOENT, "volume %s has no snapshot \"%s\"", volume->device, change->snapshot);
	return snapshot;
}

static int check_destroy_snapshot(struct change *change, struct fathom_fault *why)
{
	/* a move compares the snapshot with the next one */
	return change_find_snapshot(change, why) ? change_check_still(change_find_volume(change, NULL), why) : -ENOENT;
}

static int work_destroy_snapshot(struct change *change, struct fathom_fault *why)
{
	return snapshot_remove(change->volumes->tree, change->pool, change->record.name, change->snapshot, why);
}

static void apply_destroy_snapshot(struct change *change)
{
	struct snapshot *snapshot = change_find_snapshot(change, NULL);

	must(snapshot);
	model_remove_snapshot(change_find_volume(change, NULL), snapshot);
	model_set_limit(change_find_volume(change, NULL), false);
	change->volumes->has_trash = true;
	upkeep_note(change_find_volume(change, NULL));
	upkeep_note_removal(change->volumes->upkeep);
}

static const struct change_kind destroy_snapshot_kind = {
	.change = VOLUME_CHANGE_SNAPSHOT_DESTROY,
	.check = check_destroy_snapshot,
	.work = work_destroy_snapshot,
	.apply = apply_destroy_snapshot,
};

/* ---- calls ---- */

void volumes_snapshot(struct volumes *volumes, const struct snapshot_request *requests, uint32_t count,
		      volumes_done_fn done, void *ctx)
{
	struct change *change = change_of_volume(volumes, &snapshot_kind, &requests[0].key, done, ctx);

	must(count > 0 && count <= SNAPSHOT_GROUP_MAX);
	change->copy = copy_create(count);
	for (uint32_t i = 0; i < count; i++) {
		struct copy_volume *volume = &change->copy->volumes[i];
		struct snapshot_record *record = &change->copy->members[i].record;

		change_copy_name(volume->pool, requests[i].key.pool);
		change_copy_name(volume->name, requests[i].key.volume);
		uuid_copy(volume->uuid, requests[i].key.uuid);
		change_copy_name(record->name, requests[i].name);
		uuid_copy(record->uuid, requests[i].uuid);
		if (!requests[i].copied)
			continue;
		must(count == 1);
		change->copy->is_copied = true;
		record->size_bytes = requests[i].copied->size_bytes;
		record->created_ns = requests[i].copied->created_ns;
		uuid_copy(record->group, requests[i].copied->group);
	}
	change_submit(change);
}

void volumes_destroy_snapshot(struct volumes *volumes, const struct volume_key *key, const char *snapshot,
			      volumes_done_fn done, void *ctx)
{
	struct change *change = change_of_volume(volumes, &destroy_snapshot_kind, key, done, ctx);

	change_copy_name(change->snapshot, snapshot);
	change_submit(change);
}

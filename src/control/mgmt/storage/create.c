/* SPDX-License-Identifier: BSD-2-Clause */
/* Create volumes, on the ranks that storage/place.c chooses. A clone is placed on the rank of its origin. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/text.h"
#include "control/fault/fault.h"
#include "control/mgmt/storage/storage.h"

enum { BLOCK_BYTES_DEFAULT = 4096, BLOCK_BYTES_MIN = 512, BLOCK_BYTES_MAX = 65536 };

/* ---- a repeated request ---- */

static int differ(const struct catalog_volume *volume, const char *value, uint64_t found, uint64_t given,
		  struct fathom_fault *why)
{
	char what[STORAGE_WHAT_BYTES], found_text[32], given_text[32];

	if (found == given)
		return 0;
	snprintf(found_text, sizeof(found_text), "%" PRIu64, found);
	snprintf(given_text, sizeof(given_text), "%" PRIu64, given);
	return fault_volume_differs(why, storage_what(volume->pool, volume, what), value, found_text, given_text);
}

static int differ_flag(const struct catalog_volume *volume, const char *value, bool found, bool given,
		       struct fathom_fault *why)
{
	char what[STORAGE_WHAT_BYTES];

	if (found == given)
		return 0;
	return fault_volume_differs(why, storage_what(volume->pool, volume, what), value, found ? "on" : "off",
				    given ? "on" : "off");
}

static uint32_t block_bytes_of(const Fathom__VolumeCreateReq *asked)
{
	return asked->block_bytes ? asked->block_bytes : BLOCK_BYTES_DEFAULT;
}

static bool is_thick(const struct catalog_pool *pool, const Fathom__VolumeCreateReq *asked)
{
	return asked->thick || (pool->record.thick && !asked->thin && !*asked->from);
}

/* By default as the pool says, except with another size of blocks. */
static bool has_checksums(const struct catalog_pool *pool, const Fathom__VolumeCreateReq *asked)
{
	return asked->checksums || (pool->record.checksums && !asked->no_checksums && !*asked->from &&
				    block_bytes_of(asked) == BLOCK_BYTES_DEFAULT);
}

/* Whether the request leaves it to the pool, and has created this volume by its UUID: then the pool may have changed. */
static bool is_left(const Fathom__VolumeCreateReq *asked, bool is_given)
{
	return *asked->uuid && !is_given;
}

/* The "VOLUME@SNAPSHOT" of "POOL/VOLUME@SNAPSHOT". */
static const char *origin_of(const Fathom__VolumeCreateReq *asked)
{
	const char *slash = strchr(asked->from, '/');

	return slash ? slash + 1 : asked->from;
}

static int compare_volume(const struct catalog_volume *volume, const Fathom__VolumeCreateReq *asked,
			  struct fathom_fault *why)
{
	const struct catalog_volume_record *record = &volume->record;
	char what[STORAGE_WHAT_BYTES];
	int error = 0;

	storage_what(volume->pool, volume, what);
	if (*asked->uuid && strcasecmp(record->uuid, asked->uuid) != 0)
		return fault_volume_differs(why, what, "UUID", record->uuid, asked->uuid);
	error = differ_flag(volume, "read-only", record->read_only, asked->read_only, why);
	if (error)
		return error;
	if (strcmp(record->origin, origin_of(asked)) != 0)
		return fault_volume_differs(why, what, "origin", storage_or_none(record->origin),
					    storage_or_none(origin_of(asked)));
	if (!*asked->from) {
		error = differ(volume, "size in bytes", record->size_bytes, asked->size_bytes, why);
		if (!error)
			error = differ(volume, "block size", record->block_bytes, block_bytes_of(asked), why);
		if (!error && !is_left(asked, asked->thick || asked->thin))
			error = differ_flag(volume, "thick", record->thick, is_thick(volume->pool, asked), why);
		if (!error && !is_left(asked, asked->checksums || asked->no_checksums))
			error = differ_flag(volume, "checksums", record->checksums, has_checksums(volume->pool, asked),
					    why);
	}
	if (!error && volume->state == MGMT_VOLUME_DESTROYING)
		error = storage_refuse_changing(volume->pool, volume, why);
	return error;
}

static void answer_existing(struct mgmt *mgmt, struct grpc_call *call, struct catalog_volume *volume,
			    const Fathom__VolumeCreateReq *asked)
{
	struct fathom_fault why = { 0 };
	int error = compare_volume(volume, asked, &why);

	if (error)
		mgmt_fail(call, error, &why);
	else if (volume->state == MGMT_VOLUME_READY)
		storage_reply_volume(mgmt, call, volume);
	else if (volume->task)
		storage_wait(volume->task, call);
	else
		storage_start(mgmt, volume->pool, volume, call);
}

/* ---- checks ---- */

static int check_size(const Fathom__VolumeCreateReq *asked, struct fathom_fault *why)
{
	uint32_t block_bytes = block_bytes_of(asked);

	if (block_bytes < BLOCK_BYTES_MIN || block_bytes > BLOCK_BYTES_MAX || (block_bytes & (block_bytes - 1)) != 0)
		return fault_volume_size_bad(why, asked->size_bytes, "a block has a power of two bytes, from 512 to 65536");
	if (*asked->from && asked->size_bytes != 0)
		return fault_volume_size_bad(why, asked->size_bytes, "a clone has the size of its snapshot");
	if (*asked->from)
		return 0;
	if (asked->read_only)
		return fault_volume_size_bad(why, asked->size_bytes, "only a clone can be read-only");
	if (asked->size_bytes == 0 || asked->size_bytes > CATALOG_BYTES_MAX)
		return fault_volume_size_bad(why, asked->size_bytes, "a volume has at least one block, and at most 4 EiB");
	if (asked->size_bytes % block_bytes != 0)
		return fault_volume_size_bad(why, asked->size_bytes, "it is no multiple of the block size");
	return 0;
}

/* The names of a request. */
struct names {
	struct catalog_full_name full, from;
	struct catalog_pool *pool;
};

static int check_names(struct mgmt *mgmt, const Fathom__VolumeCreateReq *asked, struct names *names,
		       struct fathom_fault *why)
{
	uint8_t uuid[MEMBER_UUID_BYTES];
	int error = catalog_split_name(asked->name, false, &names->full, why);

	if (!error && *asked->uuid && member_uuid_parse(asked->uuid, uuid) < 0)
		error = fault_storage_name_bad(why, "UUID of a volume", "", "it is not a UUID");
	if (!error && *asked->from)
		error = catalog_split_name(asked->from, true, &names->from, why);
	if (!error && *asked->from && strcmp(names->from.pool, names->full.pool) != 0)
		error = fault_storage_name_bad(why, "volume", names->full.volume, "a clone is in the pool of its snapshot");
	if (!error)
		error = storage_find_pool(mgmt, names->full.pool, &names->pool, why);
	return error;
}

static int check_pool_ready(const struct catalog_pool *pool, struct fathom_fault *why)
{
	if (pool->state == MGMT_POOL_READY)
		return 0;
	return storage_refuse_changing(pool, NULL, why);
}

static int read_ranks(const struct catalog_pool *pool, const char *text, struct rank_set *ranks, struct fathom_fault *why)
{
	int error = *text ? rank_set_parse(text, ranks, why) : 0;

	for (size_t i = 0; !error && i < ranks->count; i++) {
		if (!catalog_pool_place(pool, ranks->ranks[i]))
			error = fault_rank_not_of_pool(why, ranks->ranks[i], pool->record.name);
	}
	return error;
}

/* ---- creation ---- */

static void add_volume(struct mgmt *mgmt, struct grpc_call *call, const Fathom__VolumeCreateReq *asked,
		       const struct names *names, const struct catalog_volume_record *placed)
{
	struct catalog_volume_record record = {
		.state = MGMT_VOLUME_CREATING,
		.created_ns = clock_realtime_ns(),
		.size_bytes = asked->size_bytes,
		.block_bytes = block_bytes_of(asked),
		.thick = is_thick(names->pool, asked),
		.checksums = has_checksums(names->pool, asked),
		.read_only = asked->read_only,
		.place = placed->place,
		.placement = placed->placement,
	};
	struct catalog_volume *volume;
	struct fathom_fault why = { 0 };
	uint8_t uuid[MEMBER_UUID_BYTES];
	int error = storage_check_room(mgmt, &record.place, 1, &why);

	record.since_ns = record.created_ns;
	memcpy(record.name, names->full.volume, sizeof(record.name));
	must(text_copy(record.origin, sizeof(record.origin), *asked->from ? origin_of(asked) : "") == 0);
	if (!*asked->uuid)
		catalog_new_uuid(record.uuid);
	else if (member_uuid_parse(asked->uuid, uuid) == 0)
		member_uuid_format(uuid, record.uuid);
	must(record.uuid[0]); /* it was checked */
	if (!error)
		error = storage_check_free_name(mgmt, names->pool, record.name, &why);
	if (!error && catalog_find_old_copy(mgmt->catalog, record.uuid, record.place.rank))
		error = fault_old_copy_left(&why, asked->name, record.place.rank);
	if (!error)
		error = catalog_add_volume(mgmt->catalog, names->pool, &record, &volume, &why);
	if (error)
		mgmt_fail(call, error, &why);
	else
		storage_start(mgmt, names->pool, volume, call);
}

/* A request without a key: the volume that has its name must be on one of its ranks, or have been created there. */
static int compare_rank(const struct catalog_volume *volume, const Fathom__VolumeCreateReq *asked,
			const struct rank_set *ranks, struct fathom_fault *why)
{
	const struct catalog_placement *created = &volume->record.placement;
	uint32_t rank = volume->record.place.rank;
	char what[STORAGE_WHAT_BYTES], found[16];

	if (*asked->uuid || ranks->count == 0 || rank_set_has(ranks, rank) ||
	    (created->reason != PLACEMENT_UNKNOWN && rank_set_has(ranks, created->rank)))
		return 0;
	snprintf(found, sizeof(found), "%" PRIu32, rank);
	return fault_volume_differs(why, storage_what(volume->pool, volume, what), "rank", found, asked->ranks);
}

/* The volume that the request may have created before. NULL: none. */
static struct catalog_volume *find_existing(struct mgmt *mgmt, const Fathom__VolumeCreateReq *asked,
					    const struct names *names)
{
	struct catalog_volume *volume = catalog_find_volume(mgmt->catalog, names->pool, names->full.volume);

	return volume ? volume : catalog_find_uuid(mgmt->catalog, asked->uuid);
}

/* The UUID is that of a volume with another name. */
static int check_same_name(const struct catalog_volume *volume, const struct names *names, struct fathom_fault *why)
{
	char what[STORAGE_WHAT_BYTES];

	if (volume->pool == names->pool && strcmp(volume->record.name, names->full.volume) == 0)
		return 0;
	return fault_volume_differs(why, storage_what(volume->pool, volume, what), "name", volume->record.name,
				    names->full.volume);
}

/* What the engine promises the new volume. 0: it may promise more than it has. */
static uint64_t promised_bytes(const struct catalog_pool *pool, const Fathom__VolumeCreateReq *asked)
{
	return is_thick(pool, asked) || !pool->record.overcommit ? asked->size_bytes : 0;
}

/* The engines have answered. */
static void place_volume(struct mgmt *mgmt, struct grpc_call *call, const ProtobufCMessage *request)
{
	const Fathom__VolumeCreateReq *asked = (const Fathom__VolumeCreateReq *)request;
	struct catalog_volume *existing = NULL;
	struct catalog_volume_record placed = { 0 };
	struct rank_set only = { 0 };
	struct names names = { 0 };
	struct fathom_fault why = { 0 };
	int error = check_names(mgmt, asked, &names, &why);

	if (!error)
		error = check_pool_ready(names.pool, &why);
	if (!error)
		existing = find_existing(mgmt, asked, &names);
	if (existing)
		error = check_same_name(existing, &names, &why);
	if (!error)
		error = read_ranks(names.pool, asked->ranks, &only, &why);
	if (!error && existing)
		error = compare_rank(existing, asked, &only, &why);
	if (!error && !existing)
		error = storage_place_volume(mgmt, names.pool, promised_bytes(names.pool, asked), &only, &placed, &why);
	if (error)
		mgmt_fail(call, error, &why);
	else if (existing)
		answer_existing(mgmt, call, existing, asked);
	else
		add_volume(mgmt, call, asked, &names, &placed);
	rank_set_deinit(&only);
}

/* A clone is placed on the rank of its origin, which must be one of the request's. */
static int check_clone_rank(const struct catalog_volume *origin, const Fathom__VolumeCreateReq *asked,
			    struct fathom_fault *why)
{
	char sentence[STORAGE_SENTENCE_BYTES];
	struct rank_set ranks = { 0 };
	int error = read_ranks(origin->pool, asked->ranks, &ranks, why);

	if (!error && ranks.count > 0 && !rank_set_has(&ranks, origin->record.place.rank)) {
		snprintf(sentence, sizeof(sentence), "create volume \"%.*s\" on rank %.32s", CATALOG_FULL_BYTES,
			 asked->name, asked->ranks);
		error = fault_storage_refused(why, origin->record.place.rank, sentence,
					      "a clone is on the rank of its origin");
	}
	rank_set_deinit(&ranks);
	return error;
}

/* Create a clone, on the rank of its origin. */
static void create_clone(struct mgmt *mgmt, struct grpc_call *call, const Fathom__VolumeCreateReq *asked,
			 const struct names *names)
{
	struct catalog_volume *origin = catalog_find_volume(mgmt->catalog, names->pool, names->from.volume);
	struct catalog_volume_record placed = { .placement.reason = PLACEMENT_ORIGIN };
	char name[CATALOG_FULL_BYTES];
	struct fathom_fault why = { 0 };
	int error;

	if (!origin) {
		snprintf(name, sizeof(name), "%s/%s", names->from.pool, names->from.volume);
		error = fault_no_such_volume(&why, name);
	} else {
		error = check_clone_rank(origin, asked, &why);
		if (!error)
			error = storage_check_share(names->pool, origin->record.place.rank, &why);
	}
	if (error) {
		mgmt_fail(call, error, &why);
		return;
	}
	placed.place = origin->record.place;
	placed.placement.rank = placed.place.rank;
	add_volume(mgmt, call, asked, names, &placed);
}

void mgmt_volume_create(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Fathom__VolumeCreateReq *asked = (const Fathom__VolumeCreateReq *)request;
	struct mgmt *mgmt = mgmt_enter(call, asked->sys, true);
	struct rank_set only = { 0 };
	struct names names = { 0 };
	struct fathom_fault why = { 0 };
	int error;

	if (!mgmt)
		return;
	error = check_names(mgmt, asked, &names, &why);
	if (!error)
		error = check_size(asked, &why);
	if (!error)
		error = check_pool_ready(names.pool, &why);
	if (!error)
		error = read_ranks(names.pool, asked->ranks, &only, &why);
	rank_set_deinit(&only);
	if (error)
		mgmt_fail(call, error, &why);
	else if (find_existing(mgmt, asked, &names))
		place_volume(mgmt, call, request);
	else if (*asked->from)
		create_clone(mgmt, call, asked, &names);
	else
		storage_read_then(mgmt, call, request, names.pool->record.places, names.pool->record.place_count,
				  place_volume);
}

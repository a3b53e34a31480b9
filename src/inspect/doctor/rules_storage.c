/* SPDX-License-Identifier: BSD-2-Clause */
/* rules_storage - pools and volumes, as the engine reports them. */
#include <string.h>

#include "inspect/doctor/findings.gen.h"
#include "inspect/doctor/internal.h"

enum {
	NEARLY_FULL_PERCENT = 95,
	FULL_PERCENT = 100,
	SPACE_READ_SEC = 10, /* an engine reads the space of its pools so often */
};

static void judge_storage(const json_t *storage, struct findings *list)
{
	const char *path = doc_text_at(storage, "path"), *state = doc_text_at(storage, "state");

	if (strcmp(state, "FAILED") == 0)
		finding_see(find_storage_failed(list, FINDING_CERTAIN, path), "fathom rpc pool_get_pools");
	if (doc_number(storage, "damaged", 0) > 0)
		finding_see(find_storage_damaged(list, FINDING_CERTAIN, path, "records of pools or volumes are damaged"),
			    "fathom ddb %s", path);
}

/* What the volumes of the pool were promised. */
static int64_t committed_bytes(const json_t *evidence, const char *pool)
{
	const json_t *volume;
	int64_t bytes = 0;
	size_t i;

	json_array_foreach ((json_t *)doc_at(evidence, "answers.volumes"), i, volume)
		bytes += strcmp(doc_text_at(volume, "pool"), pool) == 0 ? doc_number(volume, "size", 0) : 0;
	return bytes;
}

static void judge_pool(const json_t *evidence, const json_t *pool, struct findings *list)
{
	int64_t percent = doc_number(pool, "used_percent", 0), size = doc_number(pool, "size", 0);
	int64_t limit = doc_number(pool, "limit_bytes", 0), used = doc_number(pool, "used_bytes", 0);
	int64_t committed = committed_bytes(evidence, doc_text_at(pool, "name"));
	const char *name = doc_text_at(pool, "name");
	char text[SHORT_TEXT_BYTES], more[SHORT_TEXT_BYTES];
	struct finding *it;

	if (strcmp(doc_text_at(pool, "state"), "ERRORED") == 0)
		finding_see(find_storage_damaged(list, FINDING_CERTAIN, name, doc_text_at(pool, "reason")),
			    "fathom rpc pool_get_pools");
	if (percent >= NEARLY_FULL_PERCENT) {
		it = percent >= FULL_PERCENT ? find_pool_full(list, FINDING_CERTAIN, name,
							      doc_bytes((uint64_t)(limit > used ? limit - used : 0), text))
					     : find_pool_nearly_full(list, FINDING_CERTAIN, name, (uint64_t)percent);
		finding_shows(it, "%s of %s are used", doc_bytes((uint64_t)used, text), doc_bytes((uint64_t)limit, more));
		finding_shows(it, "these figures can be %d s old, or older if a reading of the space takes long",
			      SPACE_READ_SEC);
		if (doc_number(pool, "full_in_ns", 0) > 0)
			finding_shows(it, "at this rate it is full in %s",
				      doc_duration((uint64_t)doc_number(pool, "full_in_ns", 0) / 1000000, text));
		finding_see(it, "fathom pool query %s", name);
	}
	if (committed > size && size > 0) {
		it = find_pool_overcommitted(list, FINDING_CERTAIN, name, doc_bytes((uint64_t)committed, text),
					     doc_bytes((uint64_t)size, more));
		finding_shows(it, "it is %" PRId64 " %% full", percent);
		finding_see(it, "fathom pool query %s", name);
	}
}

static void judge_volume(const json_t *volume, struct findings *list)
{
	const char *state = doc_text_at(volume, "state");

	if (strcmp(state, "ERRORED") == 0)
		finding_see(find_volume_errored(list, FINDING_CERTAIN,
						doc_text_at(volume, "device")[0] ? doc_text_at(volume, "device")
										 : doc_text_at(volume, "name"),
						doc_text_at(volume, "reason")[0] ? doc_text_at(volume, "reason")
										 : "its record or its file is damaged"),
			    "fathom rpc volume_get_volumes");
	else if (strcmp(state, "READ_ONLY") == 0)
		finding_see(find_data_lost(list, FINDING_CERTAIN, doc_text_at(volume, "device"), "its state is READ_ONLY"),
			    "fathom rpc volume_get_volumes");
	if (doc_number(volume, "scrub.mismatches", 0) > 0 && !findings_have(list, FINDING_CHECKSUM_MISMATCH))
		finding_see(find_checksum_mismatch(list, FINDING_CERTAIN, doc_text_at(volume, "device"),
						   (uint64_t)doc_number(volume, "scrub.mismatches", 0)),
			    "fathom rpc volume_get_volumes");
}

void rules_storage(const json_t *evidence, struct findings *list)
{
	const json_t *row;
	size_t i;

	judge_storage(doc_at(evidence, "answers.pools.storage"), list);
	json_array_foreach ((json_t *)doc_at(evidence, "answers.pools.pools"), i, row)
		judge_pool(evidence, row, list);
	json_array_foreach ((json_t *)doc_at(evidence, "answers.volumes"), i, row)
		judge_volume(row, list);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* The states that a power cut may leave of a memory_fs. */
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "base/bits.h"
#include "base/must.h"
#include "memory_fs_internal.h"

enum {
	UNSYNCED_MAX = 63,
	SUBSETS_MAX = 12, /* of more unsynced changes not all subsets are tried */
	SEEN_LEAST = 64,
};

static uint64_t hash_bytes(uint64_t hash, const void *data, size_t bytes)
{
	const uint8_t *from = data;

	while (bytes > 0) { /* by words: most of this test's time is spent here */
		uint64_t word = 0;
		size_t count = MIN(bytes, sizeof(word));

		memcpy(&word, from, count);
		hash = (hash ^ word ^ count) * 0x9e3779b97f4a7c15;
		hash ^= hash >> 29;
		from += count;
		bytes -= count;
	}
	return hash;
}

static uint64_t hash_file(const struct node *node)
{
	size_t begin = node->data.begin, end = node->data.end;
	const uint8_t *data = node->data.bytes;

	while (end > begin && data[end - 1 - node->data.begin] == 0)
		end--;
	while (begin < end && data[begin - node->data.begin] == 0)
		begin++;
	if (begin == end)
		return node->bytes;
	return hash_bytes(node->bytes + 31 * begin, data + begin - node->data.begin, end - begin);
}

/* Of what is reachable from `folder`; independent of the order of names. */
static uint64_t hash_state(const struct memory_state *state, int folder)
{
	const struct node *node = state->nodes[folder];
	uint64_t sum = 0;

	for (uint32_t i = 0; i < node->entry_count; i++) {
		const struct node *child = state->nodes[node->entries[i].node];
		uint64_t hash = hash_bytes(0xcbf29ce484222325, node->entries[i].name, strlen(node->entries[i].name));
		uint64_t inner = child->is_folder ? hash_state(state, node->entries[i].node) : hash_file(child);

		sum += hash_bytes(hash, &inner, sizeof(inner));
	}
	return sum;
}

/* ---- states that were met ---- */

void memory_seen_clear(struct memory_seen *seen)
{
	free(seen->hashes);
	*seen = (struct memory_seen){ .hashes = NULL };
}

/* The place of the hash, or the free one that it can get. */
static uint64_t *find_place(const struct memory_seen *seen, uint64_t hash)
{
	uint64_t at = hash & (seen->capacity - 1);

	while (seen->hashes[at] != 0 && seen->hashes[at] != hash)
		at = (at + 1) & (seen->capacity - 1);
	return &seen->hashes[at];
}

static void make_larger(struct memory_seen *seen)
{
	struct memory_seen larger = { .count = seen->count, .capacity = MAX(2 * seen->capacity, (uint32_t)SEEN_LEAST) };

	larger.hashes = calloc(larger.capacity, sizeof(*larger.hashes));
	must(larger.hashes);
	for (uint32_t i = 0; i < seen->capacity; i++)
		if (seen->hashes[i])
			*find_place(&larger, seen->hashes[i]) = seen->hashes[i];
	free(seen->hashes);
	*seen = larger;
}

/* Whether the state was not met before; from now on it is. */
static bool is_new(struct memory_seen *seen, uint64_t hash)
{
	uint64_t *place;

	hash = hash ? hash : 1;
	if (2 * seen->count >= seen->capacity)
		make_larger(seen);
	place = find_place(seen, hash);
	if (*place == hash)
		return false;
	*place = hash;
	seen->count++;
	return true;
}

/* ---- power cuts ---- */

struct crash {
	struct memory_fs *self;
	uint32_t unsynced[UNSYNCED_MAX], unsynced_count;
	struct memory_seen *seen;
	void (*state)(void *ctx, struct memory_fs *crashed);
	void *ctx;
};

/* The state with the unsynced changes of `mask`, the last write of which may be torn. */
static void visit_subset(struct crash *crash, uint64_t mask, bool is_torn)
{
	struct memory_fs *self = crash->self, *crashed;
	uint32_t bit = 0, torn = UINT32_MAX;
	struct memory_state state = { .count = 0 };

	for (uint32_t i = 0; is_torn && i < crash->unsynced_count; i++)
		if ((mask & BIT(i)) && self->changes[crash->unsynced[i]].kind == CHANGE_WRITE)
			torn = crash->unsynced[i];
	if (is_torn && torn == UINT32_MAX)
		return;
	memory_state_copy(&state, &self->base);
	for (uint32_t i = 0; i < self->change_count; i++) {
		bool is_durable = self->changes[i].is_synced && self->changes[i].is_to_synced;

		if (is_durable || (mask & BIT(bit)))
			memory_state_apply(&state, &self->changes[i], i == torn);
		bit += !is_durable;
	}
	must(bit == crash->unsynced_count);
	if (is_new(crash->seen, hash_state(&state, ROOT))) {
		crashed = memory_fs_create();
		memory_state_clear(&crashed->live);
		memory_state_clear(&crashed->base);
		crashed->live = state; /* its base follows if power cuts of it are wanted */
		crash->state(crash->ctx, crashed);
		memory_fs_destroy(crashed);
	} else {
		memory_state_clear(&state);
	}
}

/* Of few unsynced changes each subset; of many each prefix, each prefix without one, and each alone. */
static void visit_subsets(struct crash *crash)
{
	uint32_t count = crash->unsynced_count;

	for (uint64_t mask = 0; count <= SUBSETS_MAX && mask < BIT(count); mask++) {
		visit_subset(crash, mask, false);
		visit_subset(crash, mask, true);
	}
	for (uint32_t end = 0; count > SUBSETS_MAX && end <= count; end++) {
		for (uint32_t hole = 0; hole <= end; hole++)
			visit_subset(crash, (BIT(end) - 1) & ~BIT(hole), false);
		visit_subset(crash, end < count ? BIT(end) : 0, false);
	}
}

static void each_crash(struct memory_fs *self, struct memory_seen *seen,
		       void (*state)(void *ctx, struct memory_fs *crashed), void *ctx)
{
	struct crash crash = { .self = self, .seen = seen, .state = state, .ctx = ctx };

	for (uint32_t i = 0; i < self->change_count; i++) {
		if (self->changes[i].is_synced && self->changes[i].is_to_synced)
			continue;
		must(crash.unsynced_count < UNSYNCED_MAX);
		crash.unsynced[crash.unsynced_count++] = i;
	}
	visit_subsets(&crash);
}

void memory_fs_each_crash(struct memory_fs *self, void (*state)(void *ctx, struct memory_fs *crashed), void *ctx)
{
	struct memory_seen seen = { .hashes = NULL };

	each_crash(self, &seen, state, ctx);
	memory_seen_clear(&seen);
}

void memory_fs_each_new_crash(struct memory_fs *self, void (*state)(void *ctx, struct memory_fs *crashed), void *ctx)
{
	each_crash(self, &self->seen, state, ctx);
}

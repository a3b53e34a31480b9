/* SPDX-License-Identifier: BSD-2-Clause */
/* index - processes and mappings in memory, with counts for limits. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "inspect/probed/stash/internal.h"

/* Make a gap for a new element at index `at`. Returns the array, which may have moved; NULL: out of memory. */
static void *make_gap(void *elements, uint32_t count, uint32_t *room, uint32_t at, size_t element_bytes)
{
	must(at <= count);
	must(count <= *room);
	if (count == *room) {
		uint32_t more = *room ? *room * 2 : 4;
		void *grown = realloc(elements, more * element_bytes);

		if (!grown)
			return NULL;
		elements = grown;
		must(more > count);
		*room = more;
	}
	memmove((char *)elements + (at + 1) * element_bytes, (char *)elements + at * element_bytes,
		(count - at) * element_bytes);
	return elements;
}

static void close_gap(void *elements, uint32_t count, uint32_t at, size_t element_bytes)
{
	must(element_bytes > 0);
	must(at < count);
	memmove((char *)elements + at * element_bytes, (char *)elements + (at + 1) * element_bytes,
		(count - at - 1) * element_bytes);
}

/* ---- owners and their mappings ---- */

uint32_t stash_owner_at_least(const struct stash *stash, pid_t pid)
{
	uint32_t low = 0, high = stash->owner_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (stash->owners[middle]->process.pid < pid)
			low = middle + 1;
		else
			high = middle;
	}
	must(low == high);
	must(low <= stash->owner_count);
	return low;
}

struct stash_owner *stash_find_owner(const struct stash *stash, pid_t pid)
{
	uint32_t at = stash_owner_at_least(stash, pid);

	return at < stash->owner_count && stash->owners[at]->process.pid == pid ? stash->owners[at] : NULL;
}

int stash_compare_mappings(const struct stash_mapping *a, const struct stash_mapping *b)
{
	if (a->device != b->device)
		return a->device < b->device ? -1 : 1;
	return a->inode == b->inode ? 0 : a->inode < b->inode ? -1 : 1;
}

struct stash_mapped *stash_find_mapped(const struct stash_owner *owner, const struct stash_mapping *mapping)
{
	for (uint32_t i = 0; i < owner->mapped_count; i++) {
		if (stash_compare_mappings(&owner->mapped[i].mapping, mapping) == 0)
			return &owner->mapped[i];
	}
	return NULL;
}

static struct stash_user *find_user(const struct stash *stash, uid_t uid)
{
	for (uint32_t i = 0; i < stash->user_count; i++) {
		if (stash->users[i].uid == uid)
			return &stash->users[i];
	}
	return NULL;
}

/* NULL: out of memory. Users are never removed; they are few and small. */
static struct stash_user *index_user(struct stash *stash, uid_t uid)
{
	struct stash_user *user = find_user(stash, uid), *users;

	if (user)
		return user;
	must(stash->user_count <= stash->user_room);
	users = make_gap(stash->users, stash->user_count, &stash->user_room, stash->user_count, sizeof(*users));
	if (!users)
		return NULL;
	stash->users = users;
	user = &users[stash->user_count++];
	*user = (struct stash_user){ .uid = uid };
	return user;
}

struct stash_owner *stash_index_owner(struct stash *stash, const struct stash_process *process)
{
	uint32_t at = stash_owner_at_least(stash, process->pid);
	struct stash_owner *owner = calloc(1, sizeof(*owner)), **owners;

	must(process->pid > 0);
	must(!stash_find_owner(stash, process->pid));
	if (!owner || !index_user(stash, process->uid))
		goto out_of_memory;
	owners = make_gap(stash->owners, stash->owner_count, &stash->owner_room, at, sizeof(*owners));
	if (!owners)
		goto out_of_memory;
	owner->process = *process;
	stash->owners = owners;
	owners[at] = owner;
	stash->owner_count++;
	must(at == 0 || owners[at - 1]->process.pid < process->pid);
	must(at + 1 == stash->owner_count || owners[at + 1]->process.pid > process->pid);
	return owner;

out_of_memory:
	free(owner);
	return NULL;
}

struct stash_mapped *stash_index_mapped(struct stash_owner *owner, const struct stash_mapping *mapping)
{
	struct stash_mapped *mapped;
	uint32_t at = 0;

	must(!stash_find_mapped(owner, mapping));
	while (at < owner->mapped_count && stash_compare_mappings(&owner->mapped[at].mapping, mapping) < 0)
		at++;
	mapped = make_gap(owner->mapped, owner->mapped_count, &owner->mapped_room, at, sizeof(*mapped));
	if (!mapped)
		return NULL;
	owner->mapped = mapped;
	owner->mapped_count++;
	mapped[at] = (struct stash_mapped){ .mapping = *mapping };
	must(at == 0 || stash_compare_mappings(&mapped[at - 1].mapping, mapping) < 0);
	must(at + 1 == owner->mapped_count || stash_compare_mappings(&mapped[at + 1].mapping, mapping) > 0);
	return &mapped[at];
}

int stash_index_identity(struct stash *stash, struct stash_owner *owner, const struct stash_process *process)
{
	const struct stash_counts counts = owner->counts;

	must(owner->process.pid == process->pid);
	must(stash_find_owner(stash, process->pid) == owner);
	if (!index_user(stash, process->uid))
		return -ENOMEM;
	stash_count(stash, owner, -1, counts.objects, counts.bytes, counts.probes);
	owner->process = *process;
	stash_count(stash, owner, 1, counts.objects, counts.bytes, counts.probes);
	return 0;
}

void stash_forget_mapped(struct stash *stash, struct stash_owner *owner, struct stash_mapped *mapped)
{
	must(mapped >= owner->mapped && mapped < owner->mapped + owner->mapped_count);
	stash_count(stash, owner, -1, mapped->count, mapped->bytes, mapped->probes);
	close_gap(owner->mapped, owner->mapped_count, (uint32_t)(mapped - owner->mapped), sizeof(*mapped));
	owner->mapped_count--;
}

static void free_owner(struct stash_owner *owner)
{
	must(owner->mapped_count <= owner->mapped_room);
	free(owner->mapped);
	free(owner);
}

void stash_forget_owner(struct stash *stash, struct stash_owner *owner)
{
	uint32_t at = stash_owner_at_least(stash, owner->process.pid);

	must(at < stash->owner_count && stash->owners[at] == owner);
	while (owner->mapped_count > 0)
		stash_forget_mapped(stash, owner, &owner->mapped[owner->mapped_count - 1]);
	must(owner->counts.objects == 0 && owner->counts.bytes == 0 && owner->counts.probes == 0);
	close_gap(stash->owners, stash->owner_count, at, sizeof(stash->owners[0]));
	stash->owner_count--;
	free_owner(owner);
}

void stash_forget_all(struct stash *stash)
{
	for (uint32_t i = 0; i < stash->owner_count; i++)
		free_owner(stash->owners[i]);
	free(stash->owners);
	free(stash->users);
	stash->owners = NULL;
	stash->users = NULL;
	stash->owner_count = stash->owner_room = stash->user_count = stash->user_room = 0;
	stash->total = (struct stash_counts){ 0 };
	must(!stash->owners && !stash->users);
}

/* ---- counts and limits ---- */

static void add_counts(struct stash_counts *counts, int sign, uint64_t objects, uint64_t bytes, uint64_t probes)
{
	must(sign == 1 || sign == -1);
	if (sign < 0) {
		must(counts->objects >= objects);
		must(counts->bytes >= bytes);
		must(counts->probes >= probes);
		*counts = (struct stash_counts){ counts->objects - objects, counts->bytes - bytes,
						 counts->probes - probes };
	} else {
		*counts = (struct stash_counts){ counts->objects + objects, counts->bytes + bytes,
						 counts->probes + probes };
	}
}

void stash_count(struct stash *stash, struct stash_owner *owner, int sign, uint64_t objects, uint64_t bytes,
		 uint64_t probes)
{
	struct stash_user *user = find_user(stash, owner->process.uid);

	must(user);
	add_counts(&owner->counts, sign, objects, bytes, probes);
	add_counts(&user->counts, sign, objects, bytes, probes);
	add_counts(&stash->total, sign, objects, 0, probes);
	must(owner->counts.objects <= user->counts.objects && user->counts.objects <= stash->total.objects);
	must(owner->counts.probes <= user->counts.probes && user->counts.probes <= stash->total.probes);
	must(owner->counts.bytes <= user->counts.bytes); /* objects that processes share count for each of them */
}

/* A limit, the count that it holds, and the count to be added. */
struct limit_check {
	const char *limit, *scope;
	uint64_t id, used, more, max;
};

static int over_limit(struct stash *stash, const struct limit_check *check, struct fathom_fault *why)
{
	char scope[64] = "";

	must(check->used > check->max || check->more > check->max - check->used);
	if (check->scope[0])
		snprintf(scope, sizeof(scope), " of %s %" PRIu64, check->scope, check->id);
	stash->stats.refused++;
	return fault(why, -EDQUOT, "the limit %s%s is %" PRIu64 "; %" PRIu64 " are used, and %" PRIu64 " more are needed",
		     check->limit, scope, check->max, check->used, check->more);
}

int stash_admit(struct stash *stash, const struct stash_process *process, const struct stash_owner *owner,
		const struct stash_counts *more, struct fathom_fault *why)
{
	static const struct stash_counts none;
	const struct stash_user *user = find_user(stash, process->uid);
	const struct stash_counts *own = owner ? &owner->counts : &none, *users = user ? &user->counts : &none;
	const struct stash_limits *limits = &stash->limits;
	const struct limit_check checks[] = {
#define LIMIT(what, suffix, scope, id, counts)                                                                             \
	{ #what "_" #suffix, scope, id, (counts)->what, more->what, limits->what##_##suffix }
#define LIMITS(suffix, scope, id, counts)                                                                                  \
	LIMIT(objects, suffix, scope, id, counts), LIMIT(bytes, suffix, scope, id, counts),                                \
		LIMIT(probes, suffix, scope, id, counts)
		LIMITS(per_process, "process", (uint64_t)process->pid, own),
		LIMITS(per_user, "user", process->uid, users),
		LIMITS(total, "", 0, &stash->total),
#undef LIMITS
#undef LIMIT
	};

	must(!owner || owner->process.pid == process->pid);
	static_assert(ARRAY_COUNT(checks) == 9, "three counts, each of a process, a user and in total");
	for (size_t i = 0; i < ARRAY_COUNT(checks); i++) {
		const struct limit_check *check = &checks[i];

		if (check->more > 0 && (check->used > check->max || check->more > check->max - check->used))
			return over_limit(stash, check, why);
	}
	return 0;
}

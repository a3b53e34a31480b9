/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * large - registrations of objects that are too large to be copied at once.
 *
 *   RECEIVING   from the memfd, the file with notes, or the daemon's memory, into an unnamed file of the tree
 *   PARSING     in the jail, which copies the object to a child in slices of its own
 *   COMPARING   with the tree's object of the same mapped file
 *
 * Each turn of the thread copies one slice (STASH_SLICE_BYTES), for all registrations together, and the thread does other
 * work between turns. Users take turns, and each user has one large object in progress at a time. So a user with many large
 * objects delays no other user.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "inspect/probed/register/internal.h"
#include "inspect/probed/register/probes.gen.h"
#include "base/reactor/reactor.h"

enum { TURN_NS = 1, PAGE_BYTES = 4096 };

struct large_user {
	TAILQ_ENTRY(large_user) link;
	uid_t uid;
	TAILQ_HEAD(, registration) queue; /* the first is in progress */
};

static_assert(STASH_SLICE_BYTES % PAGE_BYTES == 0, "the pages of a slice are dropped as a whole");
static char slice_buffer[STASH_SLICE_BYTES]; /* shared by all registrations: one thread */

bool large_is(const struct dof_input *input)
{
	return input->blocks[0].bytes + input->blocks[1].bytes > STASH_SLICE_BYTES;
}

/* ---- receiving ---- */

static int read_slice(int fd, uint64_t at, uint64_t bytes, char *to, struct fathom_fault *why)
{
	for (uint64_t done = 0; done < bytes;) {
		ssize_t got = pread(fd, to + done, bytes - done, (off_t)(at + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return fault(why, -EINVAL, "the object's file is %llu bytes too short, or cannot be read",
				     (unsigned long long)(bytes - done));
		done += (uint64_t)got;
	}
	return 0;
}

/* Free the pages of a copied slice now: to free all of them at the end would take long. */
static void drop_pages(char *data, uint64_t bytes)
{
	uintptr_t first = round_up((uintptr_t)data, PAGE_BYTES),
		  end = ((uintptr_t)data + bytes) & ~(uintptr_t)(PAGE_BYTES - 1);

	must(first % PAGE_BYTES == 0 && end % PAGE_BYTES == 0);
	if (first < end)
		(void)madvise((void *)first, end - first, MADV_DONTNEED); /* on failure they are freed with the rest */
}

/* Begin to receive a block into an upload, or into memory if the filesystem has no unnamed files. */
static int begin_block(struct registration *registration, uint32_t index, struct fathom_fault *why)
{
	const struct dof_block *block = &registration->input.blocks[index];
	int rc = stash_upload_begin(registration->registry->stash, block->bytes, &registration->uploads[index]);

	must(rc <= 0);
	must((rc == 0) == (registration->uploads[index] != NULL));
	if (rc != -EOPNOTSUPP)
		return rc ? fault(why, rc, "cannot write the object: %s", strerror(-rc)) : 0;
	registration->in_memory = true;
	if (!registration->memory)
		registration->memory = malloc(registration_bytes(registration));
	return registration->memory ? 0
				    : fault(why, -ENOMEM, "out of memory for %llu bytes",
					    (unsigned long long)registration_bytes(registration));
}

static int receive_piece(struct registration *registration, uint32_t index, uint64_t at, uint64_t bytes,
			 struct fathom_fault *why)
{
	char *here = registration->memory ? (char *)registration->memory + registration->received : NULL;
	char *from = registration->source < 0 || registration->in_memory ? here : slice_buffer;
	int rc = 0;

	must(bytes > 0 && bytes <= STASH_SLICE_BYTES);
	must(from);
	must(registration->received + bytes <= registration_bytes(registration));
	if (registration->source >= 0)
		rc = read_slice(registration->source, registration->source_at[index] + at, bytes, from, why);
	if (rc || registration->in_memory)
		return rc;
	rc = stash_upload_write(registration->uploads[index], at, from, bytes);
	if (rc)
		return fault(why, rc, "cannot write the object: %s", strerror(-rc));
	if (registration->source < 0)
		drop_pages(from, bytes);
	return 0;
}

/* The object is complete: point the blocks to it, and close its source. */
static int complete_receiving(struct registration *registration, struct fathom_fault *why)
{
	char *at = registration->memory;

	must(registration->received == registration_bytes(registration));
	for (uint32_t i = 0; i < DOF_BLOCKS_MAX; i++) {
		struct dof_block *block = &registration->input.blocks[i];
		int rc = registration->uploads[i] ? stash_upload_map(registration->uploads[i], &block->data) : 0;

		if (rc)
			return fault(why, rc, "cannot map the object: %s", strerror(-rc));
		if (!registration->uploads[i] && block->bytes > 0)
			block->data = at;
		at += at ? block->bytes : 0;
	}
	if (registration->source >= 0)
		close(registration->source);
	registration->source = -1;
	if (!registration->in_memory) {
		free(registration->memory);
		registration->memory = NULL;
	}
	return 0;
}

static void receive_slice(struct registration *registration)
{
	uint64_t first = registration->input.blocks[0].bytes, at = registration->received;
	uint32_t index = at >= first;
	struct fathom_fault why;
	uint64_t bytes;
	int rc = 0;

	must(registration->state == REGISTRATION_RECEIVING);
	must(at < registration_bytes(registration));
	must(TAILQ_FIRST(&registration->large->queue) == registration); /* a user has one in progress */
	at -= index ? first : 0;
	bytes = min_u64(STASH_SLICE_BYTES, registration->input.blocks[index].bytes - at);
	if (!registration->uploads[index] && !registration->in_memory)
		rc = begin_block(registration, index, &why);
	if (rc == 0)
		rc = receive_piece(registration, index, at, bytes, &why);
	registration->received += bytes;
	if (rc == 0 && registration->received < registration_bytes(registration))
		return;
	if (rc == 0)
		rc = complete_receiving(registration, &why);
	if (rc)
		registration_refuse(registration, rc, &why);
	else
		registration_parse(registration);
}

/* ---- comparing ---- */

static void compare_slice(struct registration *registration)
{
	pid_t pid = registration->process->identity.process.pid;

	must(registration->state == REGISTRATION_COMPARING);
	must(registration->source < 0);
	for (uint32_t i = 0; i < DOF_BLOCKS_MAX; i++) {
		if (registration->uploads[i] &&
		    stash_upload_compare(registration->uploads[i], pid, &registration->mapping, i))
			return;
	}
	registration_store(registration);
}

/* ---- turns ---- */

static bool is_copying(const struct registration *registration)
{
	return registration->state == REGISTRATION_RECEIVING || registration->state == REGISTRATION_COMPARING;
}

void large_wake(struct registry *registry)
{
	bool any = stash_has_slices_to_free(registry->stash);
	const struct large_user *user;

	TAILQ_FOREACH (user, &registry->large_users, link)
		any |= is_copying(TAILQ_FIRST(&user->queue));
	if (any)
		poller_resume(registry->large_poller);
	else
		poller_pause(registry->large_poller);
}

static int run_large_turn(void *ctx)
{
	struct registry *registry = ctx;
	struct registration *registration = NULL;
	struct large_user *user;

	stash_free_slice(registry->stash);
	TAILQ_FOREACH (user, &registry->large_users, link) {
		registration = TAILQ_FIRST(&user->queue);
		if (is_copying(registration))
			break;
	}
	if (user) {
		TAILQ_REMOVE(&registry->large_users, user, link);
		TAILQ_INSERT_TAIL(&registry->large_users, user, link);
		registry->stats.slices++;
		must(!TAILQ_EMPTY(&user->queue));
		must(registration->large == user);
		if (registration->state == REGISTRATION_RECEIVING)
			receive_slice(registration);
		else
			compare_slice(registration);
	}
	large_wake(registry);
	return 1;
}

static struct large_user *get_large_user(struct registry *registry, uid_t uid)
{
	struct large_user *user;

	TAILQ_FOREACH (user, &registry->large_users, link) {
		if (user->uid == uid)
			return user;
	}
	user = calloc(1, sizeof(*user));
	if (!user)
		return NULL;
	user->uid = uid;
	TAILQ_INIT(&user->queue);
	TAILQ_INSERT_TAIL(&registry->large_users, user, link);
	return user;
}

void large_begin(struct registration *registration)
{
	struct registry *registry = registration->registry;
	struct large_user *user = get_large_user(registry, registration->process->identity.process.uid);

	must(user); /* out of memory aborts, as for a message */
	must(registration->received == 0);
	must(!registration->large);
	must(large_is(&registration->input));
	registration->large = user;
	TAILQ_INSERT_TAIL(&user->queue, registration, in_user);
	registration_state_move(clock_ticks(), registration, REGISTRATION_RECEIVING);
	registry->stats.large++;
	large_wake(registry);
}

void large_compare(struct registration *registration)
{
	must(registration->large);
	must(registration->received == registration_bytes(registration));
	registration_state_move(clock_ticks(), registration, REGISTRATION_COMPARING);
	large_wake(registration->registry);
}

void large_end(struct registration *registration)
{
	struct registry *registry = registration->registry;
	struct large_user *user = registration->large;

	for (uint32_t i = 0; i < DOF_BLOCKS_MAX; i++)
		stash_upload_end(registration->uploads[i]);
	if (registration->source >= 0)
		close(registration->source);
	if (user) {
		must(!TAILQ_EMPTY(&user->queue));
		TAILQ_REMOVE(&user->queue, registration, in_user);
		if (TAILQ_EMPTY(&user->queue)) {
			TAILQ_REMOVE(&registry->large_users, user, link);
			free(user);
		}
	}
	large_wake(registry);
}

/* ---- create and destroy ---- */

int large_init(struct registry *registry, struct fathom_fault *why)
{
	registry->large_poller = poller_register("probed_large", run_large_turn, registry, TURN_NS);
	if (!registry->large_poller)
		return fault(why, -ENOMEM, "out of memory");
	poller_pause(registry->large_poller);
	return 0;
}

void large_cancel(struct registry *registry)
{
	struct registration *registration, *next;
	struct fathom_fault why;

	TAILQ_FOREACH_SAFE (registration, &registry->under_way, link, next) {
		if (is_copying(registration))
			registration_refuse(registration, fault(&why, -ECANCELED, "the registry is ending"), &why);
	}
}

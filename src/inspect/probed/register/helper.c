/* SPDX-License-Identifier: BSD-2-Clause */
#include "inspect/probed/register/helper.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/list.h"

enum { LOADSZ_AT = 40 };
static_assert(sizeof(struct dof_helper) == 80, "dof_helper_t");
static_assert(LOADSZ_AT + 8 <= HELPER_HEADER_BYTES, "the size is in the header");

/* An ADDDOF of a thread, between two calls. */
struct pending_add {
	TAILQ_ENTRY(pending_add) link;
	int32_t thread;
	uint64_t since_ns;
	enum { WANTS_HELPER, WANTS_HEADER, WANTS_OBJECT } wants;
	size_t requested_bytes; /* of the piece that was requested last */
	struct dof_helper helper;
	unsigned char *object;
	size_t room, got, bytes; /* of the object: allocated, received, total */
};

struct helper_file {
	LIST_ENTRY(helper_file) link;
	struct helper *helper;
	uint32_t user;
	TAILQ_HEAD(, pending_add) adds; /* the oldest first */
	uint32_t add_count;
	size_t room;
};

struct helper {
	struct helper_limits limits;
	LIST_HEAD(, helper_file) files;
	size_t room;
};

struct helper *helper_create(const struct helper_limits *limits)
{
	struct helper *helper = calloc(1, sizeof(*helper));

	if (!helper)
		return NULL;
	helper->limits = *limits;
	LIST_INIT(&helper->files);
	return helper;
}

void helper_destroy(struct helper *helper)
{
	if (!helper)
		return;
	must(LIST_EMPTY(&helper->files));
	must(helper->room == 0);
	free(helper);
}

size_t helper_bytes(const struct helper *helper)
{
	return helper->room;
}

struct helper_file *helper_file_create(struct helper *helper, uint32_t user)
{
	struct helper_file *file = calloc(1, sizeof(*file));

	if (!file)
		return NULL;
	file->helper = helper;
	file->user = user;
	TAILQ_INIT(&file->adds);
	LIST_INSERT_HEAD(&helper->files, file, link);
	return file;
}

/* ---- memory for objects ---- */

static void release_object_room(struct helper_file *file, struct pending_add *add)
{
	must(file->room >= add->room);
	must(file->helper->room >= file->room);
	must(file->helper->room >= add->room);
	file->room -= add->room;
	file->helper->room -= add->room;
	add->room = 0;
}

static void free_pending_add(struct helper_file *file, struct pending_add *add)
{
	release_object_room(file, add);
	TAILQ_REMOVE(&file->adds, add, link);
	must(file->add_count > 0);
	file->add_count--;
	must((file->add_count == 0) == TAILQ_EMPTY(&file->adds));
	must(!add->object || add->bytes >= HELPER_HEADER_BYTES);
	free(add->object);
	free(add);
}

void helper_file_destroy(struct helper_file *file)
{
	struct pending_add *add;

	while ((add = TAILQ_FIRST(&file->adds)))
		free_pending_add(file, add);
	must(file->add_count == 0 && file->room == 0);
	LIST_REMOVE(file, link);
	free(file);
}

static size_t user_room(const struct helper *helper, uint32_t user)
{
	const struct helper_file *file;
	size_t room = 0;

	LIST_FOREACH (file, &helper->files, link)
		room += file->user == user ? file->room : 0;
	must(room <= helper->room);
	return room;
}

/*
 * Allocate room for the first `bytes` of the object. Memory grows with the bytes received, because the size in the header
 * is untrusted. NULL: done; else the reason why not.
 */
static const char *reserve_object_room(struct helper_file *file, struct pending_add *add, size_t bytes)
{
	struct helper *helper = file->helper;
	size_t room, more;
	void *object;

	if (bytes <= add->room)
		return NULL;
	room = min_u64(round_up_power_of_two(bytes), add->bytes);
	must(room >= bytes);
	must(add->got <= add->room && helper->room >= file->room);
	more = room - add->room;
	if (helper->room + more > helper->limits.bytes ||
	    user_room(helper, file->user) + more > helper->limits.bytes_a_user)
		return "too many bytes of objects are in progress";
	object = realloc(add->object, room);
	if (!object)
		return "out of memory";
	add->object = object;
	add->room = room;
	file->room += more;
	helper->room += more;
	must(helper->room <= helper->limits.bytes);
	must(add->room <= file->room);
	return NULL;
}

/* ---- steps ---- */

static void answer_call(struct helper_step *step, int error, const char *why)
{
	must(error < 0 && why);
	*step = (struct helper_step){ .action = HELPER_ANSWER, .error = error, .why = why };
}

static void request_memory(struct helper_step *step, struct pending_add *add, uint64_t address, size_t bytes)
{
	add->requested_bytes = bytes;
	*step = (struct helper_step){ .action = HELPER_RETRY, .address = address, .bytes = bytes };
}

static struct pending_add *find_pending_add(struct helper_file *file, int32_t thread)
{
	struct pending_add *add;

	TAILQ_FOREACH (add, &file->adds, link) {
		if (add->thread == thread)
			return add;
	}
	return NULL;
}

static void start_pending_add(struct helper_file *file, const struct helper_call *call, struct helper_step *step)
{
	struct pending_add *add = find_pending_add(file, call->thread);

	if (add)
		free_pending_add(file, add);
	else if (file->add_count == HELPER_THREADS_MAX)
		free_pending_add(file, TAILQ_FIRST(&file->adds));
	add = calloc(1, sizeof(*add));
	if (!add) {
		answer_call(step, -ENOMEM, "out of memory");
		return;
	}
	add->thread = call->thread;
	add->since_ns = call->now_ns;
	add->wants = WANTS_HELPER;
	TAILQ_INSERT_TAIL(&file->adds, add, link);
	file->add_count++;
	request_memory(step, add, call->argument, sizeof(add->helper));
}

/* The object is complete. */
static void complete_pending_add(struct helper_file *file, struct pending_add *add, struct helper_step *step)
{
	*step = (struct helper_step){
		.action = HELPER_ADD,
		.helper = add->helper,
		.address = add->object ? add->helper.dof : add->helper.base,
		.object = add->object,
		.bytes = add->bytes,
	};
	add->object = NULL;
	free_pending_add(file, add);
}

static void reject_pending_add(struct helper_file *file, struct pending_add *add, struct helper_step *step, const char *why)
{
	free_pending_add(file, add);
	answer_call(step, -EINVAL, why);
}

static void request_next_piece(struct helper_file *file, struct pending_add *add, struct helper_step *step)
{
	size_t bytes = min_u64(add->bytes - add->got, HELPER_CHUNK_BYTES);
	const char *why;

	must(add->got <= add->bytes && add->got <= add->room);
	if (add->got == add->bytes) {
		complete_pending_add(file, add, step);
		return;
	}
	why = reserve_object_room(file, add, add->got + bytes);
	if (why)
		reject_pending_add(file, add, step, why);
	else
		request_memory(step, add, add->helper.dof + add->got, bytes);
}

static void receive_helper(struct helper_file *file, struct pending_add *add, const void *data, struct helper_step *step)
{
	memcpy(&add->helper, data, sizeof(add->helper));
	if (!memchr(add->helper.module, '\0', sizeof(add->helper.module))) {
		reject_pending_add(file, add, step, "the name of the module has no NUL");
		return;
	}
	if (add->helper.dof == 0) {
		complete_pending_add(file, add, step);
		return;
	}
	add->wants = WANTS_HEADER;
	request_memory(step, add, add->helper.dof, HELPER_HEADER_BYTES);
}

static void receive_header(struct helper_file *file, struct pending_add *add, const void *data, struct helper_step *step)
{
	static const unsigned char magic[4] = { 0x7f, 'D', 'O', 'F' };
	const char *why;
	uint64_t bytes;

	memcpy(&bytes, (const char *)data + LOADSZ_AT, sizeof(bytes));
	if (memcmp(data, magic, sizeof(magic)) != 0) {
		reject_pending_add(file, add, step, "not a DOF object");
		return;
	}
	if (bytes < HELPER_HEADER_BYTES || bytes > file->helper->limits.object_bytes ||
	    add->helper.dof > UINT64_MAX - bytes) {
		reject_pending_add(file, add, step,
				   "the object is longer than --limit-object-bytes, or shorter than its header");
		return;
	}
	add->bytes = bytes;
	why = reserve_object_room(file, add, HELPER_HEADER_BYTES);
	if (why) {
		reject_pending_add(file, add, step, why);
		return;
	}
	memcpy(add->object, data, HELPER_HEADER_BYTES);
	add->got = HELPER_HEADER_BYTES;
	add->wants = WANTS_OBJECT;
	request_next_piece(file, add, step);
}

static void continue_pending_add(struct helper_file *file, const struct helper_call *call, struct helper_step *step)
{
	struct pending_add *add = find_pending_add(file, call->thread);

	if (!add) {
		answer_call(step, -EINVAL, "the ioctl was not started, or has expired");
		return;
	}
	must(add->thread == call->thread);
	if (call->bytes != add->requested_bytes) {
		reject_pending_add(file, add, step, "the kernel sent another piece of memory than requested");
		return;
	}
	add->since_ns = call->now_ns;
	switch (add->wants) {
	case WANTS_HELPER:
		receive_helper(file, add, call->data, step);
		return;
	case WANTS_HEADER:
		receive_header(file, add, call->data, step);
		return;
	case WANTS_OBJECT:
		must(add->got + call->bytes <= add->room);
		memcpy(add->object + add->got, call->data, call->bytes);
		add->got += call->bytes;
		must(add->got <= add->bytes);
		request_next_piece(file, add, step);
		return;
	}
}

bool helper_adds(uint32_t command)
{
	return command == HELPER_IOCTL_ADDDOF || command == HELPER_IOCTL_ADDNOTES || command == HELPER_IOCTL_ADD;
}

void helper_step(struct helper_file *file, const struct helper_call *call, struct helper_step *step_ret)
{
	switch (call->command) {
	case HELPER_IOCTL_ADDDOF:
		if (call->bytes == 0)
			start_pending_add(file, call, step_ret);
		else
			continue_pending_add(file, call, step_ret);
		return;
	case HELPER_IOCTL_ADDNOTES:
		if (call->argument == 0)
			answer_call(step_ret, -EINVAL, "the address in a file with notes is 0");
		else
			*step_ret = (struct helper_step){ .action = HELPER_ADD, .address = call->argument };
		return;
	case HELPER_IOCTL_REMOVE:
		/* the argument is an int; the upper half of the register is undefined */
		*step_ret = (struct helper_step){ .action = HELPER_REMOVE, .generation = (uint32_t)call->argument };
		return;
	case HELPER_IOCTL_ADD:
		answer_call(step_ret, -EINVAL, "the obsolete ioctl HELPER_ADD, which has no module name");
		return;
	default:
		answer_call(step_ret, -EINVAL, "unknown ioctl");
	}
}

void helper_expire(struct helper *helper, uint64_t now_ns)
{
	struct helper_file *file;

	LIST_FOREACH (file, &helper->files, link) {
		struct pending_add *add, *next;

		TAILQ_FOREACH_SAFE (add, &file->adds, link, next) {
			if (now_ns - add->since_ns >= HELPER_STALE_SEC * NS_PER_SEC)
				free_pending_add(file, add);
		}
	}
}

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

/* An ADDDOF of one thread, between two calls. */
struct began {
	TAILQ_ENTRY(began) link;
	int32_t thread;
	uint64_t since_ns;
	enum { WANTS_HELPER, WANTS_HEADER, WANTS_OBJECT } wants;
	size_t asked; /* bytes of the piece that is to come */
	struct dof_helper helper;
	unsigned char *object;
	size_t room, got, bytes; /* of the object: allocated, here, in all */
};

struct helper_file {
	LIST_ENTRY(helper_file) link;
	struct helper *helper;
	uint32_t user;
	TAILQ_HEAD(, began) began; /* the oldest first */
	uint32_t began_count;
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
	TAILQ_INIT(&file->began);
	LIST_INSERT_HEAD(&helper->files, file, link);
	return file;
}

/* ---- room for objects ---- */

static void give_room_back(struct helper_file *file, struct began *began)
{
	must(file->room >= began->room);
	must(file->helper->room >= began->room);
	file->room -= began->room;
	file->helper->room -= began->room;
	began->room = 0;
}

static void forget(struct helper_file *file, struct began *began)
{
	give_room_back(file, began);
	TAILQ_REMOVE(&file->began, began, link);
	must(file->began_count > 0);
	file->began_count--;
	free(began->object);
	free(began);
}

void helper_file_destroy(struct helper_file *file)
{
	struct began *began;

	while ((began = TAILQ_FIRST(&file->began)))
		forget(file, began);
	LIST_REMOVE(file, link);
	free(file);
}

static size_t room_of_user(const struct helper *helper, uint32_t user)
{
	const struct helper_file *file;
	size_t room = 0;

	LIST_FOREACH (file, &helper->files, link)
		room += file->user == user ? file->room : 0;
	return room;
}

/* For `bytes` of the object; memory is taken as the object comes, not as its header says. NULL: done; else why not. */
static const char *make_room(struct helper_file *file, struct began *began, size_t bytes)
{
	struct helper *helper = file->helper;
	size_t room, more;
	void *object;

	if (bytes <= began->room)
		return NULL;
	room = min_u64(round_up_power_of_two(bytes), began->bytes);
	must(room >= bytes);
	more = room - began->room;
	if (helper->room + more > helper->limits.bytes ||
	    room_of_user(helper, file->user) + more > helper->limits.bytes_a_user)
		return "too many bytes of objects are on their way";
	object = realloc(began->object, room);
	if (!object)
		return "out of memory";
	began->object = object;
	began->room = room;
	file->room += more;
	helper->room += more;
	return NULL;
}

/* ---- steps ---- */

static void answer(struct helper_step *step, int error, const char *why)
{
	*step = (struct helper_step){ .action = HELPER_ANSWER, .error = error, .why = why };
}

static void retry(struct helper_step *step, struct began *began, uint64_t address, size_t bytes)
{
	began->asked = bytes;
	*step = (struct helper_step){ .action = HELPER_RETRY, .address = address, .bytes = bytes };
}

static struct began *find(struct helper_file *file, int32_t thread)
{
	struct began *began;

	TAILQ_FOREACH (began, &file->began, link) {
		if (began->thread == thread)
			return began;
	}
	return NULL;
}

static void begin(struct helper_file *file, const struct helper_call *call, struct helper_step *step)
{
	struct began *began = find(file, call->thread);

	if (began)
		forget(file, began);
	else if (file->began_count == HELPER_THREADS_MAX)
		forget(file, TAILQ_FIRST(&file->began));
	began = calloc(1, sizeof(*began));
	if (!began) {
		answer(step, -ENOMEM, "out of memory");
		return;
	}
	began->thread = call->thread;
	began->since_ns = call->now_ns;
	began->wants = WANTS_HELPER;
	TAILQ_INSERT_TAIL(&file->began, began, link);
	file->began_count++;
	retry(step, began, call->argument, sizeof(began->helper));
}

/* All of it is here. */
static void give(struct helper_file *file, struct began *began, struct helper_step *step)
{
	*step = (struct helper_step){
		.action = HELPER_ADD,
		.helper = began->helper,
		.address = began->object ? began->helper.dof : began->helper.base,
		.object = began->object,
		.bytes = began->bytes,
	};
	began->object = NULL;
	forget(file, began);
}

static void refuse(struct helper_file *file, struct began *began, struct helper_step *step, const char *why)
{
	forget(file, began);
	answer(step, -EINVAL, why);
}

static void want_more(struct helper_file *file, struct began *began, struct helper_step *step)
{
	size_t bytes = min_u64(began->bytes - began->got, HELPER_CHUNK_BYTES);
	const char *why;

	if (began->got == began->bytes) {
		give(file, began, step);
		return;
	}
	why = make_room(file, began, began->got + bytes);
	if (why)
		refuse(file, began, step, why);
	else
		retry(step, began, began->helper.dof + began->got, bytes);
}

static void take_helper(struct helper_file *file, struct began *began, const void *data, struct helper_step *step)
{
	memcpy(&began->helper, data, sizeof(began->helper));
	if (!memchr(began->helper.module, '\0', sizeof(began->helper.module))) {
		refuse(file, began, step, "the name of the module has no end");
		return;
	}
	if (began->helper.dof == 0) {
		give(file, began, step);
		return;
	}
	began->wants = WANTS_HEADER;
	retry(step, began, began->helper.dof, HELPER_HEADER_BYTES);
}

static void take_header(struct helper_file *file, struct began *began, const void *data, struct helper_step *step)
{
	static const unsigned char magic[4] = { 0x7f, 'D', 'O', 'F' };
	const char *why;
	uint64_t bytes;

	memcpy(&bytes, (const char *)data + LOADSZ_AT, sizeof(bytes));
	if (memcmp(data, magic, sizeof(magic)) != 0) {
		refuse(file, began, step, "it is no DOF");
		return;
	}
	if (bytes < HELPER_HEADER_BYTES || bytes > file->helper->limits.object_bytes ||
	    began->helper.dof > UINT64_MAX - bytes) {
		refuse(file, began, step, "the object is longer than --limit-object-bytes, or shorter than its header");
		return;
	}
	began->bytes = bytes;
	why = make_room(file, began, HELPER_HEADER_BYTES);
	if (why) {
		refuse(file, began, step, why);
		return;
	}
	memcpy(began->object, data, HELPER_HEADER_BYTES);
	began->got = HELPER_HEADER_BYTES;
	began->wants = WANTS_OBJECT;
	want_more(file, began, step);
}

static void go_on(struct helper_file *file, const struct helper_call *call, struct helper_step *step)
{
	struct began *began = find(file, call->thread);

	if (!began) {
		answer(step, -EINVAL, "the ioctl was not begun, or took too long");
		return;
	}
	if (call->bytes != began->asked) {
		refuse(file, began, step, "the kernel gives another piece of memory than was asked for");
		return;
	}
	began->since_ns = call->now_ns;
	switch (began->wants) {
	case WANTS_HELPER:
		take_helper(file, began, call->data, step);
		return;
	case WANTS_HEADER:
		take_header(file, began, call->data, step);
		return;
	case WANTS_OBJECT:
		must(began->got + call->bytes <= began->room);
		memcpy(began->object + began->got, call->data, call->bytes);
		began->got += call->bytes;
		want_more(file, began, step);
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
			begin(file, call, step_ret);
		else
			go_on(file, call, step_ret);
		return;
	case HELPER_IOCTL_ADDNOTES:
		if (call->argument == 0)
			answer(step_ret, -EINVAL, "there is no address in a file that has notes");
		else
			*step_ret = (struct helper_step){ .action = HELPER_ADD, .address = call->argument };
		return;
	case HELPER_IOCTL_REMOVE:
		/* an int, whatever stands in the upper half of the register */
		*step_ret = (struct helper_step){ .action = HELPER_REMOVE, .generation = (uint32_t)call->argument };
		return;
	case HELPER_IOCTL_ADD:
		answer(step_ret, -EINVAL, "the ioctl is that of long ago, which had no place for the module's name");
		return;
	default:
		answer(step_ret, -EINVAL, "there is no such ioctl");
	}
}

void helper_expire(struct helper *helper, uint64_t now_ns)
{
	struct helper_file *file;

	LIST_FOREACH (file, &helper->files, link) {
		struct began *began, *next;

		TAILQ_FOREACH_SAFE (began, &file->began, link, next) {
			if (now_ns - began->since_ns >= HELPER_STALE_SEC * NS_PER_SEC)
				forget(file, began);
		}
	}
}

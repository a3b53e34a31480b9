/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process that was started listens at its socket a moment later. A server that dies in that moment must not be followed
 * by one that starts a second engine: so the number and the start of each process are noted beside its socket. The folder
 * does not survive the machine; a number that has another bearer by now has another start.
 *
 *	PID START INCARNATION RANK ASKED	(ASKED: 1, the server stopped it)
 *
 * The note stays when an engine dies by itself: whoever finds it tells of the death, with the incarnation and the rank that
 * stand there. So none is lost with a server that dies before it could, or that was not there. Who keeps events knows those
 * that he has; one without an incarnation, that he could not know again, is told of when its note is gone.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/text.h"
#include "control/instance/internal.h"

enum { STAT_BYTES = 1024, FIELD_STATE = 3, FIELD_FLAGS = 9, FIELD_START = 22, NOTE_BYTES = 128 };
enum { PROCESS_EXITING = 0x4 }; /* PF_EXITING of the kernel */

struct note {
	uint64_t pid, start, incarnation, rank, asked;
};

/* Field `number` of /proc/PID/stat as a number. -ESRCH: there is none, or it has ended and was not waited for. */
static int stat_of(struct provider *os, uint64_t pid, int number, uint64_t *value_ret)
{
	char path[64], text[STAT_BYTES], *next, *field = NULL;
	int error;

	snprintf(path, sizeof(path), "/proc/%" PRIu64 "/stat", pid);
	error = provider_read_text(os, path, text, sizeof(text));
	if (error)
		return error == -ENOENT ? -ESRCH : error;
	next = strrchr(text, ')'); /* behind the name, which may be anything */
	if (!next || next[1] != ' ')
		return -EBADMSG;
	next += 2;
	for (int i = FIELD_STATE; i <= number; i++) {
		field = strsep(&next, " ");
		if (!field)
			return -EBADMSG;
		if (i == FIELD_STATE && (*field == 'Z' || *field == 'X'))
			return -ESRCH;
	}
	return text_parse_u64(field, 10, UINT64_MAX, value_ret);
}

/* In clock ticks since the machine's start. */
static int start_of(struct provider *os, uint64_t pid, uint64_t *start_ret)
{
	return stat_of(os, pid, FIELD_START, start_ret);
}

bool instance_process_lives(struct provider *os, uint64_t pid)
{
	uint64_t flags;

	return stat_of(os, pid, FIELD_FLAGS, &flags) == 0 && !(flags & PROCESS_EXITING);
}

static void note_path(const struct instance *instance, char *path)
{
	snprintf(path, INSTANCE_PATH_BYTES + 40, "%s/fathom_engine%u.pid", instance->options.socket_dir,
		 instance->options.index);
}

int instance_note_process(struct instance *instance)
{
	char path[INSTANCE_PATH_BYTES + 40], text[NOTE_BYTES];
	uint64_t start;
	int error = start_of(instance->options.os, (uint64_t)instance->process.pid, &start);

	if (error)
		return error == -ESRCH ? 0 : error; /* it has ended already, which is seen soon */
	note_path(instance, path);
	snprintf(text, sizeof(text), "%d %" PRIu64 " %" PRIu64 " %" PRIu32 " %d\n", instance->process.pid, start,
		 instance->ready ? instance->ready->incarnation : 0,
		 instance->superblock.has_rank ? instance->superblock.rank : RANK_NONE,
		 instance->state == INSTANCE_STOPPING);
	error = instance_replace_file(instance, path, text, false);
	if (!error && instance->ready)
		instance->process.noted_incarnation = instance->ready->incarnation;
	return error;
}

void instance_remove_note(struct instance *instance)
{
	char path[INSTANCE_PATH_BYTES + 40];

	note_path(instance, path);
	(void)!instance->options.os->calls->remove(instance->options.os,
						   path); /* one that stays names a process that is there no more */
}

static bool read_note(struct instance *instance, struct note *note_ret)
{
	uint64_t *const numbers[] = { &note_ret->pid, &note_ret->start, &note_ret->incarnation, &note_ret->rank,
				      &note_ret->asked };
	char path[INSTANCE_PATH_BYTES + 40], text[NOTE_BYTES], *next = text;

	note_path(instance, path);
	if (provider_read_text(instance->options.os, path, text, sizeof(text)) != 0)
		return false;
	for (size_t i = 0; i < ARRAY_COUNT(numbers); i++) {
		if (!next || text_parse_u64(strsep(&next, " "), 10, UINT64_MAX, numbers[i]) != 0)
			return false;
	}
	return note_ret->pid > 0 && note_ret->pid <= INT32_MAX;
}

static bool lives(struct instance *instance, const struct note *note)
{
	uint64_t start;

	return start_of(instance->options.os, note->pid, &start) == 0 && start == note->start;
}

bool instance_noted_lives(struct instance *instance)
{
	struct note note;

	return read_note(instance, &note) && lives(instance, &note);
}

void instance_tell_noted(struct instance *instance)
{
	struct note note;
	char how[INSTANCE_END_BYTES];

	if (!read_note(instance, &note) || note.asked || lives(instance, &note))
		return;
	snprintf(how, sizeof(how), "process %" PRIu64 " has gone", note.pid);
	instance_describe_end(instance, note.pid, how);
	if (note.incarnation == 0)
		instance_remove_note(instance);
	instance_tell_died(instance, how, (uint64_t)note.pid, note.incarnation, (uint32_t)note.rank);
}

int instance_noted_open(struct instance *instance, pid_t *pid_ret, int *pid_fd_ret)
{
	struct provider *os = instance->options.os;
	struct note note;
	int fd;

	if (!read_note(instance, &note))
		return -ESRCH;
	fd = os->calls->open_process(os, (pid_t)note.pid);
	if (fd < 0)
		return fd;
	/* after it was opened: so the descriptor is of that process and no later one */
	if (!lives(instance, &note)) {
		close(fd);
		return -ESRCH;
	}
	*pid_ret = (pid_t)note.pid;
	*pid_fd_ret = fd;
	return 0;
}

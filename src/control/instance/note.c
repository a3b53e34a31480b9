/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process that was started listens at its socket a moment later. A server that dies in that moment must not be followed
 * by one that starts a second engine: so the number and the start of each process are noted beside its socket, for as long
 * as nobody has seen it end. The folder does not survive the machine; a number that has another bearer by now has another
 * start.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "control/instance/internal.h"

enum { STAT_BYTES = 1024, FIELD_STATE = 3, FIELD_START = 22 };

/* In clock ticks since the machine's start; -ESRCH: there is none, or it has ended and was not waited for. */
static int start_of(struct provider *os, uint64_t pid, uint64_t *start_ret)
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
	for (int i = FIELD_STATE; i <= FIELD_START; i++) {
		field = strsep(&next, " ");
		if (!field)
			return -EBADMSG;
		if (i == FIELD_STATE && (*field == 'Z' || *field == 'X'))
			return -ESRCH;
	}
	return text_parse_u64(field, 10, UINT64_MAX, start_ret);
}

static void note_path(const struct instance *instance, char *path)
{
	snprintf(path, INSTANCE_PATH_BYTES + 40, "%s/fathom_engine%u.pid", instance->options.socket_dir,
		 instance->options.index);
}

int instance_note_process(struct instance *instance)
{
	char path[INSTANCE_PATH_BYTES + 40], new_path[INSTANCE_PATH_BYTES + 48], text[64];
	struct provider *os = instance->options.os;
	uint64_t start;
	int error = start_of(os, (uint64_t)instance->process.pid, &start), fd;

	if (error)
		return error == -ESRCH ? 0 : error; /* it has ended already, which is seen soon */
	note_path(instance, path);
	snprintf(new_path, sizeof(new_path), "%s.new", path);
	snprintf(text, sizeof(text), "%d %" PRIu64 "\n", instance->process.pid, start);
	fd = os->calls->open(os, new_path, O_WRONLY | O_CREAT | O_TRUNC, 0600, false);
	if (fd < 0)
		return fd;
	error = file_write(fd, text, strlen(text));
	os->calls->close_fd(os, fd);
	if (!error && rename(new_path, path) != 0)
		error = -errno;
	return error;
}

void instance_remove_note(struct instance *instance)
{
	char path[INSTANCE_PATH_BYTES + 40];

	note_path(instance, path);
	(void)unlink(path); /* one that stays names a process that is there no more */
}

static bool read_note(struct instance *instance, uint64_t *pid_ret, uint64_t *start_ret)
{
	char path[INSTANCE_PATH_BYTES + 40], text[64], *next = text;

	note_path(instance, path);
	if (provider_read_text(instance->options.os, path, text, sizeof(text)) != 0)
		return false;
	return text_parse_u64(strsep(&next, " "), 10, INT32_MAX, pid_ret) == 0 && *pid_ret > 0 && next &&
	       text_parse_u64(next, 10, UINT64_MAX, start_ret) == 0;
}

bool instance_noted_lives(struct instance *instance)
{
	uint64_t pid, noted, start;

	return read_note(instance, &pid, &noted) && start_of(instance->options.os, pid, &start) == 0 && start == noted;
}

int instance_noted_open(struct instance *instance, pid_t *pid_ret, int *pid_fd_ret)
{
	uint64_t pid, noted, start;
	int fd, error;

	if (!read_note(instance, &pid, &noted))
		return -ESRCH;
	fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
	if (fd < 0)
		return -errno;
	/* after it was opened: so the descriptor is of that process and no later one */
	error = start_of(instance->options.os, pid, &start);
	if (!error && start != noted)
		error = -ESRCH;
	if (error) {
		close(fd);
		return error;
	}
	*pid_ret = (pid_t)pid;
	*pid_fd_ret = fd;
	return 0;
}

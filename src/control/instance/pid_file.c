/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The pid file of an engine's process. A started process listens at its socket only a moment later. If the server
 * dies in that moment, the next one must not start a second engine: so the pid and the start time of each process are
 * written to a file beside its socket. The folder does not survive a reboot; a reused pid has another start time.
 *
 *	PID START INCARNATION RANK ASKED	(ASKED: 1, the server stopped it)
 *
 * The file stays when an engine dies without a stop: the next server that finds it raises the death event, with the
 * incarnation and the rank of the file. So no death is lost with a server that dies before it could raise the event, or
 * while no server runs. The spool drops an event with an incarnation that it has already; a file without an incarnation is
 * removed before its event is raised, so that the event comes once.
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

enum { STAT_BYTES = 1024, FIELD_STATE = 3, FIELD_FLAGS = 9, FIELD_START = 22, PID_FILE_BYTES = 128 };
enum { PROCESS_EXITING = 0x4 }; /* PF_EXITING of the kernel */

struct pid_record {
	uint64_t pid, start, incarnation, rank, asked;
};

/* Field `number` of /proc/PID/stat as a number. -ESRCH: there is no such process, or it is a zombie. */
static int read_stat_field(struct provider *os, uint64_t pid, int number, uint64_t *value_ret)
{
	char path[64], text[STAT_BYTES], *next, *field = NULL;
	int error;

	snprintf(path, sizeof(path), "/proc/%" PRIu64 "/stat", pid);
	error = provider_read_text(os, path, text, sizeof(text));
	if (error)
		return error == -ENOENT ? -ESRCH : error;
	next = strrchr(text, ')'); /* the name in parentheses may contain ')' and blanks */
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

/* In clock ticks since the boot. */
static int read_start_time(struct provider *os, uint64_t pid, uint64_t *start_ret)
{
	return read_stat_field(os, pid, FIELD_START, start_ret);
}

bool instance_process_lives(struct provider *os, uint64_t pid)
{
	uint64_t flags;

	return read_stat_field(os, pid, FIELD_FLAGS, &flags) == 0 && !(flags & PROCESS_EXITING);
}

static void pid_file_path(const struct instance *instance, char *path)
{
	snprintf(path, INSTANCE_PATH_BYTES + 40, "%s/fathom_engine%u.pid", instance->options.socket_dir,
		 instance->options.index);
}

int instance_write_pid_file(struct instance *instance)
{
	char path[INSTANCE_PATH_BYTES + 40], text[PID_FILE_BYTES];
	uint64_t start;
	int error = read_start_time(instance->options.os, (uint64_t)instance->process.pid, &start);

	if (error)
		return error == -ESRCH ? 0 : error; /* it has ended already: its pidfd reports that */
	pid_file_path(instance, path);
	must(instance->process.pid > 0);
	snprintf(text, sizeof(text), "%d %" PRIu64 " %" PRIu64 " %" PRIu32 " %d\n", instance->process.pid, start,
		 instance->ready ? instance->ready->incarnation : 0,
		 instance->superblock.has_rank ? instance->superblock.rank : RANK_NONE,
		 instance->state == INSTANCE_STOPPING);
	error = instance_replace_file(instance, path, text, false);
	if (!error && instance->ready)
		instance->process.recorded_incarnation = instance->ready->incarnation;
	return error;
}

void instance_remove_pid_file(struct instance *instance)
{
	char path[INSTANCE_PATH_BYTES + 40];

	pid_file_path(instance, path);
	(void)!instance->options.os->calls->remove(instance->options.os,
						   path); /* one that stays names a process that has ended */
}

static bool read_pid_file(struct instance *instance, struct pid_record *record_ret)
{
	uint64_t *const numbers[] = { &record_ret->pid, &record_ret->start, &record_ret->incarnation, &record_ret->rank,
				      &record_ret->asked };
	char path[INSTANCE_PATH_BYTES + 40], text[PID_FILE_BYTES], *next = text;

	pid_file_path(instance, path);
	if (provider_read_text(instance->options.os, path, text, sizeof(text)) != 0)
		return false;
	for (size_t i = 0; i < ARRAY_COUNT(numbers); i++) {
		if (!next || text_parse_u64(strsep(&next, " "), 10, UINT64_MAX, numbers[i]) != 0)
			return false;
	}
	return record_ret->pid > 0 && record_ret->pid <= INT32_MAX;
}

static bool recorded_process_lives(struct instance *instance, const struct pid_record *record)
{
	uint64_t start;

	return read_start_time(instance->options.os, record->pid, &start) == 0 && start == record->start;
}

bool instance_pid_file_process_lives(struct instance *instance)
{
	struct pid_record record;

	return read_pid_file(instance, &record) && recorded_process_lives(instance, &record);
}

void instance_raise_recorded_death(struct instance *instance)
{
	struct pid_record record;
	char how[INSTANCE_END_BYTES];

	if (!read_pid_file(instance, &record) || record.asked || recorded_process_lives(instance, &record))
		return;
	snprintf(how, sizeof(how), "process %" PRIu64 " has gone", record.pid);
	instance_describe_end(instance, record.pid, how);
	if (record.incarnation == 0)
		instance_remove_pid_file(instance);
	instance_report_death(instance, how, (uint64_t)record.pid, record.incarnation, (uint32_t)record.rank);
}

int instance_open_pid_file_process(struct instance *instance, pid_t *pid_ret, int *pid_fd_ret)
{
	struct provider *os = instance->options.os;
	struct pid_record record;
	int fd;

	if (!read_pid_file(instance, &record))
		return -ESRCH;
	fd = os->calls->open_process(os, (pid_t)record.pid);
	if (fd < 0)
		return fd;
	/* checked after it was opened: so the descriptor is not that of a later process with this pid */
	if (!recorded_process_lives(instance, &record)) {
		close(fd);
		return -ESRCH;
	}
	*pid_ret = (pid_t)record.pid;
	*pid_fd_ret = fd;
	return 0;
}

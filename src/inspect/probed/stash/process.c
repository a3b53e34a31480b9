/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * process - the files in dof-pid/$pid that identify the process.
 *
 *   exec-mapping    `$dev-$ino` of its program; exec changes it
 *   process         its start time and user; a reused pid has another start time
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inspect/probed/stash/internal.h"

enum { TEXT_BYTES = 64 };
static_assert((int)STASH_MAPPING_NAME_BYTES <= (int)TEXT_BYTES, "exec-mapping has the name of a mapping");

int stash_put_process(int folder, const struct stash_process *process)
{
	const struct stash_mapping program = { process->exec_device, process->exec_inode };
	char text[TEXT_BYTES];
	int rc;

	must(process->pid > 0);
	stash_mapping_name(&program, text);
	must(strlen(text) < TEXT_BYTES);
	rc = stash_write_file(folder, "exec-mapping", text, strlen(text));
	if (rc)
		return rc;
	snprintf(text, sizeof(text), "%" PRIu64 " %u\n", process->start_time, (unsigned int)process->uid);
	return stash_write_file(folder, "process", text, strlen(text));
}

static int parse_process(char *text, struct stash_process *process)
{
	char *rest = text, *start = strsep(&rest, " ");
	uint64_t uid;

	if (!rest || !strchr(rest, '\n'))
		return -EINVAL;
	rest[strcspn(rest, "\n")] = '\0';
	if (!stash_parse_number(start, UINT64_MAX, &process->start_time) || !stash_parse_number(rest, UINT32_MAX, &uid))
		return -EINVAL;
	process->uid = (uid_t)uid;
	return 0;
}

static int parse_program(char *text, struct stash_process *process)
{
	struct stash_mapping program;

	text[strcspn(text, "\n")] = '\0';
	if (!stash_parse_mapping(text, &program))
		return -EINVAL;
	process->exec_device = program.device;
	process->exec_inode = program.inode;
	return 0;
}

int stash_get_process(int folder, pid_t pid, struct stash_process *process_ret)
{
	struct stash_process process = { .pid = pid };
	size_t bytes;
	void *text;
	int rc = stash_read_file(folder, "process", TEXT_BYTES, &text, &bytes);

	must(pid > 0);
	must(rc || bytes <= TEXT_BYTES);
	if (rc)
		return rc;
	rc = parse_process(text, &process);
	free(text);
	if (rc == 0)
		rc = stash_read_file(folder, "exec-mapping", TEXT_BYTES, &text, &bytes);
	if (rc)
		return rc;
	rc = parse_program(text, &process);
	free(text);
	if (rc == 0)
		*process_ret = process;
	return rc;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Asks a running engine for its configuration, statistics and trace, for a collection. The program `fathom` in the server's
 * folder makes the calls; its output goes through a temporary file in state_dir. An engine that hangs costs ten seconds.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/server/collection/internal.h"
#include "control/server/collection/journal.h"

enum { ENGINE_BYTES_MAX = 256 << 20 }; /* of one answer; a trace is the largest */

static int read_whole_file(const char *path, size_t max, char **bytes_ret, size_t *count_ret)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW), error = 0;
	char *bytes = NULL;
	struct stat stat;
	ssize_t got = 0;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &stat) != 0)
		error = -errno;
	else if ((size_t)stat.st_size > max)
		error = -EFBIG;
	else
		bytes = malloc((size_t)stat.st_size + 1);
	if (!error && !bytes)
		error = -ENOMEM;
	if (!error && (got = read(fd, bytes, (size_t)stat.st_size)) < 0)
		error = -errno;
	close(fd);
	if (error) {
		free(bytes);
		return error;
	}
	must(got >= 0 && got <= stat.st_size);
	*bytes_ret = bytes;
	*count_ret = (size_t)got;
	return 0;
}

int engine_answer_read(const struct server *server, const char *socket, enum engine_question question, const char *path,
		       char **bytes_ret, size_t *count_ret)
{
	char program[4096];
	char *const rpc[] = {
		program, "rpc", "-s", (char *)socket, question == ENGINE_CONFIG ? "save_config" : "bdev_get_iostat", NULL
	};
	char *const freeze[] = { program, "trace", "freeze", "-S", (char *)socket, "-o", (char *)path, NULL };
	int error;

	must(question <= ENGINE_TRACE);
	must(*socket && *path == '/');
	if (snprintf(program, sizeof(program), "%s/fathom", server->options->programs) >= (int)sizeof(program))
		return -ENAMETOOLONG;
	error = program_write(server->os, question == ENGINE_TRACE ? freeze : rpc, question == ENGINE_TRACE ? NULL : path);
	if (!error)
		error = read_whole_file(path, ENGINE_BYTES_MAX, bytes_ret, count_ret);
	(void)unlink(path); /* the program may not have created it */
	return error;
}

char *engine_states_text(const struct server *server)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);

	must(out);
	fprintf(out, "fathom-server %s, system %s at %s, management service at %s\n", server->options->version,
		server->config->name, server->places->control, server->places->replica);
	for (uint32_t i = 0; i < server->instance_count; i++) {
		struct instance_info info;

		instance_get_info(server->instances[i], &info);
		fprintf(out, "engine %u: %s, pid %d, rank %" PRId64 ", %s, %" PRIu64 " starts, last end: %s; %s\n",
			info.index, instance_state_name(info.state), info.pid,
			info.rank == RANK_NONE ? -1 : (int64_t)info.rank, info.uri, info.starts,
			info.last_end[0] ? info.last_end : "none", info.why.error ? info.why.text : "no fault");
	}
	must(fclose(out) == 0);
	return text;
}

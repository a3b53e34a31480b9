/* SPDX-License-Identifier: BSD-2-Clause */
#include "data/engine/end_report.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/must.h"

enum { REPORT_BYTES = 1024, REPORT_PATH_BYTES = 512, REPORT_MODE = 0600 };

static bool write_whole(const char *path, const char *text)
{
	size_t bytes = strlen(text);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, REPORT_MODE);
	bool done;

	if (fd < 0)
		return false;
	done = write(fd, text, bytes) == (ssize_t)bytes;
	close(fd);
	return done;
}

void engine_report_end(const struct engine_server_options *server, const char *reason)
{
	char path[REPORT_PATH_BYTES], new_path[REPORT_PATH_BYTES + 8], text[REPORT_BYTES];

	must(reason[0] != '\0');
	if (!server->socket_dir || snprintf(path, sizeof(path), "%s/fathom_engine%" PRIu32 ".end", server->socket_dir,
					    server->instance) >= (int)sizeof(path))
		return;
	snprintf(new_path, sizeof(new_path), "%s.new", path);
	snprintf(text, sizeof(text), "%d %s", getpid(), reason);
	if (!write_whole(new_path, text) || rename(new_path, path) != 0)
		unlink(new_path); /* the log also has the reason */
}

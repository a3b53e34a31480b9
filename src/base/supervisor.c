/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/supervisor.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/text.h"

void supervisor_notify(const char *state)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const char *path = getenv("NOTIFY_SOCKET");
	socklen_t bytes;
	int fd;

	if (!path || (path[0] != '/' && path[0] != '@'))
		return;
	if (text_copy(address.sun_path, sizeof(address.sun_path), path) < 0)
		return;
	bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
	if (path[0] == '@')
		address.sun_path[0] = '\0'; /* the abstract namespace */
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	/* ignored: a supervisor that does not receive the datagram runs into its own time-out */
	(void)sendto(fd, state, strlen(state), MSG_NOSIGNAL | MSG_DONTWAIT, (const struct sockaddr *)&address, bytes);
	close(fd);
}

unsigned int supervisor_sockets(void)
{
	const char *pid_text = getenv("LISTEN_PID"), *count_text = getenv("LISTEN_FDS");
	uint64_t pid, count;

	if (!pid_text || !count_text || text_parse_u64(pid_text, 10, INT32_MAX, &pid) != 0 ||
	    text_parse_u64(count_text, 10, SUPERVISOR_SOCKETS_MAX, &count) != 0 || pid != (uint64_t)getpid())
		return 0;
	for (int i = 0; i < (int)count; i++) {
		if (fcntl(SUPERVISOR_SOCKET_FIRST + i, F_SETFD, FD_CLOEXEC) < 0)
			return 0; /* $LISTEN_FDS counts more descriptors than are open */
	}
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	return (unsigned int)count;
}

void supervisor_raise_descriptor_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &limit); /* on failure the limit is unchanged */
	}
}

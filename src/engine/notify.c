/* SPDX-License-Identifier: BSD-2-Clause */
/* The readiness protocol of systemd: a datagram to the socket that the supervisor named. Nobody there is no error. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/text.h"
#include "engine/internal.h"

void notify_supervisor(const char *state)
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
	/* a supervisor that does not listen will see for itself */
	(void)sendto(fd, state, strlen(state), MSG_NOSIGNAL | MSG_DONTWAIT, (const struct sockaddr *)&address, bytes);
	close(fd);
}

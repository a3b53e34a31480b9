/* SPDX-License-Identifier: BSD-2-Clause */
/* A program with probes in .note.usdt, as DTrace 2.0.3 and later makes them. It registers itself without an object. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/must.h"
#include "base/text.h"
#include "inspect/probed/client/protocol.h"
#include "inspect/probed/dof/dof.h"
#include "subject.h"

extern const char __ehdr_start[] __attribute__((visibility("hidden")));

int main(void)
{
	struct probed_request request = { .version = PROBED_PROTOCOL_VERSION, .operation = PROBED_ADD };
	const struct dof_helper helper = { .module = "notes", .base = (uintptr_t)__ehdr_start };
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct {
		struct probed_reply reply;
		char text[512];
	} answer = { 0 };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	char line[80];

	memcpy(request.helper, &helper, sizeof(helper));
	must(text_copy(address.sun_path, sizeof(address.sun_path), getenv(PROBED_SOCKET_ENV)) == 0);
	must(connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0);
	must(send(fd, &request, sizeof(request), 0) == (ssize_t)sizeof(request));
	must(recv(fd, &answer, sizeof(answer) - 1, 0) >= (ssize_t)sizeof(answer.reply));
	if (answer.reply.error) {
		fprintf(stderr, "notes: %s\n", answer.text);
		return 1;
	}
	printf("ready\n%p\n", (void *)(uintptr_t)subject_usdt);
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		(void)subject_usdt(1, "text");
	return 0;
}

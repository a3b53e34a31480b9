/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * register_bench - what a small process waits for when it starts: its registration at fathom-probed, over the socket
 * ($FATHOM_PROBED_SOCKET), with two probes; and its removal. Beside it the same connection and messages without any work: a
 * generation that no process has is removed. A line of JSON, in microseconds.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/must.h"
#include "base/text.h"
#include "client_object.h"
#include "fathom/probe.h"
#include "inspect/probed/client/protocol.h"

enum { ROUNDS = 2000, WARM = 200 };

static int compare(const void *a, const void *b)
{
	return *(const uint64_t *)a < *(const uint64_t *)b ? -1 : *(const uint64_t *)a > *(const uint64_t *)b;
}

static double at(const uint64_t *ns, unsigned int percent)
{
	return (double)ns[ROUNDS * percent / 100] / NS_PER_US;
}

static void take_nothing_back(void)
{
	const struct probed_request request = { .version = PROBED_PROTOCOL_VERSION,
						.operation = PROBED_REMOVE,
						.value = INT32_MAX };
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct probed_reply reply;

	must(text_copy(address.sun_path, sizeof(address.sun_path), getenv(PROBED_SOCKET_ENV)) == 0);
	must(connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0);
	must(send(fd, &request, sizeof(request), 0) == (ssize_t)sizeof(request));
	must(recv(fd, &reply, sizeof(reply), 0) >= (ssize_t)sizeof(reply));
	must(reply.error == 0);
	close(fd);
}

int main(void)
{
	static uint64_t add[ROUNDS], back[ROUNDS], nothing[ROUNDS];
	struct fathom_probe probe = { 0 };

	for (int i = -WARM; i < ROUNDS; i++) {
		uint64_t begin = clock_monotonic_ns(), added, removed;

		must(fathom_probe_add_mapped(&probe, object) == 0);
		added = clock_monotonic_ns();
		must(fathom_probe_remove(&probe) == 0);
		removed = clock_monotonic_ns();
		if (i < 0)
			continue;
		add[i] = added - begin;
		back[i] = removed - added;
	}
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t begin = clock_monotonic_ns();

		take_nothing_back();
		nothing[i] = clock_monotonic_ns() - begin;
	}
	qsort(add, ROUNDS, sizeof(*add), compare);
	qsort(back, ROUNDS, sizeof(*back), compare);
	qsort(nothing, ROUNDS, sizeof(*nothing), compare);
	printf("{\"what\":\"register\",\"add_us\":%.1f,\"add_p99_us\":%.1f,\"remove_us\":%.1f,\"floor_us\":%.1f}\n",
	       at(add, 50), at(add, 99), at(back, 50), at(nothing, 50));
	return 0;
}

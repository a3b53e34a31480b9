/* SPDX-License-Identifier: BSD-2-Clause */
#include "fake_helper.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/helper/protocol.h"

static void answer(struct helper_reply *reply)
{
	uint8_t frame[HELPER_FRAME_BYTES_MAX];
	size_t bytes = helper_encode_reply(reply, frame);

	must(send(HELPER_FD, frame, bytes, MSG_NOSIGNAL) == (ssize_t)bytes);
}

/* False: do not answer this request. */
static bool behave(const char *manner, const struct helper_request *request, struct helper_reply *reply)
{
	if (strcmp(manner, "silent") == 0)
		return false;
	if (strcmp(manner, "old") == 0)
		snprintf(reply->version, sizeof(reply->version), "0.0.1");
	if (strcmp(manner, "nonsense") == 0 && request->operation != HELPER_PING) {
		must(send(HELPER_FD, "nonsense", 8, MSG_NOSIGNAL) == 8);
		return false;
	}
	if (strcmp(manner, "stranger") == 0 && request->operation != HELPER_PING)
		reply->id += 100;
	if (strcmp(manner, "hangs") == 0 && request->operation != HELPER_PING && request->operation != HELPER_CHECK_FORMAT)
		return false;
	if (strcmp(manner, "dies") == 0 && request->operation == HELPER_FORMAT)
		raise(SIGTERM);
	if (request->operation == HELPER_FORMAT)
		usleep(50000);
	return true;
}

void fake_helper_main(int argc, char **argv)
{
	uint8_t frame[HELPER_FRAME_BYTES_MAX];
	const char *manner;

	if (argc != 3 || strcmp(argv[1], "--config") != 0)
		return;
	manner = argv[2];
	must(setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 }) == 0);
	must(clearenv() == 0);
	if (strcmp(manner, "gone") == 0)
		_exit(7);
	for (;;) {
		ssize_t got = recv(HELPER_FD, frame, sizeof(frame), 0);
		struct helper_request request;
		struct helper_reply reply;
		struct fathom_fault why;

		if (got <= 0)
			_exit(0);
		must(helper_decode_request(frame, (size_t)got, &request, &why) == 0);
		reply = (struct helper_reply){ .operation = request.operation, .id = request.id, .version = "1.2.3" };
		if (strncmp(request.device, "/dev/loop", 9) == 0)
			snprintf(reply.signature.label, sizeof(reply.signature.label), "%.8s", request.device + 9);
		if (behave(manner, &request, &reply))
			answer(&reply);
	}
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A client that reads in the moment in which the server sends for the last time before it waits for events: then nothing
 * is unsent any more, and requests that were received before are still to be begun.
 */
#include "rig.h"

enum { REQUESTS = 40, ANSWER_BYTES = 300000 };

static struct {
	int fd;			  /* of the client; -1: it reads nothing meanwhile */
	bool is_reading;	  /* until all is sent */
	size_t refused;		  /* bytes that the server could not send the last time */
	_Atomic(size_t) received; /* by the client meanwhile */
} reading = { .fd = -1 };

ssize_t __real_send(int fd, const void *bytes, size_t count, int flags);
ssize_t __wrap_send(int fd, const void *bytes, size_t count, int flags);

/* The client reads all that there is. */
static void drain(void)
{
	static char bytes[65536];
	ssize_t received;

	while ((received = recv(reading.fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
		reading.received += (size_t)received;
}

/* The second time that the server sends the same bytes is the last one of its turn: then the client reads all of it. */
ssize_t __wrap_send(int fd, const void *bytes, size_t count, int flags)
{
	ssize_t sent = __real_send(fd, bytes, count, flags);

	if (reading.fd < 0 || fd == reading.fd)
		return sent;
	if (sent < 0 && count == reading.refused && count >= RPC_SEND_BYTES_PAUSE)
		reading.is_reading = true;
	if (sent < 0)
		reading.refused = count;
	while (reading.is_reading && sent < 0) {
		drain();
		sent = __real_send(fd, bytes, count, flags);
	}
	if (sent == (ssize_t)count)
		reading.is_reading = false;
	return sent;
}

static void requests_received_before_are_begun_when_all_is_sent(void **state)
{
	static char bytes[65536];
	char questions[REQUESTS * 64] = "", line[64];
	int fd = client();
	size_t total = 0, wanted;

	(void)state;
	for (size_t used = 0, i = 0; i < REQUESTS; i++)
		used += (size_t)snprintf(questions + used, sizeof(questions) - used,
					 "{\"method\":\"big\",\"id\":1,\"params\":{\"bytes\":%d}}", ANSWER_BYTES);
	wanted = REQUESTS * (size_t)(ANSWER_BYTES + snprintf(line, sizeof(line), "%s\n", OK("1", "\"\"")));
	reading.fd = fd;
	send_text(fd, questions); /* all at once: none is left in the socket, where it would cause an event */
	for (int i = 0; i < ANSWER_MS && reading.received == 0; i++)
		(void)poll(NULL, 0, 1);
	while (total + reading.received < wanted) {
		struct pollfd ready = { .fd = fd, .events = POLLIN };
		ssize_t received;

		assert_int_equal(poll(&ready, 1, ANSWER_MS), 1);
		received = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
		if (received > 0)
			total += (size_t)received;
	}
	assert_int_equal(total + reading.received, wanted);
	send_text(fd, "{\"method\":\"nothing\",\"id\":2}");
	expect(fd, OK("2", "true"));
	reading.fd = -1;
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SERVED(requests_received_before_are_begun_when_all_is_sent),
	};

	return cmocka_run_group_tests_name("rpc drained", tests, setup, teardown);
}

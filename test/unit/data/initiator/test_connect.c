/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections to a real target, build/bench/tcp-loop, whose path is the argument: connect, I/O, disconnect. */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "fathom/initiator.h"

static const char *loop_path;
static pid_t loop;
static char port[16];

static int start_loop(void **state)
{
	FILE *output;
	int fds[2];

	if (pipe(fds) != 0)
		return -1;
	loop = fork();
	if (loop < 0)
		return -1;
	if (loop == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(fds[1], STDOUT_FILENO);
		close(fds[0]);
		execl(loop_path, loop_path, "0", (char *)NULL);
		_exit(127);
	}
	close(fds[1]);
	output = fdopen(fds[0], "r");
	if (!output || fscanf(output, "tcp-loop: 127.0.0.1:%15s", port) != 1)
		return -1;
	fclose(output);
	return 0;
}

static int stop_loop(void **state)
{
	kill(loop, SIGTERM);
	return waitpid(loop, NULL, 0) == loop ? 0 : -1;
}

static void init(struct fathom_connect_options *options)
{
	fathom_connect_options_init(options);
	options->address = "127.0.0.1";
	options->service = port;
	options->subnqn = "nqn.2016-06.io.fathom:loop";
	options->io_queues = 3;
}

static void count(void *ctx, const struct fathom_completion *completion)
{
	assert_int_equal(completion->error, 0);
	assert_int_equal(completion->status, 0);
	++*(int *)ctx;
}

static void drive(struct fathom_qpair *qpair, const int *done, int wanted)
{
	while (*done < wanted) {
		assert_true(fathom_qpair_poll(qpair) >= 0);
		if (*done < wanted)
			fathom_qpair_wait(qpair, 1000);
	}
}

static void queue_pairs_of_a_connected_controller_do_io(void **state)
{
	struct fathom_controller *controller;
	struct fathom_connect_options options;
	struct fathom_namespace_info ns;
	struct fathom_qpair *qpairs[4];
	struct fathom_fault why = { 0 };
	static uint8_t data[1 << 20];
	struct iovec small = { data, 4096 }, large = { data, sizeof(data) };
	uint32_t nsids[8];
	size_t nsids_count;

	init(&options);
	assert_int_equal(fathom_connect(&options, &why, &controller), 0);
	assert_string_equal(fathom_controller_info(controller)->model, "tcp-loop");
	assert_int_equal(fathom_controller_info(controller)->cntlid, 1);
	assert_int_equal(fathom_controller_info(controller)->io_queues, 3);
	assert_int_equal(fathom_controller_info(controller)->transfer_bytes_max, 1 << 20);
	assert_int_equal(fathom_namespace_list(controller, 0, &why, nsids, 8, &nsids_count), 0);
	assert_int_equal(nsids_count, 1);
	assert_int_equal(nsids[0], 1);
	assert_int_equal(fathom_namespace_info(controller, 1, &why, &ns), 0);
	assert_int_equal(ns.block_bytes, 512);
	assert_int_equal(ns.blocks, 1 << 21);
	for (int i = 0; i < 3; i++) {
		int done = 0;

		assert_int_equal(fathom_qpair_create(controller, 4000, &why, &qpairs[i]), 0);
		assert_int_equal(fathom_qpair_depth(qpairs[i]), 1023);
		memset(data, 0xff, sizeof(data));
		assert_int_equal(fathom_write(qpairs[i], 1, 0, 8, &small, 1, count, &done), 0);
		assert_int_equal(fathom_write(qpairs[i], 1, 0, 2048, &large, 1, count, &done), 0);
		assert_int_equal(fathom_flush(qpairs[i], 1, count, &done), 0);
		assert_int_equal(fathom_write_zeroes(qpairs[i], 1, 0, 8, true, count, &done), 0);
		drive(qpairs[i], &done, 4);
		assert_int_equal(fathom_read(qpairs[i], 1, 0, 2048, &large, 1, count, &done), 0);
		drive(qpairs[i], &done, 5);
		assert_int_equal(data[0] | data[sizeof(data) - 1], 0);
	}
	assert_int_equal(fathom_qpair_create(controller, 4, &why, &qpairs[3]), -ENOSPC);
	for (int i = 0; i < 3; i++)
		fathom_qpair_destroy(qpairs[i]);
	fathom_disconnect(controller);
}

static void invalid_options_are_refused_with_a_reason(void **state)
{
	char wrapped[16];
	const char *const no_ports[] = { wrapped, "0", "-1", "+1", "", " 1", "65536", "18446744073709551616" };
	struct fathom_controller *controller;
	struct fathom_connect_options options;
	struct fathom_fault why = { 0 };

	init(&options);
	options.subnqn = NULL;
	assert_int_equal(fathom_connect(&options, &why, &controller), -EINVAL);
	assert_int_equal(why.error, -EINVAL);
	assert_true(strlen(why.text) > 0);
	init(&options);
	options.r2ts_max = 0;
	assert_int_equal(fathom_connect(&options, NULL, &controller), -EINVAL);
	init(&options);
	options.header_digest = true; /* tcp-loop does not support digests */
	assert_int_equal(fathom_connect(&options, &why, &controller), -EPROTO);
	assert_non_null(strstr(why.text, "digests"));
	init(&options);
	options.service = "1";
	assert_int_equal(fathom_connect(&options, &why, &controller), -ECONNREFUSED);
	init(&options);
	options.service = "no such service";
	assert_int_equal(fathom_connect(&options, &why, &controller), -EHOSTUNREACH);
	snprintf(wrapped, sizeof(wrapped), "%d", 65536 + atoi(port)); /* modulo 65536 this is a port in use */
	for (size_t i = 0; i < sizeof(no_ports) / sizeof(no_ports[0]); i++) {
		options.service = no_ports[i];
		assert_int_equal(fathom_connect(&options, &why, &controller), -EINVAL);
		assert_non_null(strstr(why.text, "is no port"));
	}
}

/* Programs compiled with a smaller or larger structure than the library's. */
static void options_of_another_size_work(void **state)
{
	struct {
		struct fathom_connect_options options;
		char more[64];
	} large;
	struct fathom_connect_options options;
	struct fathom_controller *controller;
	struct fathom_fault why = { 0 };

	memset(&large, 0xff, sizeof(large));
	fathom_connect_options_init_bytes(&large.options, sizeof(large));
	for (size_t i = 0; i < sizeof(large.more); i++)
		assert_int_equal(large.more[i], 0);
	large.options.address = "127.0.0.1";
	large.options.service = port;
	large.options.subnqn = "nqn.2016-06.io.fathom:loop";
	assert_int_equal(fathom_connect(&large.options, &why, &controller), 0);
	fathom_disconnect(controller);
	/* missing members have their defaults: here all after the names */
	memset(&options, 0xff, sizeof(options));
	fathom_connect_options_init_bytes(&options, offsetof(struct fathom_connect_options, hostid));
	options.address = "127.0.0.1";
	options.service = port;
	options.subnqn = "nqn.2016-06.io.fathom:loop";
	assert_int_equal(options.io_queues, 0xffff);
	assert_int_equal(fathom_connect(&options, &why, &controller), 0);
	assert_int_equal(fathom_controller_info(controller)->io_queues, 16); /* the default */
	fathom_disconnect(controller);
	options.bytes = 0;
	assert_int_equal(fathom_connect(&options, &why, &controller), -EINVAL);
	assert_non_null(strstr(why.text, "fathom_connect_options_init()"));
}

/* ---- ports where no controller listens ---- */

struct waited {
	int calls;
	char what[256];
};

static void on_waiting(void *ctx, const char *what)
{
	struct waited *waited = ctx;

	waited->calls++;
	snprintf(waited->what, sizeof(waited->what), "%s", what);
}

/* Listen on a port that answers `answer` to the first bytes; NULL: closes; "": does not answer. */
static int listen_at(const char *answer, char *service, size_t service_bytes, pid_t *pid_ret)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t address_bytes = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, address_bytes), 0);
	assert_int_equal(listen(fd, 8), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &address_bytes), 0);
	snprintf(service, service_bytes, "%d", ntohs(address.sin_port));
	*pid_ret = fork();
	assert_true(*pid_ret >= 0);
	if (*pid_ret == 0) {
		char request[256];
		int peer;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		peer = accept(fd, NULL, NULL);
		if (answer && *answer && recv(peer, request, sizeof(request), 0) > 0)
			(void)!write(peer, answer, strlen(answer));
		if (answer)
			pause();
		(void)recv(peer, request, sizeof(request), 0); /* without this, closing would reset the connection */
		close(peer);
		_exit(0);
	}
	return fd;
}

static int connect_at(const char *answer, struct fathom_fault *why, struct waited *waited, char *service)
{
	struct fathom_controller *controller;
	struct fathom_connect_options options;
	pid_t pid;
	int error, fd = listen_at(answer, service, 16, &pid);

	init(&options);
	options.service = service;
	options.connect_timeout_ms = 1500;
	options.waiting = on_waiting;
	options.waiting_ctx = waited;
	error = fathom_connect(&options, why, &controller);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	close(fd);
	return error;
}

static void a_silent_port_is_named_while_waiting_and_in_the_error(void **state)
{
	struct fathom_fault why = { 0 };
	struct waited waited = { 0 };
	char service[16], text[256];

	assert_int_equal(connect_at("", &why, &waited, service), -ETIMEDOUT);
	assert_int_equal(waited.calls, 1);
	snprintf(text, sizeof(text), "127.0.0.1 port %s accepted the connection; waiting for ICResp", service);
	assert_string_equal(waited.what, text);
	snprintf(text, sizeof(text),
		 "127.0.0.1 port %s accepted the connection but sent no ICResp within 1.5 s; is it an NVMe/TCP port?",
		 service);
	assert_string_equal(why.text, text);
}

static void a_port_of_another_protocol_is_named(void **state)
{
	struct fathom_fault why = { 0 };
	struct waited waited = { 0 };
	char service[16], text[256];

	assert_int_equal(connect_at("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", &why, &waited, service),
			 -EPROTO);
	assert_int_equal(waited.calls, 0);
	snprintf(text, sizeof(text),
		 "127.0.0.1 port %s accepted the connection, but: it answered with something other than ICResp", service);
	assert_memory_equal(why.text, text, strlen(text));
	assert_non_null(strstr(why.text, "is it an NVMe/TCP port?"));
	assert_int_equal(connect_at(NULL, &why, &waited, service), -ECONNRESET);
	assert_non_null(strstr(why.text, "closed it before ICResp"));
}

static void the_end_of_a_target_is_reported(void **state)
{
	struct fathom_controller *controller;
	struct fathom_connect_options options;
	struct fathom_qpair *qpair;
	int error;

	init(&options);
	assert_int_equal(fathom_connect(&options, NULL, &controller), 0);
	assert_int_equal(fathom_qpair_create(controller, 4, NULL, &qpair), 0);
	assert_int_equal(stop_loop(state), 0);
	do {
		fathom_qpair_wait(qpair, 1000);
		error = fathom_qpair_poll(qpair);
	} while (error >= 0);
	assert_int_equal(error, -ECONNRESET);
	assert_int_equal(fathom_qpair_fault(qpair)->error, error);
	do
		error = fathom_controller_poll(controller);
	while (error >= 0);
	fathom_qpair_destroy(qpair);
	fathom_disconnect(controller);
	assert_int_equal(start_loop(state), 0);
}

/* ---- a stopped target ---- */

/* Its sockets stay open without any data: without its own time-out a keep alive command would never end. */
static void a_stopped_target_is_detected_by_keep_alive(void **state)
{
	struct fathom_controller *controller;
	struct fathom_connect_options options;
	struct fathom_qpair *qpair;
	int error;

	init(&options);
	options.keep_alive_ms = 400;
	options.command_timeout_ms = 0;
	assert_int_equal(fathom_connect(&options, NULL, &controller), 0);
	assert_int_equal(fathom_qpair_create(controller, 4, NULL, &qpair), 0);
	/* while the target answers, the connection stays, however rarely it is polled */
	for (int i = 0; i < 6; i++) {
		assert_int_equal(fathom_controller_poll(controller), 0);
		usleep(i == 3 ? 600000 : 150000);
	}
	assert_int_equal(fathom_controller_poll(controller), 0);
	assert_int_equal(kill(loop, SIGSTOP), 0);
	do {
		usleep(10000);
		error = fathom_controller_poll(controller);
	} while (error == 0); /* without the time-out this loop would not end */
	assert_int_equal(error, -ETIMEDOUT);
	assert_non_null(strstr(fathom_qpair_fault(fathom_controller_admin(controller))->text, "keep alive"));
	assert_int_equal(kill(loop, SIGCONT), 0);
	fathom_qpair_destroy(qpair);
	fathom_disconnect(controller);
}

/* ---- without waiting ---- */

static void wait_readable(int fd)
{
	struct pollfd item = { .fd = fd, .events = POLLIN };

	assert_int_equal(poll(&item, 1, 60000), 1);
}

static void connecting_does_not_block(void **state)
{
	struct fathom_controller *controller = NULL;
	struct fathom_connect_options options;
	struct fathom_connecting *connecting;
	char address[16] = "127.0.0.1";
	struct fathom_fault why = { 0 };

	init(&options);
	options.address = address;
	/* the target is stopped, so connecting stays in progress */
	assert_int_equal(kill(loop, SIGSTOP), 0);
	assert_int_equal(fathom_connect_begin(&options, &why, &connecting), 0);
	memset(address, 'x', sizeof(address) - 1); /* the address was copied */
	assert_int_equal(fathom_connect_finish(connecting, &why, &controller), -EINPROGRESS);
	assert_int_equal(kill(loop, SIGCONT), 0);
	wait_readable(fathom_connecting_fd(connecting));
	assert_int_equal(fathom_connect_finish(connecting, &why, &controller), 0);
	assert_string_equal(fathom_controller_info(controller)->model, "tcp-loop");
	fathom_disconnect(controller);
	/* a failure is reported the same way, invalid options at once */
	init(&options);
	options.service = "1";
	assert_int_equal(fathom_connect_begin(&options, &why, &connecting), 0);
	wait_readable(fathom_connecting_fd(connecting));
	assert_int_equal(fathom_connect_finish(connecting, &why, &controller), -ECONNREFUSED);
	assert_non_null(strstr(why.text, "connecting to 127.0.0.1 port 1"));
	options.service = "0";
	assert_int_equal(fathom_connect_begin(&options, &why, &connecting), -EINVAL);
}

static void cancelling_a_connect_does_not_block(void **state)
{
	struct fathom_connect_options options;
	struct fathom_connecting *connecting;

	init(&options);
	assert_int_equal(kill(loop, SIGSTOP), 0);
	assert_int_equal(fathom_connect_begin(&options, NULL, &connecting), 0);
	fathom_connect_cancel(connecting); /* the thread still works on it */
	assert_int_equal(kill(loop, SIGCONT), 0);
	assert_int_equal(fathom_connect_begin(&options, NULL, &connecting), 0);
	wait_readable(fathom_connecting_fd(connecting));
	fathom_connect_cancel(connecting); /* it has a controller already */
	fathom_connect_cancel(NULL);
}

static int reconnect_until_done(struct fathom_reconnect *reconnect, struct fathom_fault *why,
				struct fathom_controller **controller)
{
	int error;

	while ((error = fathom_reconnect_poll(reconnect, why, controller)) == -EINPROGRESS) {
		struct pollfd item = { .fd = fathom_reconnect_fd(reconnect), .events = POLLIN };
		int timeout_ms = fathom_reconnect_timeout_ms(reconnect);

		assert_true(item.fd >= 0 || timeout_ms >= 0);
		(void)poll(&item, 1, timeout_ms);
	}
	return error;
}

static void a_lost_controller_is_connected_again_as_the_same_host(void **state)
{
	struct fathom_reconnect_options how;
	struct fathom_connect_options options;
	struct fathom_controller *controller = NULL;
	struct fathom_reconnect *reconnect;
	struct fathom_fault why = { 0 };
	char hostnqn[FATHOM_NQN_BYTES], before[16];

	init(&options);
	fathom_reconnect_options_init(&how);
	how.delay_min_ms = 1;
	how.delay_max_ms = 4;
	how.attempts_max = 5;
	memcpy(before, port, sizeof(before));
	assert_int_equal(fathom_reconnect_create(&options, &how, &why, &reconnect), 0);
	assert_int_equal(reconnect_until_done(reconnect, &why, &controller), 0);
	memcpy(hostnqn, fathom_controller_info(controller)->hostnqn, sizeof(hostnqn));
	fathom_disconnect(controller);
	assert_int_equal(reconnect_until_done(reconnect, &why, &controller), 0);
	assert_string_equal(fathom_controller_info(controller)->hostnqn, hostnqn);
	fathom_disconnect(controller);
	/* the target ends: after the last attempt the reason is reported */
	assert_int_equal(stop_loop(state), 0);
	assert_int_equal(reconnect_until_done(reconnect, &why, &controller), -ECONNREFUSED);
	assert_non_null(strstr(why.text, before));
	/* destroyed while an attempt is in progress or waits */
	(void)!fathom_reconnect_poll(reconnect, &why, &controller); /* starts an attempt */
	fathom_reconnect_destroy(reconnect);
	how.delay_max_ms = 0;
	assert_int_equal(fathom_reconnect_create(&options, &how, &why, &reconnect), -EINVAL);
	assert_int_equal(start_loop(state), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(queue_pairs_of_a_connected_controller_do_io),
		cmocka_unit_test(invalid_options_are_refused_with_a_reason),
		cmocka_unit_test(options_of_another_size_work),
		cmocka_unit_test(a_silent_port_is_named_while_waiting_and_in_the_error),
		cmocka_unit_test(a_port_of_another_protocol_is_named),
		cmocka_unit_test(the_end_of_a_target_is_reported),
		cmocka_unit_test(a_stopped_target_is_detected_by_keep_alive),
		cmocka_unit_test(connecting_does_not_block),
		cmocka_unit_test(cancelling_a_connect_does_not_block),
		cmocka_unit_test(a_lost_controller_is_connected_again_as_the_same_host),
	};

	if (argc != 2) {
		fprintf(stderr, "usage: connect_test TCP_LOOP\n");
		return 2;
	}
	loop_path = argv[1];
	return cmocka_run_group_tests(tests, start_loop, stop_loop);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Connecting for real, to build/bench/tcp-loop, whose path is the argument: the whole way up, I/O, the whole way down. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
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

static void a_controller_comes_up_and_its_queue_pairs_work(void **state)
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

static void bad_options_are_explained(void **state)
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
	options.header_digest = true; /* tcp-loop knows none */
	assert_int_equal(fathom_connect(&options, &why, &controller), -EPROTO);
	assert_non_null(strstr(why.text, "digests"));
	init(&options);
	options.service = "1";
	assert_int_equal(fathom_connect(&options, &why, &controller), -ECONNREFUSED);
	init(&options);
	options.service = "no such service";
	assert_int_equal(fathom_connect(&options, &why, &controller), -EHOSTUNREACH);
	snprintf(wrapped, sizeof(wrapped), "%d", 65536 + atoi(port)); /* modulo 65536 somebody listens there */
	for (size_t i = 0; i < sizeof(no_ports) / sizeof(no_ports[0]); i++) {
		options.service = no_ports[i];
		assert_int_equal(fathom_connect(&options, &why, &controller), -EINVAL);
		assert_non_null(strstr(why.text, "is no port"));
	}
}

static void a_target_that_dies_is_told(void **state)
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

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_controller_comes_up_and_its_queue_pairs_work),
		cmocka_unit_test(bad_options_are_explained),
		cmocka_unit_test(a_target_that_dies_is_told),
	};

	if (argc != 2) {
		fprintf(stderr, "usage: connect_test TCP_LOOP\n");
		return 2;
	}
	loop_path = argv[1];
	return cmocka_run_group_tests(tests, start_loop, stop_loop);
}

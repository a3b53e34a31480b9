/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An archive of a host's logs is received and written. The first, second, third ... call on a file fails, until a run meets
 * no failure; each write writes half of its bytes. The file must be the old one or the new one, complete. No incomplete
 * file may be left. The error must be a fault with a resolution.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after those four */
#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "control/fault/fault.h"
#include "failing.h"
#include "fathom/control.h"
#include "rpc/proto/fathom.pb-c.h"

#include "host.h"

enum { PIECE_BYTES = 10000, ARCHIVE_BYTES = 3 * PIECE_BYTES + 1, RUNS_MAX = 1000 };

#define OLD "what was collected before"

static uint8_t archive[ARCHIVE_BYTES];

/* ---- a host, in a child process ---- */

static void collect(struct grpc_call *call, const ProtobufCMessage *message)
{
	const Fathom__CollectLogReq *request = (const Fathom__CollectLogReq *)message;
	Fathom__CollectLogResp answer = FATHOM__COLLECT_LOG_RESP__INIT;
	size_t left = ARCHIVE_BYTES - request->offset;

	must(request->offset < ARCHIVE_BYTES);
	answer.id = (char *)"collected";
	answer.name = (char *)"logs.tar.zst";
	answer.total_bytes = ARCHIVE_BYTES;
	answer.piece.data = archive + request->offset;
	answer.piece.len = left < PIECE_BYTES ? left : PIECE_BYTES;
	grpc_reply(call, &answer.base);
}

static const struct grpc_method methods[] = { { "/fathom.ControlSvc/CollectLog", &fathom__collect_log_req__descriptor,
						&fathom__collect_log_resp__descriptor, 0, collect } };
/* ---- the client ---- */

static pid_t host;
static char folder[] = "/tmp/fathom-collect-XXXXXX", path[96], address[32];
static struct fathom_control *control;

static int setup(void **state)
{
	struct fathom_control_options options = { .config = "/dev/null", .hosts = address, .insecure = true };
	struct fathom_fault why;
	uint16_t port;

	for (size_t i = 0; i < ARCHIVE_BYTES; i++)
		archive[i] = (uint8_t)(i % 251);
	if (!mkdtemp(folder))
		return -1;
	host = host_begin(methods, ARRAY_COUNT(methods), &port);
	snprintf(address, sizeof(address), "127.0.0.1:%u", port);
	snprintf(path, sizeof(path), "%s/127.0.0.1_%u-logs.tar.zst", folder, port);
	return fathom_control_open(&options, &control, &why);
}

static int teardown(void **state)
{
	fathom_control_close(control);
	host_end(host);
	unlink(path);
	return rmdir(folder);
}

static void put_old(void)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, OLD, strlen(OLD)), strlen(OLD));
	close(fd);
}

static bool file_has(const void *bytes, size_t count)
{
	static uint8_t back[ARCHIVE_BYTES + 1];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = read(fd, back, sizeof(back));

	close(fd);
	return got == (ssize_t)count && memcmp(back, bytes, count) == 0;
}

static int count_files(void)
{
	DIR *entries = opendir(folder);
	struct dirent *entry;
	int count = 0;

	assert_non_null(entries);
	while ((entry = readdir(entries)))
		count += entry->d_name[0] != '.';
	closedir(entries);
	return count;
}

/* Return true if the archive was received. */
static bool fetch(uint32_t n, bool *failed_ret)
{
	const struct fathom_control_collection what = { .folder = folder };
	struct fathom_control_answers *answers = NULL;
	struct fathom_fault why = { 0 };
	bool is_there;
	int error;

	failing_begin_files(n);
	error = fathom_control_collect_log(control, &what, &answers, &why);
	*failed_ret = failing_end();
	is_there = error == 0 && answers->count == 1;
	if (error == 0 && answers->error_count == 1)
		why = answers->errors[0].why;
	if (!is_there && (why.code != FAULT_LOG_UNWRITTEN || why.resolution[0] == '\0'))
		fail_msg("call %u: %s", n, why.text);
	if (error == 0)
		fathom_control_free(answers);
	return is_there;
}

static void after_a_failed_call_the_old_or_the_new_archive_is_complete(void **state)
{
	uint32_t n, refused = 0;
	bool failed = true;

	for (n = 1; failed; n++) {
		bool is_there;

		assert_true(n < RUNS_MAX);
		put_old();
		is_there = fetch(n, &failed);
		assert_true(is_there || failed);
		refused += !is_there;
		if (!file_has(archive, ARCHIVE_BYTES) && (is_there || !file_has(OLD, strlen(OLD))))
			fail_msg("call %u: the file is neither the old nor the new archive", n);
		if (count_files() != 1)
			fail_msg("call %u: another file is left", n);
	}
	printf("# %u calls, %u collections failed\n", n - 2, refused);
	assert_true(refused > 40);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(after_a_failed_call_the_old_or_the_new_archive_is_complete) };

	return cmocka_run_group_tests_name("control client collect failing", tests, setup, teardown);
}

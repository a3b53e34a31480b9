/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Logs of a host are collected. The first, second, third ... call of the collecting thread fails, until a run meets no
 * failure. The archive must be complete, with the reason in place of a file that could not be read, or the error must be a
 * fault with a resolution. The next collection must succeed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after those four */
#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "base/clock.h"
#include "control/fault/fault.h"
#include "control/network/network.h"
#include "control/server/collection/internal.h"
#include "control/storage/storage.h"
#include "control/status/status.h"
#include "fake.h"
#include "rpc/proto/fathom.pb-c.h"

#include "../../../control_thread.h"
#include "../../../failing_calls.h"

enum { RUNS_MAX = 5000, BLOCK_BYTES = 512, NAMES = 5, PLAIN_BYTES_MAX = 1 << 20 };

/* ---- calls that fail ---- */

static struct failing_calls failing;
static pthread_t test_pthread;

static bool fails(void)
{
	return !pthread_equal(pthread_self(), control_pthread) && !pthread_equal(pthread_self(), test_pthread) &&
	       failing_calls_next(&failing);
}

FAILING_CALL(malloc)
FAILING_CALL(calloc)
FAILING_CALL(realloc)
FAILING_CALL(open_memstream)
FAILING_CALL(fwrite)
FAILING_CALL(open64)
FAILING_CALL(fstat64)
FAILING_CALL(pread64)
FAILING_CALL(fdopen)
/* optimised builds call getline() by another name */
FAILING_CALL(getline)
FAILING_CALL(__getdelim)
FAILING_CALL(scandir64)
WRAP(size_t, ZSTD_compress, (void *to, size_t room, const void *from, size_t bytes, int level),
     (to, room, from, bytes, level), 0, (size_t)-1)

/* The file is closed also if the call fails. */
int __real_fclose(FILE *file);
int __wrap_fclose(FILE *file);
int __wrap_fclose(FILE *file)
{
	int result = __real_fclose(file);

	return fails() ? EOF : result;
}

/* Scans fail as a whole: their own tests fail the calls inside them. */
int __real_storage_scan(struct provider *os, const struct storage_scan_options *how, struct storage_scan *scan_ret,
			struct fathom_fault *why);
int __wrap_storage_scan(struct provider *os, const struct storage_scan_options *how, struct storage_scan *scan_ret,
			struct fathom_fault *why);
int __wrap_storage_scan(struct provider *os, const struct storage_scan_options *how, struct storage_scan *scan_ret,
			struct fathom_fault *why)
{
	int error;

	if (fails())
		return fault(why, -EMFILE, "the scan failed");
	failing_spared++;
	error = __real_storage_scan(os, how, scan_ret, why);
	failing_spared--;
	return error;
}

int __real_network_scan(struct provider *os, struct network_scan *scan_ret, struct fathom_fault *why);
int __wrap_network_scan(struct provider *os, struct network_scan *scan_ret, struct fathom_fault *why);
int __wrap_network_scan(struct provider *os, struct network_scan *scan_ret, struct fathom_fault *why)
{
	int error;

	if (fails())
		return fault(why, -EMFILE, "the scan failed");
	failing_spared++;
	error = __real_network_scan(os, scan_ret, why);
	failing_spared--;
	return error;
}

/* These end the program when out of memory, by contract. */
SPARED_CALL(thread_send_msg)
SPARED_CALL(fathom_trace_intern)

/* ---- a server with only this method ---- */

static struct fake fake;
static char folder[] = "/tmp/fathom-collect-XXXXXX", config_path[64], log_path[64], extra[64], extra_path[80];
static struct server_config config;
static struct server_options options = { .version = "1" };
static struct server_places places;
static struct server server;
static struct grpc_server *listening;
static struct grpc_client *client;

static struct {
	bool by_time;
	sem_t done;
	struct fathom_fault why;
	uint8_t *packed;
	size_t packed_bytes;
} asked;

static const struct grpc_method methods[] = { { "/fathom.ControlSvc/CollectLog", &fathom__collect_log_req__descriptor,
						&fathom__collect_log_resp__descriptor, 0, call_collect_log } };

static int open_both(void *unused)
{
	const struct grpc_server_options there = {
		.address = "127.0.0.1:0", .methods = methods, .method_count = 1, .ctx = &server
	};
	const struct grpc_client_options here = { .role = GRPC_ROLE_ADMIN };
	int error = grpc_server_open(&there, &listening, NULL);

	return error ? error : grpc_client_create(&here, &client, NULL);
}

static int close_both(void *unused)
{
	grpc_client_destroy(client);
	grpc_server_close(listening);
	collection_free(server.collection);
	return 0;
}

static void put(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	must(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

static int setup(void **state)
{
	const struct reactor_options none = { .simulated = false };

	fake_begin(&fake);
	fake_device(&fake, "sda", "pci0000:00/ata1/block/sda", 8, 0, 4096);
	if (!mkdtemp(folder))
		return -1;
	snprintf(config_path, sizeof(config_path), "%s/server.yml", folder);
	snprintf(log_path, sizeof(log_path), "%s/server.log", folder);
	snprintf(extra, sizeof(extra), "%s/extra", folder);
	snprintf(extra_path, sizeof(extra_path), "%s/file", extra);
	must(mkdir(extra, 0700) == 0);
	put(config_path, "name: one\n");
	put(log_path, "[2026-11-23 04:45:33.200048] NOTICE: it began\n[2026-11-23 04:46:33.200048] NOTICE: it ended\n");
	put(extra_path, "[2026-11-23 04:45:33.200048] another program\n");
	config.name = (char *)"one";
	config.state_dir = folder;
	config.log_file = log_path;
	options.config_path = config_path;
	server = (struct server){
		.state = SERVER_READY, .config = &config, .options = &options, .places = &places, .os = &fake.provider
	};
	test_pthread = pthread_self();
	control_start(&none);
	return on_control(open_both, NULL);
}

static int teardown(void **state)
{
	on_control(close_both, NULL);
	control_stop();
	fake_end(&fake);
	unlink(extra_path);
	rmdir(extra);
	unlink(log_path);
	unlink(config_path);
	return rmdir(folder);
}

/* ---- one collection ---- */

static void answered(void *ctx, const struct grpc_result *result)
{
	const Fathom__CollectLogResp *answer = (const Fathom__CollectLogResp *)result->response;

	failing.armed = false;
	asked.why = (struct fathom_fault){ 0 };
	if (result->code != GRPC_OK) {
		fault_from_result(result, "here", &asked.why);
	} else {
		must(answer->piece.len == answer->total_bytes);
		asked.packed_bytes = answer->piece.len;
		asked.packed = malloc(answer->piece.len);
		must(asked.packed);
		memcpy(asked.packed, answer->piece.data, answer->piece.len);
	}
	sem_post(&asked.done);
}

static int ask(void *unused)
{
	Fathom__CollectLogReq request = FATHOM__COLLECT_LOG_REQ__INIT;
	char address[32];

	snprintf(address, sizeof(address), "127.0.0.1:%u", grpc_server_port(listening));
	request.extra_folder = extra;
	request.from_s = asked.by_time;
	return grpc_client_call(client, &(struct grpc_request){
						.address = address,
						.path = "/fathom.ControlSvc/CollectLog",
						.message = &request.base,
						.response = &fathom__collect_log_resp__descriptor,
						.timeout_ns = 20 * NS_PER_SEC,
						.done = answered,
					});
}

/* The content of the file with this name in the archive; NULL: missing or incomplete. */
static char *content(const uint8_t *plain, size_t bytes, const char *name)
{
	for (size_t at = 0; at + BLOCK_BYTES <= bytes && plain[at];) {
		const char *slash = strchr((const char *)plain + at, '/');
		size_t size = strtoul((const char *)plain + at + 124, NULL, 8);

		if (at + BLOCK_BYTES + size + 2 * BLOCK_BYTES > bytes)
			return NULL;
		if (slash && strcmp(slash + 1, name) == 0)
			return strndup((const char *)plain + at + BLOCK_BYTES, size);
		at += BLOCK_BYTES + (size + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
	}
	return NULL;
}

/* Assert that the archive has each file: its content, or the reason why it cannot be read. */
static void assert_whole(uint32_t n)
{
	static uint8_t plain[PLAIN_BYTES_MAX];
	static const struct {
		const char *name, *begins, *place;
	} files[NAMES] = {
		{ "server.yml", "name: one\n", config_path },	      { "server.log", "[2026-11-23 04:45:33", log_path },
		{ "engines.txt", "fathom-server 1, ", NULL },	      { "devices.txt", "/dev/sda ", "the scan failed" },
		{ "extra/file", "[2026-11-23 04:45:33", extra_path },
	};
	size_t bytes = ZSTD_decompress(plain, sizeof(plain), asked.packed, asked.packed_bytes);

	assert_false(ZSTD_isError(bytes));
	assert_int_equal(bytes % BLOCK_BYTES, 0);
	for (size_t i = 0; i < NAMES; i++) {
		char *text = content(plain, bytes, files[i].name);
		bool is_told = text && files[i].place && strncmp(text, files[i].place, strlen(files[i].place)) == 0;

		if (!text && strncmp(files[i].name, "extra/", 6) == 0) { /* missing, because its folder could not be read */
			text = content(plain, bytes, "extra");
			is_told = text && strncmp(text, extra, strlen(extra)) == 0;
		}
		if (!is_told && (!text || strncmp(text, files[i].begins, strlen(files[i].begins)) != 0))
			fail_msg("call %u: %s is \"%s\"", n, files[i].name, text ? text : "(not there)");
		if (i == 1 && !is_told && !strstr(text, "it ended\n"))
			fail_msg("call %u: the log is incomplete without a reason", n);
		free(text);
	}
}

/* Return true if a call has failed. */
static bool run_with_failure(uint32_t fail_at)
{
	bool is_there;

	sem_init(&asked.done, 0, 0);
	failing.count = 0;
	failing.met = false;
	failing.fail_at = fail_at;
	failing.armed = true;
	must(on_control(ask, NULL) == 0);
	while (sem_wait(&asked.done))
		;
	is_there = asked.packed != NULL;
	if (is_there)
		assert_whole(fail_at);
	else if (asked.why.code != FAULT_COLLECT_FAILED || asked.why.resolution[0] == '\0')
		fail_msg("call %u: %s", fail_at, asked.why.text);
	assert_true(is_there || failing.met);
	free(asked.packed);
	asked.packed = NULL;
	return failing.met;
}

static void a_failed_call_is_noted_in_the_archive_or_is_a_fault(void **state)
{
	for (int by_time = 0; by_time < 2; by_time++) {
		uint32_t n;

		asked.by_time = by_time;
		assert_false(run_with_failure(0));
		for (n = 1; run_with_failure(n); n++) {
			assert_true(n < RUNS_MAX);
			assert_false(run_with_failure(0));
		}
		printf("# %u calls failed, one at a time\n", n - 1);
		assert_true(n > 40);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(a_failed_call_is_noted_in_the_archive_or_is_a_fault) };

	return cmocka_run_group_tests_name("server collect failing", tests, setup, teardown);
}

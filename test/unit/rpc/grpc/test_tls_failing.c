/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The first, second, third ... external call fails, until a run meets no failure: system calls, calls of OpenSSL and
 * nghttp2, our allocations; then allocations of nghttp2; then those of OpenSSL, only each OPENSSL_STEP-th, for it makes
 * very many. In each run a server and a client read certificates, a call is made over TLS, the server reloads its
 * certificates as on SIGHUP, and the client's connection is closed in order. In each run each step must end once, with
 * success or an error with a reason; the server must serve the next client; no descriptor and no allocation of OpenSSL may
 * be left.
 *
 * The linker redirects the calls to this file (meson.build). Not redirected are calls that cannot fail here (BIO_read()
 * from memory, user data of an existing stream), and calls that end the program when out of memory, by contract: messages
 * and interned names.
 */
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
/* after those */
#include <cmocka.h>
#include <nghttp2/nghttp2.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/clock.h"
#include "fathom/trace/trace.h"
#include "rpc/grpc/tls.h"

#include "../../control_thread.h"
#include "../../failing_calls.h"
#include "echo.h"

enum { OPENSSL_STEP = 211, RUNS_MAX = 100000, CALL_MS = 9000, SHORT_MS = 3000 };

/* ---- calls that fail ---- */

enum what { CALLS, NGHTTP2_MEMORY, OPENSSL_MEMORY };

static struct failing_calls failing;
static enum what failing_what; /* the kind of calls that fail */
static bool any_version;       /* the minimum version of TLS could not be set */

static int64_t held; /* allocations of OpenSSL that are not freed */

static bool fails_of(enum what what)
{
	return failing_what == what && pthread_equal(pthread_self(), control_pthread) && failing_calls_next(&failing);
}

static bool fails(void)
{
	return fails_of(CALLS);
}

FAILING_CALL(malloc)
FAILING_CALL(calloc)
FAILING_CALL(realloc)
FAILING_CALL(aligned_alloc)
FAILING_CALL(strdup)
/* EACCES: a certificate that this user may not read */
WRAP(int, stat64, (const char *path, struct stat *to), (path, to), EACCES, -1)
FAILING_CALL(socket)
FAILING_CALL(bind)
FAILING_CALL(listen)
FAILING_CALL(connect)
FAILING_CALL(accept4)
FAILING_CALL(getsockopt)
FAILING_CALL(setsockopt)
FAILING_CALL(recv)
FAILING_CALL(send)
FAILING_CALL(fd_watch_add)

/* OpenSSL reports errors in its own queue. */
static bool fails_in_openssl(void)
{
	if (!fails())
		return false;
	ERR_raise(ERR_LIB_SSL, ERR_R_MALLOC_FAILURE);
	return true;
}

#define WRAP_SSL(type, name, parameters, arguments, failed)                                                                \
	type __real_##name parameters;                                                                                     \
	type __wrap_##name parameters;                                                                                     \
	type __wrap_##name parameters                                                                                      \
	{                                                                                                                  \
		return fails_in_openssl() ? failed : __real_##name arguments;                                              \
	}

WRAP_SSL(SSL_CTX *, SSL_CTX_new, (const SSL_METHOD *method), (method), NULL)
WRAP_SSL(int, SSL_CTX_load_verify_locations, (SSL_CTX * ctx, const char *file, const char *folder), (ctx, file, folder), 0)
WRAP_SSL(int, SSL_CTX_use_certificate_chain_file, (SSL_CTX * ctx, const char *file), (ctx, file), 0)
WRAP_SSL(int, SSL_CTX_use_PrivateKey_file, (SSL_CTX * ctx, const char *file, int type), (ctx, file, type), 0)
WRAP_SSL(int, SSL_CTX_check_private_key, (const SSL_CTX *ctx), (ctx), 0)
WRAP_SSL(int, SSL_CTX_set_cipher_list, (SSL_CTX * ctx, const char *list), (ctx, list), 0)
WRAP_SSL(int, SSL_CTX_set_alpn_protos, (SSL_CTX * ctx, const unsigned char *list, unsigned int bytes), (ctx, list, bytes),
	 1)
WRAP_SSL(SSL *, SSL_new, (SSL_CTX * ctx), (ctx), NULL)
WRAP_SSL(BIO *, BIO_new, (const BIO_METHOD *method), (method), NULL)
WRAP_SSL(int, BIO_write, (BIO * bio, const void *data, int bytes), (bio, data, bytes), -1)
WRAP_SSL(int, SSL_do_handshake, (SSL * ssl), (ssl), -1)
WRAP_SSL(int, SSL_read, (SSL * ssl, void *data, int room), (ssl, data, room), -1)
WRAP_SSL(int, SSL_write, (SSL * ssl, const void *data, int bytes), (ssl, data, bytes), -1)
WRAP_SSL(X509 *, SSL_get1_peer_certificate, (const SSL *ssl), (ssl), NULL)
WRAP_SSL(int, X509_NAME_get_text_by_NID, (const X509_NAME *name, int nid, char *to, int room), (name, nid, to, room), -1)

/* Only one of its commands can fail. */
long __real_SSL_CTX_ctrl(SSL_CTX *ctx, int command, long number, void *data);
long __wrap_SSL_CTX_ctrl(SSL_CTX *ctx, int command, long number, void *data);
long __wrap_SSL_CTX_ctrl(SSL_CTX *ctx, int command, long number, void *data)
{
	if (command != SSL_CTRL_SET_MIN_PROTO_VERSION || !fails_in_openssl())
		return __real_SSL_CTX_ctrl(ctx, command, number, data);
	any_version = true;
	return 0;
}

WRAP(int, nghttp2_session_callbacks_new, (nghttp2_session_callbacks * *callbacks), (callbacks), 0, NGHTTP2_ERR_NOMEM)
WRAP(int, nghttp2_submit_settings,
     (nghttp2_session * session, uint8_t flags, const nghttp2_settings_entry *entries, size_t count),
     (session, flags, entries, count), 0, NGHTTP2_ERR_NOMEM)
WRAP(int, nghttp2_session_set_local_window_size, (nghttp2_session * session, uint8_t flags, int32_t stream, int32_t bytes),
     (session, flags, stream, bytes), 0, NGHTTP2_ERR_NOMEM)
WRAP(int32_t, nghttp2_submit_request,
     (nghttp2_session * session, const nghttp2_priority_spec *priority, const nghttp2_nv *headers, size_t count,
      const nghttp2_data_provider *provider, void *ctx),
     (session, priority, headers, count, provider, ctx), 0, NGHTTP2_ERR_NOMEM)
WRAP(int, nghttp2_submit_response,
     (nghttp2_session * session, int32_t stream, const nghttp2_nv *headers, size_t count,
      const nghttp2_data_provider *provider),
     (session, stream, headers, count, provider), 0, NGHTTP2_ERR_NOMEM)
WRAP(int, nghttp2_submit_trailer, (nghttp2_session * session, int32_t stream, const nghttp2_nv *headers, size_t count),
     (session, stream, headers, count), 0, NGHTTP2_ERR_NOMEM)
WRAP(int, nghttp2_submit_rst_stream, (nghttp2_session * session, uint8_t flags, int32_t stream, uint32_t error),
     (session, flags, stream, error), 0, NGHTTP2_ERR_NOMEM)
WRAP(int, nghttp2_submit_goaway,
     (nghttp2_session * session, uint8_t flags, int32_t last, uint32_t error, const uint8_t *data, size_t bytes),
     (session, flags, last, error, data, bytes), 0, NGHTTP2_ERR_NOMEM)
WRAP(ssize_t, nghttp2_session_mem_send, (nghttp2_session * session, const uint8_t **data), (session, data), 0,
     NGHTTP2_ERR_NOMEM)
WRAP(ssize_t, nghttp2_session_mem_recv, (nghttp2_session * session, const uint8_t *data, size_t bytes),
     (session, data, bytes), 0, NGHTTP2_ERR_NOMEM)

/* ---- allocations of libraries ---- */

static void *nghttp2_allocate(size_t bytes, void *unused)
{
	return fails_of(NGHTTP2_MEMORY) ? NULL : __real_malloc(bytes);
}

static void *nghttp2_allocate_zeroed(size_t count, size_t bytes, void *unused)
{
	return fails_of(NGHTTP2_MEMORY) ? NULL : __real_calloc(count, bytes);
}

static void *nghttp2_reallocate(void *block, size_t bytes, void *unused)
{
	return fails_of(NGHTTP2_MEMORY) ? NULL : __real_realloc(block, bytes);
}

static void nghttp2_release(void *block, void *unused)
{
	free(block);
}

static nghttp2_mem nghttp2_memory = { .malloc = nghttp2_allocate,
				      .free = nghttp2_release,
				      .calloc = nghttp2_allocate_zeroed,
				      .realloc = nghttp2_reallocate };

#define WRAP_SESSION(side)                                                                                                 \
	int __wrap_nghttp2_session_##side##_new(nghttp2_session **session_ret, const nghttp2_session_callbacks *callbacks, \
						void *ctx);                                                                \
	int __wrap_nghttp2_session_##side##_new(nghttp2_session **session_ret, const nghttp2_session_callbacks *callbacks, \
						void *ctx)                                                                 \
	{                                                                                                                  \
		if (fails())                                                                                               \
			return NGHTTP2_ERR_NOMEM;                                                                          \
		return nghttp2_session_##side##_new3(session_ret, callbacks, ctx, NULL, &nghttp2_memory);                  \
	}

WRAP_SESSION(client)
WRAP_SESSION(server)

static void *openssl_allocate(size_t bytes, const char *file, int line)
{
	void *block = fails_of(OPENSSL_MEMORY) ? NULL : __real_malloc(bytes);

	__atomic_fetch_add(&held, block != NULL, __ATOMIC_RELAXED);
	return block;
}

static void openssl_free(void *block, const char *file, int line)
{
	__atomic_fetch_sub(&held, block != NULL, __ATOMIC_RELAXED);
	free(block);
}

static void *openssl_reallocate(void *block, size_t bytes, const char *file, int line)
{
	if (!block)
		return openssl_allocate(bytes, file, line);
	if (bytes == 0) {
		openssl_free(block, file, line);
		return NULL;
	}
	return fails_of(OPENSSL_MEMORY) ? NULL : __real_realloc(block, bytes);
}

/* Calls that cannot fail or that end the program. */
SPARED_CALL(thread_send_msg)
SPARED_CALL(fathom_trace_intern)

/* ---- one run ---- */

static char folder[] = "/tmp/fathom-tls-failing-XXXXXX";
static char ca[64], server_files[2][64], admin_files[2][64];

static struct {
	struct grpc_tls *server_tls, *client_tls;
	struct grpc_server *server;
	struct grpc_client *client;
	char address[32];
	int done_count;
	bool answered;
	char text[GRPC_TEXT_BYTES_MAX]; /* the reason of a failure */
	struct fathom_fault why;
	sem_t done;
} run;

static void call_done(void *ctx, const struct grpc_result *result)
{
	run.done_count++;
	run.answered = result->code == GRPC_OK;
	snprintf(run.text, sizeof(run.text), "%s", result->message);
	sem_post(&run.done);
}

static int make_client(void)
{
	const struct grpc_tls_options files = { .ca = ca, .certificate = admin_files[0], .key = admin_files[1] };
	struct grpc_client_options here = { .role = GRPC_ROLE_ADMIN,
					    .version = "1",
					    .connect_timeout_ns = SHORT_MS * NS_PER_MS };
	int error = grpc_tls_create(&files, &run.client_tls, &run.why);

	here.tls = run.client_tls;
	return error ? error : grpc_client_create(&here, &run.client, &run.why);
}

static int call(void)
{
	Google__Rpc__Status request = GOOGLE__RPC__STATUS__INIT;

	request.code = 5;
	return grpc_client_call(run.client, &(struct grpc_request){
						    .address = run.address,
						    .path = "/test.Echo/Admin",
						    .message = &request.base,
						    .response = &google__rpc__status__descriptor,
						    .timeout_ns = CALL_MS * NS_PER_MS,
						    .done = call_done,
					    });
}

static int start(void *unused)
{
	const struct grpc_tls_options files = { .ca = ca, .certificate = server_files[0], .key = server_files[1] };
	struct grpc_server_options there = { .address = "127.0.0.1:0",
					     .methods = echo_methods,
					     .method_count = ARRAY_COUNT(echo_methods),
					     .handshake_timeout_ns = SHORT_MS * NS_PER_MS };
	int error;

	failing.count = 0;
	failing.met = any_version = false;
	failing.armed = true;
	error = grpc_tls_create(&files, &run.server_tls, &run.why);
	must(error < 0 || !any_version);
	there.tls = run.server_tls;
	if (!error)
		error = grpc_server_open(&there, &run.server, &run.why);
	if (error)
		return error;
	snprintf(run.address, sizeof(run.address), "127.0.0.1:%u", grpc_server_port(run.server));
	error = make_client();
	return error ? error : call();
}

/* Reload certificates as on SIGHUP with a client connected, whose connection is then closed in order. */
static int reload(void *unused)
{
	int error;

	any_version = false;
	run.why = (struct fathom_fault){ 0 };
	error = grpc_tls_reload(run.server_tls, &run.why);
	must(error < 0 || !any_version);
	grpc_client_hang_up(run.client, run.address);
	return error;
}

/* Without failures. */
static int start_next(void *unused)
{
	failing.armed = false;
	grpc_client_destroy(run.client);
	grpc_tls_destroy(run.client_tls);
	run.client = NULL;
	run.client_tls = NULL;
	run.done_count = 0;
	sem_init(&run.done, 0, 0); /* also a call in progress has ended */
	if (!run.server)
		return 0;
	must(make_client() == 0);
	must(call() == 0);
	return 1;
}

static int end(void *unused)
{
	failing.armed = false;
	grpc_client_destroy(run.client);
	grpc_server_close(run.server);
	grpc_tls_destroy(run.client_tls);
	grpc_tls_destroy(run.server_tls);
	OPENSSL_thread_stop(); /* frees the thread's error queue */
	return 0;
}

static void wait_for_call(void)
{
	while (sem_wait(&run.done))
		;
	assert_int_equal(run.done_count, 1);
}

/* Return true if a call has failed. */
static bool run_with_failure(enum what what, uint32_t fail_at)
{
	bool answered;
	int error;

	memset(&run, 0, sizeof(run));
	sem_init(&run.done, 0, 0);
	failing_what = what;
	failing.fail_at = fail_at;
	error = on_control(start, NULL);
	if (!error)
		wait_for_call();
	answered = run.answered;
	if (!error && !answered)
		assert_string_not_equal(run.text, "");
	if (error && !run.client) /* a call that is refused has only an errno */
		assert_string_not_equal(run.why.text, "");
	if (!error && on_control(reload, NULL) < 0)
		assert_string_not_equal(run.why.text, "");
	if (on_control(start_next, NULL)) {
		wait_for_call();
		if (!run.answered)
			fail_msg("call %u: the next client is not served: %s", fail_at, run.text);
	}
	on_control(end, NULL);
	if (!failing.met)
		assert_true(error == 0 && answered);
	return failing.met;
}

static void each_fails_once(enum what what, uint32_t step)
{
	uint32_t fds, n;
	int64_t blocks;

	assert_false(run_with_failure(what, 0));
	assert_false(run_with_failure(what, 0));
	fds = descriptor_count();
	blocks = held;
	for (n = 1; run_with_failure(what, n); n += step) {
		assert_int_equal(descriptor_count(), fds);
		if (held > blocks)
			fail_msg("call %u: %d allocations of OpenSSL are left", n, (int)(held - blocks));
		assert_true(n < RUNS_MAX);
	}
	printf("# %u calls, each %u. failed\n", failing.count, step);
	assert_true(n > 50);
	assert_false(run_with_failure(what, 0));
}

static void after_a_failed_call_the_server_serves_the_next_client(void **state)
{
	each_fails_once(CALLS, 1);
}

static void after_a_failed_allocation_of_nghttp2_the_server_serves_the_next_client(void **state)
{
	each_fails_once(NGHTTP2_MEMORY, 1);
}

static void after_a_failed_allocation_of_openssl_the_server_serves_the_next_client(void **state)
{
	each_fails_once(OPENSSL_MEMORY, OPENSSL_STEP);
}

static void make_files(const char *script)
{
	static const char *const endings[2] = { "crt", "key" };
	char command[256];

	must(mkdtemp(folder));
	snprintf(command, sizeof(command), "%s %s >/dev/null 2>&1", script, folder);
	must(system(command) == 0);
	snprintf(ca, sizeof(ca), "%s/ca.crt", folder);
	for (int i = 0; i < 2; i++) {
		snprintf(server_files[i], sizeof(server_files[i]), "%s/server.%s", folder, endings[i]);
		snprintf(admin_files[i], sizeof(admin_files[i]), "%s/admin.%s", folder, endings[i]);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(after_a_failed_call_the_server_serves_the_next_client),
		cmocka_unit_test(after_a_failed_allocation_of_nghttp2_the_server_serves_the_next_client),
		cmocka_unit_test(after_a_failed_allocation_of_openssl_the_server_serves_the_next_client),
	};
	struct reactor_options none = { .simulated = false };
	char command[64];
	int failed;

	must(argc == 2);
	must(CRYPTO_set_mem_functions(openssl_allocate, openssl_reallocate, openssl_free) == 1);
	make_files(argv[1]);
	control_start(&none);
	failed = cmocka_run_group_tests_name("grpc tls failing", tests, NULL, NULL);
	control_stop();
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	must(system(command) == 0);
	return failed;
}

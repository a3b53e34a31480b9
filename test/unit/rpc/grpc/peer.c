/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * peer - our server or client, for tests with foreign peers.
 *
 *   grpc-peer serve [tls CA CERT KEY 1.2|1.3]   prints the port; commands on standard input: release, reload, stats, drain
 *   grpc-peer call ADDRESS PATH CODE MESSAGE TIMEOUT_MS ROLE [tls CA CERT KEY 1.2|1.3]
 *
 * Each printed line is KEY VALUE, for scripts.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "rpc/grpc/tls.h"
#include "base/reactor/reactor.h"

#include "echo.h"

static struct grpc_tls *tls;
static struct grpc_server *server;
static struct grpc_client *client;
static struct fd_watch *commands;
static struct fathom_fault why;
static char **arguments;
static int status;

static void end(void)
{
	fd_watch_remove(&commands);
	grpc_server_close(server);
	grpc_client_destroy(client);
	client = NULL;
	reactors_request_stop();
}

static void drained(void *ctx)
{
	struct grpc_server_stats stats = grpc_server_stats(server);

	printf("drained %u\n", stats.connections);
	end();
}

static void refused(void *ctx, const char *peer, const char *text)
{
	printf("refused %s\n", text);
}

/* Reload certificates, as on SIGHUP. */
static void reload(void)
{
	uint32_t changes = grpc_tls_changes(tls);

	if (grpc_tls_reload(tls, &why)) {
		printf("reload %s\n", why.text);
		return;
	}
	printf("reload done\n");
	if (grpc_tls_changes(tls) != changes)
		grpc_server_renew(server);
}

static void command(const char *text)
{
	struct grpc_server_stats stats = grpc_server_stats(server);

	if (strcmp(text, "release") == 0)
		echo_release();
	if (strcmp(text, "reload") == 0)
		reload();
	if (strcmp(text, "stats") == 0)
		printf("stats %u %u %" PRIu64 " %" PRIu64 " held %zu\n", stats.connections, stats.calls_open,
		       stats.connections_total, stats.calls_total, echo_held_count);
	if (strcmp(text, "drain") == 0)
		grpc_server_drain(server, 20 * NS_PER_SEC, drained, NULL);
}

static void command_came(void *ctx, uint32_t events)
{
	static char text[256];
	ssize_t count = read(STDIN_FILENO, text, sizeof(text) - 1);
	char *rest = text, *word;

	if (count <= 0) {
		for (size_t i = 0; i < echo_held_count; i++)
			grpc_fail(echo_held[i], GRPC_UNAVAILABLE, NULL, "the server ends");
		end();
		return;
	}
	text[count] = '\0';
	while ((word = strsep(&rest, "\n"))) {
		if (*word)
			command(word);
	}
}

static void serve(void *ctx)
{
	struct grpc_server_options options = { .address = "127.0.0.1:0",
					       .methods = echo_methods,
					       .method_count = ARRAY_COUNT(echo_methods),
					       .tls = tls,
					       .refused = refused,
					       .message_bytes_max = 1 << 20,
					       .handshake_timeout_ns = 3 * NS_PER_SEC };

	if (grpc_server_open(&options, &server, &why)) {
		printf("error %s\n", why.text);
		status = 1;
		reactors_request_stop();
		return;
	}
	printf("port %u\n", grpc_server_port(server));
	commands = fd_watch_add(STDIN_FILENO, EPOLLIN, command_came, NULL);
	must(commands);
}

static void called(void *ctx, const struct grpc_result *result)
{
	printf("code %d\nerror %d\nmessage %s\n", (int)result->code, result->error, result->message);
	if (result->response)
		printf("response %d %s\n", ((const Google__Rpc__Status *)result->response)->code,
		       ((const Google__Rpc__Status *)result->response)->message);
	if (result->info)
		printf("info %s %s %s\n", result->info->domain, result->info->reason,
		       result->info->n_metadata ? result->info->metadata[0]->value : "");
	end();
}

static uint64_t number(const char *text)
{
	uint64_t n;

	must(text_parse_u64(text, 10, INT32_MAX, &n) == 0);
	return n;
}

static void call(void *ctx)
{
	struct grpc_client_options options = { .role = grpc_role_of(arguments[7]),
					       .version = "0.1.0",
					       .tls = tls,
					       .message_bytes_max = GRPC_MESSAGE_BYTES_MAX };
	Google__Rpc__Status request = GOOGLE__RPC__STATUS__INIT;
	int error;

	request.code = (int32_t)number(arguments[4]);
	request.message = arguments[5];
	error = grpc_client_create(&options, &client, &why);
	must(!error);
	error = grpc_client_call(client, &(struct grpc_request){
						 .address = arguments[2],
						 .path = arguments[3],
						 .message = &request.base,
						 .response = &google__rpc__status__descriptor,
						 .timeout_ns = number(arguments[6]) * NS_PER_MS,
						 .done = called,
					 });
	if (error) {
		printf("refused %d\n", error);
		end();
	}
}

int main(int argc, char **argv)
{
	struct reactor_options none = { .simulated = false };
	bool serves = argc > 1 && strcmp(argv[1], "serve") == 0;
	int at = serves ? 2 : 8;

	if (!serves && argc < 8)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	arguments = argv;
	if (argc > at + 4) {
		struct grpc_tls_options options = { argv[at + 1], argv[at + 2], argv[at + 3],
						    strcmp(argv[at + 4], "1.2") == 0, false };

		if (grpc_tls_create(&options, &tls, &why)) {
			printf("error %s\n", why.text);
			return 1;
		}
	}
	must(reactors_start(&none) == 0);
	thread_send_msg(thread_control(), serves ? serve : call, NULL);
	reactors_run();
	reactors_stop();
	grpc_tls_destroy(tls);
	return status;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* The HTTP server of figures: answers, errors, clients that hang, and an end at any moment. */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
/* after those */
#include <cmocka.h>

#include "rpc/figures/http.h"

#include "../../control_thread.h"

enum { REPLY_BYTES = 1 << 16, WAIT_SECONDS = 60, BIG_SERIES = 20000 };

static struct figures_http *http;
static struct fathom_fault why;
/* used on the control thread: */
static struct figures_scrape *held; /* a collection that has not ended; with is_holding */
static bool is_holding, is_big, has_none;
static unsigned int collections;

static void end_scrape(struct figures_scrape *scrape)
{
	struct figures *figures = figures_create(figures_scrape_format(scrape), "");

	figure_engine(figures, "1", "");
	for (int i = 0; is_big && i < BIG_SERIES; i++)
		figure_volume_inflight(figures, "a volume with a name that is long enough to fill the socket", i);
	figures_scrape_end(scrape, has_none ? NULL : figures);
	figures_destroy(figures);
}

static void collect(void *ctx, struct figures_scrape *scrape)
{
	collections++;
	if (is_holding)
		held = scrape;
	else
		end_scrape(scrape);
}

/* used on the control thread: */
static bool has_status, is_out_of_memory;

static char *status(void *ctx)
{
	return is_out_of_memory ? NULL : strdup("{\"system\":\"s\"}");
}

static int open_http(void *ctx)
{
	const struct figures_http_options options = { .address = ctx ? ctx : "127.0.0.1",
						      .option = "--metrics",
						      .collect = collect,
						      .status = has_status ? status : NULL };

	return figures_http_open(&options, &http, &why);
}

static int close_http(void *unused)
{
	figures_http_close(http);
	http = NULL;
	return 0;
}

static int get_port(void *unused)
{
	return figures_http_port(http);
}

static int hold(void *unused)
{
	is_holding = true;
	return 0;
}

static int is_held(void *unused)
{
	return held != NULL;
}

static int release(void *unused)
{
	struct figures_scrape *scrape = held;

	held = NULL;
	is_holding = false;
	end_scrape(scrape);
	return 0;
}

static int get_collections(void *unused)
{
	return (int)collections;
}

static void wait_until_held(void)
{
	for (int i = 0; !on_control(is_held, NULL); i++) {
		assert_true(i < WAIT_SECONDS * 1000);
		usleep(1000);
	}
}

static int setup(void **state)
{
	struct reactor_options none = { .simulated = false };

	control_start(&none);
	collections = 0;
	is_holding = is_big = has_none = is_out_of_memory = false;
	return on_control(open_http, NULL);
}

static int teardown(void **state)
{
	if (http)
		on_control(close_http, NULL);
	control_stop();
	return 0;
}

/* ---- clients ---- */

static int connect_client(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)on_control(get_port, NULL)) };
	struct timeval patience = { .tv_sec = WAIT_SECONDS };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_true(fd >= 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
	assert_int_equal(inet_pton(AF_INET, "127.0.0.1", &address.sin_addr), 1);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

static void send_text(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* Read to the end; the server closes the connection. Returns static memory. */
static const char *read_reply(int fd)
{
	static char reply[REPLY_BYTES];
	size_t bytes = 0;
	ssize_t n;

	do {
		n = recv(fd, reply + bytes, sizeof(reply) - 1 - bytes, 0);
		bytes += n > 0 ? (size_t)n : 0;
	} while (bytes < sizeof(reply) - 1 && (n > 0 || (n < 0 && errno == EINTR)));
	reply[bytes] = '\0';
	close(fd);
	return reply;
}

static int ask(const char *method, const char *path)
{
	char text[256];
	int fd = connect_client();

	snprintf(text, sizeof(text), "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", method, path);
	send_text(fd, text);
	return fd;
}

static const char *get(const char *path)
{
	return read_reply(ask("GET", path));
}

static void assert_begins(const char *text, const char *wanted)
{
	if (strncmp(text, wanted, strlen(wanted)) != 0)
		fail_msg("not \"%s\" but \"%s\"", wanted, text);
}

/* ---- cases ---- */

static void metrics_are_served(void **state)
{
	const char *reply = get("/metrics");

	assert_begins(reply, "HTTP/1.1 200 OK\r\n");
	assert_non_null(strstr(reply, "text/plain; version=0.0.4"));
	assert_non_null(strstr(reply, "\nfathom_engine_info{version=\"1\",build_id=\"\"} 1\n"));
}

static void a_client_may_prefer_openmetrics(void **state)
{
	const char *reply;
	int fd = connect_client();

	send_text(fd, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAccept: "
		      "application/openmetrics-text; version=1.0.0, */*;q=0.1\r\n\r\n");
	reply = read_reply(fd);
	assert_non_null(strstr(reply, "application/openmetrics-text; version=1.0.0"));
	assert_non_null(strstr(reply, "# TYPE fathom_engine info\n"));
	assert_non_null(strstr(reply, "# EOF\n"));
}

static void health_is_the_answer_of_the_control_thread(void **state)
{
	assert_non_null(strstr(get("/healthz"), "\r\n\r\nok\n"));
	assert_int_equal(on_control(get_collections, NULL), 0);
}

static void other_paths_and_methods_are_rejected(void **state)
{
	assert_begins(get("/index.html"), "HTTP/1.1 404 ");
	assert_begins(get("/metrics/x"), "HTTP/1.1 404 ");
	assert_begins(read_reply(ask("POST", "/metrics")), "HTTP/1.1 405 ");
	assert_begins(read_reply(ask("DELETE", "/metrics")), "HTTP/1.1 405 ");
	assert_int_equal(on_control(get_collections, NULL), 0);
}

static void the_status_page_is_one_text_without_others(void **state)
{
	const char *reply = get("/");

	assert_begins(reply, "HTTP/1.1 200 OK\r\n");
	assert_non_null(strstr(reply, "text/html; charset=utf-8"));
	assert_non_null(strstr(reply, "</html>"));
	assert_null(strstr(reply, "src="));
	assert_null(strstr(reply, "@status."));
	assert_begins(get("/status.json"), "HTTP/1.1 404 "); /* this program has none */
}

static int setup_with_status(void **state)
{
	has_status = true;
	return setup(state);
}

static int teardown_with_status(void **state)
{
	has_status = false;
	return teardown(state);
}

static void the_status_is_served_while_a_collection_waits(void **state)
{
	int waiting;

	on_control(hold, NULL);
	waiting = ask("GET", "/metrics");
	wait_until_held();
	assert_non_null(strstr(get("/status.json"), "\r\n\r\n{\"system\":\"s\"}"));
	on_control(release, NULL);
	assert_begins(read_reply(waiting), "HTTP/1.1 200 ");
	is_out_of_memory = true;
	assert_begins(get("/status.json"), "HTTP/1.1 503 ");
}

static void rubbish_does_not_end_the_server(void **state)
{
	int fd = connect_client();

	send_text(fd, "\x01\x02 \r\n\r\n\xff");
	assert_int_equal(shutdown(fd, SHUT_WR), 0);
	read_reply(fd);
	assert_begins(get("/metrics"), "HTTP/1.1 200 ");
}

static void without_figures_a_client_gets_503(void **state)
{
	has_none = true;
	assert_begins(get("/metrics"), "HTTP/1.1 503 ");
}

static void a_client_that_hangs_stops_nobody(void **state)
{
	int silent = connect_client(), half = connect_client(), reading;

	send_text(half, "GET /metrics HTTP/1.1\r\nHos"); /* and nothing more, for ever */
	is_big = true;
	reading = ask("GET", "/metrics"); /* reads nothing of a long answer */
	for (int i = 0; i < 5; i++)
		assert_begins(get("/healthz"), "HTTP/1.1 200 ");
	is_big = false;
	assert_begins(get("/metrics"), "HTTP/1.1 200 ");
	close(silent);
	close(half);
	close(reading);
}

static void clients_share_a_collection(void **state)
{
	int first, others[8];

	on_control(hold, NULL);
	first = ask("GET", "/metrics");
	wait_until_held();
	for (int i = 0; i < 8; i++)
		others[i] = ask("GET", "/metrics");
	assert_begins(get("/healthz"), "HTTP/1.1 200 "); /* does not wait for the figures */
	on_control(release, NULL);
	assert_begins(read_reply(first), "HTTP/1.1 200 ");
	for (int i = 0; i < 8; i++)
		assert_begins(read_reply(others[i]), "HTTP/1.1 200 ");
	assert_true(on_control(get_collections, NULL) <= 1 + 8);
}

static void a_client_that_leaves_during_a_collection_is_forgotten(void **state)
{
	on_control(hold, NULL);
	close(ask("GET", "/metrics"));
	wait_until_held();
	on_control(release, NULL);
	assert_begins(get("/metrics"), "HTTP/1.1 200 ");
}

static void an_end_during_a_collection_ends_its_clients(void **state)
{
	const char *reply;
	int client;

	on_control(hold, NULL);
	client = ask("GET", "/metrics");
	wait_until_held();
	on_control(close_http, NULL);
	reply = read_reply(client);
	assert_true(reply[0] == '\0' || strncmp(reply, "HTTP/1.1 503 ", 13) == 0);
	on_control(release, NULL); /* its figures are dropped */
}

static void an_end_without_a_collection_frees_all(void **state)
{
	int client = connect_client();

	assert_begins(get("/metrics"), "HTTP/1.1 200 ");
	on_control(close_http, NULL);
	close(client);
}

static int open_second(void *port)
{
	const struct figures_http_options options = {
		.address = "127.0.0.1", .port = *(uint16_t *)port, .option = "--metrics", .collect = collect
	};
	struct figures_http *second = NULL;

	return figures_http_open(&options, &second, &why);
}

static void a_port_that_is_taken_is_explained(void **state)
{
	uint16_t port = (uint16_t)on_control(get_port, NULL);

	assert_int_equal(on_control(open_second, &port), -EADDRINUSE);
	assert_non_null(strstr(why.text, "--metrics: cannot listen at 127.0.0.1 port "));
}

static void an_address_with_letters_is_rejected(void **state)
{
	struct figures_http *first = http;

	assert_int_equal(on_control(open_http, "localhost"), -EINVAL);
	assert_non_null(strstr(why.text, "localhost is not an address in numbers"));
	assert_ptr_equal(http, first);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(metrics_are_served),
		CASE(a_client_may_prefer_openmetrics),
		CASE(health_is_the_answer_of_the_control_thread),
		CASE(other_paths_and_methods_are_rejected),
		CASE(the_status_page_is_one_text_without_others),
		cmocka_unit_test_setup_teardown(the_status_is_served_while_a_collection_waits, setup_with_status,
						teardown_with_status),
		CASE(rubbish_does_not_end_the_server),
		CASE(without_figures_a_client_gets_503),
		CASE(a_client_that_hangs_stops_nobody),
		CASE(clients_share_a_collection),
		CASE(a_client_that_leaves_during_a_collection_is_forgotten),
		CASE(an_end_during_a_collection_ends_its_clients),
		CASE(an_end_without_a_collection_frees_all),
		CASE(a_port_that_is_taken_is_explained),
		CASE(an_address_with_letters_is_rejected),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

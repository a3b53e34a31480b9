/* SPDX-License-Identifier: BSD-2-Clause */
#include "rpc/figures/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <microhttpd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/reactor/reactor.h"
#include "rpc/figures/probes.gen.h"

enum { BACKLOG = 32, CONNECTION_MEMORY_BYTES = 32768, READ_BYTES = 65536 };

static const char ok_text[] = "ok\n";
static const char absent_text[] = "not found: / is the status page, /metrics has the figures, /healthz says whether this"
				  " program answers\n";
static const char method_text[] = "only GET is possible here\n";
static const char unavailable_text[] = "the program is stopping\n";

extern const char status_page[]; /* made of page/ */

enum request_kind { REQUEST_FIGURES, REQUEST_HEALTH, REQUEST_STATUS };

/* A client's request that the control thread answers. Made and freed by the HTTP thread; the lock guards the rest. */
struct request {
	struct MHD_Connection *connection;
	enum request_kind kind;
	enum figures_format format;
	bool is_taken; /* by the collection under way */
	bool is_done;  /* resumed, and no longer in `waiting`: the control thread does not touch it */
	unsigned int status;
	char *text;
	size_t bytes;
	TAILQ_ENTRY(request) link;
};

struct figures_scrape {
	struct figures_http *http;
	enum figures_format format;
	uint64_t begun_tick;
};

struct figures_http {
	struct figures_http_options options;
	struct MHD_Daemon *daemon;
	uint16_t port;
	pthread_mutex_t lock;
	TAILQ_HEAD(, request) waiting; /* under the lock */
	bool is_closing;	       /* under the lock */
	uintptr_t renewals;	       /* under the lock */
	/* control thread */
	struct figures_scrape scrape;
	bool is_scraping;
	bool is_stopped; /* no further message comes: free it when the collection has ended */
	uint64_t scrapes;
};

static void lock(struct figures_http *http)
{
	must(pthread_mutex_lock(&http->lock) == 0);
}

static void unlock(struct figures_http *http)
{
	must(pthread_mutex_unlock(&http->lock) == 0);
}

/* ---- the HTTP thread ---- */

/* A text on its way to a client. */
struct sending {
	char *text;
	size_t bytes;
	uint64_t deadline_ns;
};

static ssize_t read_text(void *ctx, uint64_t offset, char *to, size_t room)
{
	const struct sending *sending = ctx;
	size_t bytes = sending->bytes - (size_t)offset;

	if (clock_monotonic_ns() > sending->deadline_ns)
		return MHD_CONTENT_READER_END_WITH_ERROR;
	bytes = bytes < room ? bytes : room;
	memcpy(to, sending->text + offset, bytes);
	return (ssize_t)bytes;
}

static void free_sending(void *ctx)
{
	struct sending *sending = ctx;

	free(sending->text);
	free(sending);
}

/* The context of a connection is the number of renewals before it. */
static void note_connection(void *ctx, struct MHD_Connection *connection, void **context,
			    enum MHD_ConnectionNotificationCode what)
{
	struct figures_http *http = ctx;

	if (what != MHD_CONNECTION_NOTIFY_STARTED)
		return;
	lock(http);
	*context = (void *)http->renewals;
	unlock(http);
}

static bool is_old(struct figures_http *http, struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	bool is_old;

	lock(http);
	is_old = info && (uintptr_t)info->socket_context != http->renewals;
	unlock(http);
	return is_old;
}

static enum MHD_Result queue(struct figures_http *http, struct MHD_Connection *connection, struct MHD_Response *response,
			     unsigned int status, const char *type)
{
	enum MHD_Result result = MHD_NO;

	if (response && MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type) == MHD_YES &&
	    (!is_old(http, connection) ||
	     MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close") == MHD_YES))
		result = MHD_queue_response(connection, status, response);
	if (response)
		MHD_destroy_response(response); /* the connection has its own reference */
	return result;
}

static struct MHD_Response *constant(const char *text)
{
	return MHD_create_response_from_buffer(strlen(text), (void *)(uintptr_t)text, MHD_RESPMEM_PERSISTENT);
}

static enum MHD_Result queue_constant(struct figures_http *http, struct MHD_Connection *connection, unsigned int status,
				      const char *text)
{
	return queue(http, connection, constant(text), status, "text/plain; charset=utf-8");
}

static enum MHD_Result queue_text(struct figures_http *http, struct MHD_Connection *connection, struct request *request)
{
	struct sending *sending = calloc(1, sizeof(*sending));
	struct MHD_Response *response;

	if (!sending)
		return MHD_NO;
	*sending = (struct sending){ request->text, request->bytes,
				     clock_monotonic_ns() + FIGURES_HTTP_SEND_SEC * NS_PER_SEC };
	request->text = NULL;
	response = MHD_create_response_from_callback(sending->bytes, READ_BYTES, read_text, sending, free_sending);
	if (!response)
		free_sending(sending);
	return queue(http, connection, response, request->status,
		     request->kind == REQUEST_STATUS ? "application/json" : figures_content_type(request->format));
}

static void start_waiting(void *ctx);

/* Let the control thread answer. False: the program is stopping. */
static bool suspend(struct figures_http *http, struct request *request)
{
	bool is_closing;

	lock(http);
	is_closing = http->is_closing;
	if (!is_closing) {
		MHD_suspend_connection(request->connection);
		TAILQ_INSERT_TAIL(&http->waiting, request, link);
		/* under the lock: figures_http_close() must not free `http` before this message */
		thread_send_msg(thread_control(), start_waiting, http);
	}
	unlock(http);
	return !is_closing;
}

/* False: there is nothing at this path. */
static bool find_kind(const struct figures_http *http, const char *url, enum request_kind *kind_ret)
{
	static const char *const urls[] = {
		[REQUEST_FIGURES] = "/metrics",
		[REQUEST_HEALTH] = "/healthz",
		[REQUEST_STATUS] = "/status.json",
	};

	for (size_t i = 0; i < ARRAY_COUNT(urls); i++) {
		if (strcmp(url, urls[i]) != 0)
			continue;
		*kind_ret = (enum request_kind)i;
		return i != REQUEST_STATUS || http->options.status;
	}
	return false;
}

static enum MHD_Result begin_request(struct figures_http *http, struct MHD_Connection *connection, const char *url,
				     const char *method, void **request_ret)
{
	struct request *request;
	enum request_kind kind;

	if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
		return queue_constant(http, connection, MHD_HTTP_METHOD_NOT_ALLOWED, method_text);
	if (strcmp(url, "/") == 0)
		return queue(http, connection, constant(status_page), MHD_HTTP_OK, "text/html; charset=utf-8");
	if (!find_kind(http, url, &kind))
		return queue_constant(http, connection, MHD_HTTP_NOT_FOUND, absent_text);
	request = calloc(1, sizeof(*request));
	if (!request)
		return MHD_NO;
	request->connection = connection;
	request->kind = kind;
	request->format = figures_accepted(
		MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT));
	*request_ret = request;
	if (suspend(http, request))
		return MHD_YES;
	return queue_constant(http, connection, MHD_HTTP_SERVICE_UNAVAILABLE, unavailable_text);
}

/* The state of a request whose headers have been read, and which is not answered yet. */
static char headers_seen;

/* Called for a request's headers, for its body, and after it was resumed. */
static enum MHD_Result handle_http(void *ctx, struct MHD_Connection *connection, const char *url, const char *method,
				   const char *version, const char *data, size_t *data_bytes, void **state)
{
	struct request *request;

	if (!*state) {
		*state = &headers_seen;
		return MHD_YES;
	}
	if (*data_bytes > 0) { /* of a request with a body: ignored */
		*data_bytes = 0;
		return MHD_YES;
	}
	if (*state == &headers_seen)
		return begin_request(ctx, connection, url, method, state);
	request = *state;
	must(request->is_done);
	if (request->kind == REQUEST_HEALTH)
		return queue_constant(ctx, connection, request->status,
				      request->status == MHD_HTTP_OK ? ok_text : unavailable_text);
	if (request->text)
		return queue_text(ctx, connection, request);
	return queue_constant(ctx, connection, MHD_HTTP_SERVICE_UNAVAILABLE, unavailable_text);
}

static void end_request(void *ctx, struct MHD_Connection *connection, void **state, enum MHD_RequestTerminationCode code)
{
	struct request *request = *state == &headers_seen ? NULL : *state;

	*state = NULL;
	if (request)
		free(request->text);
	free(request);
}

/* ---- the control thread ---- */

/* Under the lock. `text`: copied; NULL: none. */
static void finish(struct figures_http *http, struct request *request, unsigned int status, const char *text, size_t bytes)
{
	must(!request->is_done);
	if (text) {
		request->text = malloc(bytes + 1);
		must(request->text);
		memcpy(request->text, text, bytes + 1);
		request->bytes = bytes;
	}
	request->status = status;
	request->is_done = true;
	TAILQ_REMOVE(&http->waiting, request, link);
	MHD_resume_connection(request->connection);
}

/* Those that need no collection. `status` NULL: out of memory. The next call answers requests that came after it. */
static void answer_others(struct figures_http *http, const char *status)
{
	struct request *request, *next;

	TAILQ_FOREACH_SAFE (request, &http->waiting, link, next) {
		if (request->kind == REQUEST_HEALTH)
			finish(http, request, MHD_HTTP_OK, NULL, 0);
		else if (request->kind == REQUEST_STATUS && request->is_taken)
			finish(http, request, status ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE, status,
			       status ? strlen(status) : 0);
	}
}

/* Take all requests for /status.json; false: there is none. */
static bool take_status_requests(struct figures_http *http)
{
	struct request *request;
	bool is_wanted = false;

	lock(http);
	TAILQ_FOREACH (request, &http->waiting, link) {
		if (request->kind != REQUEST_STATUS)
			continue;
		request->is_taken = is_wanted = true;
	}
	unlock(http);
	return is_wanted;
}

/* Take all requests for figures in the format of the first; false: there is none. */
static bool take_requests(struct figures_http *http, enum figures_format *format_ret)
{
	struct request *request;
	bool is_found = false;

	TAILQ_FOREACH (request, &http->waiting, link) {
		if (request->kind != REQUEST_FIGURES)
			continue;
		if (!is_found)
			*format_ret = request->format;
		is_found = true;
		request->is_taken |= request->format == *format_ret;
	}
	return is_found;
}

static void start_waiting(void *ctx)
{
	struct figures_http *http = ctx;
	enum figures_format format;
	bool is_wanted;
	char *status;

	must_be_on(thread_control());
	status = take_status_requests(http) ? http->options.status(http->options.ctx) : NULL;
	lock(http);
	answer_others(http, status);
	is_wanted = !http->is_scraping && take_requests(http, &format);
	unlock(http);
	free(status);
	if (!is_wanted)
		return;
	http->is_scraping = true;
	http->scrape = (struct figures_scrape){ http, format, reactor_now() };
	http->options.collect(http->options.ctx, &http->scrape);
}

enum figures_format figures_scrape_format(const struct figures_scrape *scrape)
{
	return scrape->format;
}

static void free_http(struct figures_http *http)
{
	must(TAILQ_EMPTY(&http->waiting));
	must(pthread_mutex_destroy(&http->lock) == 0);
	free(http);
}

void figures_scrape_end(struct figures_scrape *scrape, const struct figures *figures)
{
	struct figures_http *http = scrape->http;
	struct request *request, *next;
	uint64_t now = reactor_now();
	size_t bytes = 0;
	char *text = figures ? figures_text(figures, &bytes) : NULL;

	must_be_on(thread_control());
	must(http->is_scraping);
	http->is_scraping = false;
	http->scrapes++;
	probe_figures_scrape(now, (uint32_t)bytes, now - scrape->begun_tick);
	if (http->is_stopped) {
		free(text);
		free_http(http);
		return;
	}
	lock(http);
	TAILQ_FOREACH_SAFE (request, &http->waiting, link, next) {
		if (request->kind == REQUEST_FIGURES && request->is_taken)
			finish(http, request, text ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE, text, bytes);
	}
	unlock(http);
	free(text);
	/* by a message, so that a collector that ends at once does not recurse */
	if (!http->is_closing)
		thread_send_msg(thread_control(), start_waiting, http);
}

/* ---- open to close ---- */

static int read_address(const struct figures_http_options *options, struct sockaddr_storage *to, socklen_t *bytes_ret)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)to;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)to;

	memset(to, 0, sizeof(*to));
	if (inet_pton(AF_INET, options->address, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(options->port);
		*bytes_ret = sizeof(*v4);
		return 0;
	}
	if (inet_pton(AF_INET6, options->address, &v6->sin6_addr) == 1) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons(options->port);
		*bytes_ret = sizeof(*v6);
		return 0;
	}
	return -EINVAL;
}

static uint16_t port_of(int fd)
{
	struct sockaddr_storage address;
	socklen_t bytes = sizeof(address);

	must(getsockname(fd, (struct sockaddr *)&address, &bytes) == 0);
	return ntohs(address.ss_family == AF_INET ? ((struct sockaddr_in *)&address)->sin_port
						  : ((struct sockaddr_in6 *)&address)->sin6_port);
}

static int listen_there(const struct figures_http_options *options, int *fd_ret, struct fathom_fault *why)
{
	struct sockaddr_storage address;
	socklen_t bytes;
	int fd, on = 1;

	if (read_address(options, &address, &bytes) != 0)
		return fault(why, -EINVAL, "%s: %s is not an address in numbers", options->option, options->address);
	fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return fault(why, -errno, "%s: cannot make a socket: %s", options->option, strerror(errno));
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
	    bind(fd, (struct sockaddr *)&address, bytes) != 0 || listen(fd, BACKLOG) != 0) {
		int error = fault(why, -errno, "%s: cannot listen at %s port %u: %s", options->option, options->address,
				  options->port, strerror(errno));

		close(fd);
		return error;
	}
	*fd_ret = fd;
	return 0;
}

/* `fd`: where to listen; -1: nowhere. */
static struct MHD_Daemon *start_daemon(struct figures_http *http, int fd)
{
	unsigned int flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC;
	const struct MHD_OptionItem listener[] = {
		{ fd < 0 ? MHD_OPTION_END : MHD_OPTION_LISTEN_SOCKET, fd, NULL },
		{ MHD_OPTION_END, 0, NULL },
	};
	/* the server in front has the limit; it notices the end of a connection before this one does */
	unsigned int limit = fd < 0 ? 2 * FIGURES_HTTP_CONNECTIONS_MAX : FIGURES_HTTP_CONNECTIONS_MAX;

	if (fd < 0)
		flags |= MHD_USE_NO_LISTEN_SOCKET;
	return MHD_start_daemon(flags, 0, NULL, NULL, handle_http, http, MHD_OPTION_ARRAY, listener,
				MHD_OPTION_CONNECTION_LIMIT, limit, MHD_OPTION_CONNECTION_TIMEOUT,
				(unsigned int)FIGURES_HTTP_IDLE_SEC, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
				(size_t)CONNECTION_MEMORY_BYTES, MHD_OPTION_NOTIFY_COMPLETED, end_request, NULL,
				MHD_OPTION_NOTIFY_CONNECTION, note_connection, http, MHD_OPTION_END);
}

int figures_http_open(const struct figures_http_options *options, struct figures_http **http_ret, struct fathom_fault *why)
{
	struct figures_http *http;
	int fd = -1, error;

	must_be_on(thread_control());
	error = options->is_behind ? 0 : listen_there(options, &fd, why);
	if (error)
		return error;
	http = calloc(1, sizeof(*http));
	must(http);
	http->options = *options;
	http->port = fd < 0 ? 0 : port_of(fd);
	TAILQ_INIT(&http->waiting);
	must(pthread_mutex_init(&http->lock, NULL) == 0);
	http->daemon = start_daemon(http, fd);
	if (!http->daemon) {
		free_http(http);
		if (fd >= 0)
			close(fd);
		return fault(why, -ENOMEM, "%s: the HTTP server cannot start: out of memory or descriptors",
			     options->option);
	}
	*http_ret = http;
	return 0;
}

static void free_if_idle(void *ctx)
{
	struct figures_http *http = ctx;

	http->is_stopped = true;
	if (!http->is_scraping)
		free_http(http);
}

void figures_http_close(struct figures_http *http)
{
	struct request *request;

	if (!http)
		return;
	must_be_on(thread_control());
	lock(http);
	http->is_closing = true;
	while ((request = TAILQ_FIRST(&http->waiting)))
		finish(http, request, MHD_HTTP_SERVICE_UNAVAILABLE, NULL, 0);
	unlock(http);
	MHD_stop_daemon(http->daemon); /* joins its thread */
	http->daemon = NULL;
	/* behind the messages of that thread */
	thread_send_msg(thread_control(), free_if_idle, http);
}

void figures_http_add(struct figures_http *http, int fd)
{
	struct sockaddr_in unknown = { .sin_family = AF_INET };

	must_be_on(thread_control());
	must(http->options.is_behind);
	/* takes `fd`; if it fails, the client sees the end of its connection */
	(void)MHD_add_connection(http->daemon, fd, (struct sockaddr *)&unknown, sizeof(unknown));
}

void figures_http_renew(struct figures_http *http)
{
	must_be_on(thread_control());
	lock(http);
	http->renewals++;
	unlock(http);
}

uint16_t figures_http_port(const struct figures_http *http)
{
	return http->port;
}

uint64_t figures_http_scrapes(const struct figures_http *http)
{
	return http->scrapes;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls to the server: NotifyReady, and events. One call of each kind is in flight at a time, repeated with a back-off
 * until the server answers, across any number of server restarts.
 *
 * A restarted server does not know this engine. It creates its socket again, which inotify reports; then all delays are
 * reset and NotifyReady is sent again. If inotify cannot watch the folder (it was removed, or this user has too many
 * watches), the socket is polled every second.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "data/engine/control.h"
#include "data/engine/probes.gen.h"
#include "base/reactor/reactor.h"

enum {
	RETRY_MIN_MS = 20,
	RETRY_MAX_MS = 5000,
	CALL_TIMEOUT_SEC = 10,
	POLL_MS = 1000,	     /* interval of socket polls while inotify cannot watch the folder */
	SOCKET_BOUND_MS = 1, /* between bind() and listen() of the server's socket */
	FLUSH_MS = 1000,     /* how long a stop waits for the server to accept events */
};

#define SERVER_SOCKET "fathom_server.sock"

static struct {
	struct drpc_client *client;
	char path[ENGINE_PATH_BYTES_MAX + sizeof(SERVER_SOCKET)];
	int watch_fd, watch; /* -1: none */
	struct stat socket;  /* at the last poll */
	struct fd_watch *watch_ready;
	struct deadline notify_at, event_at, watch_at, flush_at;
	void (*flushed)(void); /* NULL: no flush is pending */
	uint64_t notify_delay_ns, event_delay_ns;
	uint32_t notify_attempts;
	bool notify_wanted, notify_open, event_open;
	uint64_t servers_seen, notified_total, calls_failed;
} uplink = { .watch_fd = -1, .watch = -1 };

static void send_notify(struct deadline *deadline);
static void send_event(struct deadline *deadline);

static uint64_t next_delay(uint64_t delay_ns)
{
	return delay_ns * 2 < RETRY_MAX_MS * NS_PER_MS ? delay_ns * 2 : RETRY_MAX_MS * NS_PER_MS;
}

/* ---- ready ---- */

static void notify_later(void)
{
	deadline_set(&engine_control.deadlines, &uplink.notify_at, uplink.notify_delay_ns, send_notify);
	uplink.notify_delay_ns = next_delay(uplink.notify_delay_ns);
}

static void handle_notify_reply(void *ctx, const struct drpc_result *result)
{
	bool answered = result->error == 0 && result->status == DRPC_SUCCESS;
	int error = result->error ? result->error : answered ? 0 : -EPROTO;

	probe_engine_notified(clock_ticks(), &engine_control, error);
	uplink.notify_open = false;
	if (answered) {
		uplink.notified_total++;
		uplink.notify_attempts = 0;
		if (!uplink.notify_wanted)
			return;
		uplink.notify_delay_ns = RETRY_MIN_MS * NS_PER_MS; /* the server restarted meanwhile */
	} else {
		uplink.calls_failed++;
		if (result->error == 0 && uplink.notify_attempts == 1)
			log_warning("the server rejects NotifyReady: %s", drpc_status_name(result->status));
		uplink.notify_wanted = true;
	}
	notify_later();
}

static void send_notify(struct deadline *deadline)
{
	Srv__NotifyReadyReq ready;

	if (uplink.notify_open || !uplink.notify_wanted || engine_control.state == ENGINE_RANK_LEAVING)
		return;
	engine_control_fill_ready(&ready);
	probe_engine_notify(clock_ticks(), &engine_control, ++uplink.notify_attempts);
	uplink.notify_wanted = false;
	if (drpc_client_call(uplink.client, &(struct drpc_request){
						    .module = DRPC_MODULE_SRV,
						    .method = DRPC_SRV_NOTIFY_READY,
						    .message = &ready.base,
						    .timeout_ns = CALL_TIMEOUT_SEC * NS_PER_SEC,
						    .done = handle_notify_reply,
					    }) == 0) {
		uplink.notify_open = true;
		return;
	}
	uplink.notify_wanted = true;
	notify_later();
}

void uplink_notify(void)
{
	uplink.notify_wanted = true;
	uplink.notify_delay_ns = RETRY_MIN_MS * NS_PER_MS;
	if (!uplink.notify_open)
		deadline_set(&engine_control.deadlines, &uplink.notify_at, 0, send_notify);
}

/* ---- events ---- */

static void flush_on_control(void *ctx)
{
	void (*flushed)(void) = uplink.flushed;

	uplink.flushed = NULL;
	if (flushed)
		flushed();
}

/* By message: this runs inside the client's callback, and the flush callback closes the client. */
static void finish_flush(void)
{
	deadline_clear(&engine_control.deadlines, &uplink.flush_at);
	if (uplink.flushed)
		thread_send_msg(thread_control(), flush_on_control, NULL);
}

static void flush_timed_out(struct deadline *deadline)
{
	finish_flush();
}

void uplink_flush(void (*done)(void))
{
	must(!uplink.flushed);
	if (!event_first()) {
		done();
		return;
	}
	uplink.flushed = done;
	uplink.event_delay_ns = RETRY_MIN_MS * NS_PER_MS;
	deadline_set(&engine_control.deadlines, &uplink.flush_at, FLUSH_MS * NS_PER_MS, flush_timed_out);
	if (!uplink.event_open)
		deadline_set(&engine_control.deadlines, &uplink.event_at, 0, send_event);
}

static void send_event_later(void)
{
	deadline_set(&engine_control.deadlines, &uplink.event_at, uplink.event_delay_ns, send_event);
	uplink.event_delay_ns = next_delay(uplink.event_delay_ns);
}

static void handle_event_reply(void *ctx, const struct drpc_result *result)
{
	const Shared__ClusterEventResp *response = (const Shared__ClusterEventResp *)result->response;
	const struct engine_event *event = event_first();
	int error = result->error;
	int32_t status = 0;

	must(event);
	uplink.event_open = false;
	if (error == 0 && result->status != DRPC_SUCCESS)
		error = -EPROTO;
	if (error == 0 && response->sequence != event->message->sequence)
		error = -EBADMSG;
	if (error == 0)
		status = response->status;
	probe_engine_event_answered(clock_ticks(), &engine_control, event->message->sequence, error, status);
	if (error == 0 && (status == 0 || status == DER_INVAL)) {
		if (status)
			log_error("the server rejects event %llu as invalid: \"%s\"",
				  (unsigned long long)event->message->sequence, event->message->event->msg);
		event_remove_first(status == 0);
		uplink.event_delay_ns = RETRY_MIN_MS * NS_PER_MS;
		self_terminate_check();
		if (event_first())
			uplink_kick();
		else
			finish_flush();
		return;
	}
	uplink.calls_failed++;
	if (error)
		finish_flush();
	send_event_later();
}

static void send_event(struct deadline *deadline)
{
	struct engine_event *event = event_first();

	if (uplink.event_open || !event)
		return;
	probe_engine_event_sent(clock_ticks(), &engine_control, event->message->sequence, ++event->attempts);
	if (drpc_client_call(uplink.client, &(struct drpc_request){
						    .module = DRPC_MODULE_SRV,
						    .method = DRPC_SRV_CLUSTER_EVENT,
						    .message = &event->message->base,
						    .response = &shared__cluster_event_resp__descriptor,
						    .timeout_ns = CALL_TIMEOUT_SEC * NS_PER_SEC,
						    .done = handle_event_reply,
					    }) == 0) {
		uplink.event_open = true;
		return;
	}
	send_event_later();
}

void uplink_kick(void)
{
	/* after a failure the deadline is set: keep its back-off */
	if (!uplink.event_open && !uplink.event_at.set)
		deadline_set(&engine_control.deadlines, &uplink.event_at, 0, send_event);
}

/* ---- detecting a new server ---- */

static void handle_new_server(void)
{
	uplink.servers_seen++;
	uplink.event_delay_ns = RETRY_MIN_MS * NS_PER_MS;
	if (!uplink.event_open && event_first())
		deadline_set(&engine_control.deadlines, &uplink.event_at, SOCKET_BOUND_MS * NS_PER_MS, send_event);
	if (engine_control.state == ENGINE_RANK_STARTING || engine_control.state == ENGINE_RANK_LEAVING)
		return;
	uplink.notify_wanted = true;
	uplink.notify_delay_ns = RETRY_MIN_MS * NS_PER_MS;
	if (!uplink.notify_open)
		deadline_set(&engine_control.deadlines, &uplink.notify_at, SOCKET_BOUND_MS * NS_PER_MS, send_notify);
}

/* For polling without inotify: whether the socket differs from the last poll's. */
static bool socket_is_new(void)
{
	struct stat status;

	if (stat(uplink.path, &status) != 0)
		return false;
	if (status.st_ino == uplink.socket.st_ino && status.st_dev == uplink.socket.st_dev &&
	    status.st_ctim.tv_sec == uplink.socket.st_ctim.tv_sec &&
	    status.st_ctim.tv_nsec == uplink.socket.st_ctim.tv_nsec)
		return false;
	uplink.socket = status;
	return true;
}

static void poll_socket(struct deadline *deadline);

static void watch_folder(void)
{
	if (uplink.watch_fd >= 0)
		uplink.watch = inotify_add_watch(uplink.watch_fd, engine_control.options->server.socket_dir,
						 IN_CREATE | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR);
	if (uplink.watch < 0)
		deadline_set(&engine_control.deadlines, &uplink.watch_at, POLL_MS * NS_PER_MS, poll_socket);
}

static void poll_socket(struct deadline *deadline)
{
	watch_folder();
	if (socket_is_new())
		handle_new_server();
}

static void handle_folder_events(void *ctx, uint32_t events)
{
	char buffer[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	const struct inotify_event *event;
	bool created = false, gone = false;
	ssize_t bytes;

	while ((bytes = read(uplink.watch_fd, buffer, sizeof(buffer))) > 0) {
		for (ssize_t at = 0; at < bytes; at += (ssize_t)(sizeof(*event) + event->len)) {
			event = (const struct inotify_event *)(buffer + at);
			if (event->mask & IN_Q_OVERFLOW || (event->mask & (IN_CREATE | IN_MOVED_TO) && event->len &&
							    strcmp(event->name, SERVER_SOCKET) == 0))
				created = true;
			if (event->mask & (IN_IGNORED | IN_MOVE_SELF) && event->wd == uplink.watch)
				gone = true;
		}
	}
	if (gone) {
		(void)inotify_rm_watch(uplink.watch_fd,
				       uplink.watch); /* fails if the folder was removed: no watch is left */
		uplink.watch = -1;
		poll_socket(NULL);
	}
	if (created)
		handle_new_server();
}

/* ---- open, close ---- */

/* Set up inotify. If that fails, the socket is polled. */
static void open_watch(void)
{
	uplink.watch_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (uplink.watch_fd >= 0)
		uplink.watch_ready = fd_watch_add(uplink.watch_fd, EPOLLIN, handle_folder_events, NULL);
	if (uplink.watch_ready)
		return;
	log_info("--socket-dir: cannot watch the folder, so it is polled every second: %s", strerror(errno));
	if (uplink.watch_fd >= 0)
		close(uplink.watch_fd);
	uplink.watch_fd = -1;
}

int uplink_open(struct fathom_fault *why)
{
	struct drpc_client_options options = { .path = uplink.path };
	int error;

	snprintf(uplink.path, sizeof(uplink.path), "%s/%s", engine_control.options->server.socket_dir, SERVER_SOCKET);
	error = drpc_client_create(&options, &uplink.client, why);
	if (error)
		return error;
	uplink.notify_delay_ns = uplink.event_delay_ns = RETRY_MIN_MS * NS_PER_MS;
	open_watch();
	watch_folder();
	(void)socket_is_new(); /* remember the socket: a server that already runs gets NotifyReady anyway */
	return 0;
}

void uplink_close(void)
{
	deadline_clear(&engine_control.deadlines, &uplink.notify_at);
	deadline_clear(&engine_control.deadlines, &uplink.event_at);
	deadline_clear(&engine_control.deadlines, &uplink.watch_at);
	deadline_clear(&engine_control.deadlines, &uplink.flush_at);
	fd_watch_remove(&uplink.watch_ready);
	if (uplink.watch_fd >= 0)
		close(uplink.watch_fd);
	uplink.watch_fd = uplink.watch = -1;
	drpc_client_destroy(uplink.client);
	uplink.client = NULL;
	uplink.notify_wanted = false;
	/* drpc_client_destroy() ends calls in flight, and their callbacks set these deadlines again */
	deadline_clear(&engine_control.deadlines, &uplink.notify_at);
	deadline_clear(&engine_control.deadlines, &uplink.event_at);
}

void uplink_stats(json_t *object)
{
	json_put(object, "servers_seen", json_integer((json_int_t)uplink.servers_seen));
	json_put(object, "notified", json_integer((json_int_t)uplink.notified_total));
	json_put(object, "calls_failed", json_integer((json_int_t)uplink.calls_failed));
}

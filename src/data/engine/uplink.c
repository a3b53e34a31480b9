/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the server is told: that we are ready, and what happened. One call of each kind at a time, repeated with a back-off
 * until it is answered, however often the server dies meanwhile.
 *
 * A server that has begun anew has never heard of us. It makes its socket new, which inotify tells; then all delays begin
 * anew, and it is told that we are ready although its predecessor was. Where the folder cannot be watched, because it was
 * removed or this user watches too many, the socket is looked at every second.
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
	AGAIN_MIN_MS = 20,
	AGAIN_MAX_MS = 5000,
	CALL_TIMEOUT_SEC = 10,
	LOOK_MS = 1000,	     /* from one look at the socket to the next, where the folder cannot be watched */
	SOCKET_BOUND_MS = 1, /* from the socket's name being there to somebody listening */
	FLUSH_MS = 1000,     /* how long the end waits for events to be taken */
};

#define SERVER_SOCKET "fathom_server.sock"

static struct {
	struct drpc_client *client;
	char path[ENGINE_PATH_BYTES_MAX + sizeof(SERVER_SOCKET)];
	int watch_fd, watch; /* -1: none */
	struct stat socket;  /* at the last look */
	struct fd_watch *watch_ready;
	struct deadline notify_at, event_at, watch_at, flush_at;
	void (*flushed)(void); /* NULL: nobody waits */
	uint64_t notify_delay_ns, event_delay_ns;
	uint32_t notify_attempts;
	bool notify_wanted, notify_open, event_open;
	uint64_t servers_seen, notified_total, calls_failed;
} uplink = { .watch_fd = -1, .watch = -1 };

static void notify(struct deadline *deadline);
static void send_event(struct deadline *deadline);

static uint64_t longer(uint64_t delay_ns)
{
	return delay_ns * 2 < AGAIN_MAX_MS * NS_PER_MS ? delay_ns * 2 : AGAIN_MAX_MS * NS_PER_MS;
}

/* ---- ready ---- */

static void notify_later(void)
{
	deadline_set(&engine_control.deadlines, &uplink.notify_at, uplink.notify_delay_ns, notify);
	uplink.notify_delay_ns = longer(uplink.notify_delay_ns);
}

static void notified(void *ctx, const struct drpc_result *result)
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
		uplink.notify_delay_ns = AGAIN_MIN_MS * NS_PER_MS; /* another server has come meanwhile */
	} else {
		uplink.calls_failed++;
		if (result->error == 0 && uplink.notify_attempts == 1)
			log_warning("the server does not take it that we are ready: %s", drpc_status_name(result->status));
		uplink.notify_wanted = true;
	}
	notify_later();
}

static void notify(struct deadline *deadline)
{
	Srv__NotifyReadyReq ready;

	if (uplink.notify_open || !uplink.notify_wanted || engine_control.state == ENGINE_RANK_LEAVING)
		return;
	engine_control_fill_ready(&ready);
	probe_engine_notify(clock_ticks(), &engine_control, ++uplink.notify_attempts);
	uplink.notify_wanted = false;
	if (drpc_client_call(uplink.client, DRPC_MODULE_SRV, DRPC_SRV_NOTIFY_READY, &ready.base, NULL,
			     CALL_TIMEOUT_SEC * NS_PER_SEC, notified, NULL) == 0) {
		uplink.notify_open = true;
		return;
	}
	uplink.notify_wanted = true;
	notify_later();
}

void uplink_notify(void)
{
	uplink.notify_wanted = true;
	uplink.notify_delay_ns = AGAIN_MIN_MS * NS_PER_MS;
	if (!uplink.notify_open)
		deadline_set(&engine_control.deadlines, &uplink.notify_at, 0, notify);
}

/* ---- events ---- */

static void flush_on_control(void *ctx)
{
	void (*flushed)(void) = uplink.flushed;

	uplink.flushed = NULL;
	if (flushed)
		flushed();
}

/* Later: the client that is closed then is at work now. */
static void end_flush(void)
{
	deadline_clear(&engine_control.deadlines, &uplink.flush_at);
	if (uplink.flushed)
		thread_send_msg(thread_control(), flush_on_control, NULL);
}

static void flush_timed_out(struct deadline *deadline)
{
	end_flush();
}

void uplink_flush(void (*done)(void))
{
	must(!uplink.flushed);
	if (!event_first()) {
		done();
		return;
	}
	uplink.flushed = done;
	uplink.event_delay_ns = AGAIN_MIN_MS * NS_PER_MS;
	deadline_set(&engine_control.deadlines, &uplink.flush_at, FLUSH_MS * NS_PER_MS, flush_timed_out);
	if (!uplink.event_open)
		deadline_set(&engine_control.deadlines, &uplink.event_at, 0, send_event);
}

static void send_event_later(void)
{
	deadline_set(&engine_control.deadlines, &uplink.event_at, uplink.event_delay_ns, send_event);
	uplink.event_delay_ns = longer(uplink.event_delay_ns);
}

static void event_answered(void *ctx, const struct drpc_result *result)
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
			log_error("the server says that event %llu, \"%s\", is none",
				  (unsigned long long)event->message->sequence, event->message->event->msg);
		event_remove_first(status == 0);
		uplink.event_delay_ns = AGAIN_MIN_MS * NS_PER_MS;
		self_terminate_check();
		if (event_first())
			uplink_kick();
		else
			end_flush();
		return;
	}
	uplink.calls_failed++;
	if (error)
		end_flush();
	send_event_later();
}

static void send_event(struct deadline *deadline)
{
	struct engine_event *event = event_first();

	if (uplink.event_open || !event)
		return;
	probe_engine_event_sent(clock_ticks(), &engine_control, event->message->sequence, ++event->attempts);
	if (drpc_client_call(uplink.client, DRPC_MODULE_SRV, DRPC_SRV_CLUSTER_EVENT, &event->message->base,
			     &shared__cluster_event_resp__descriptor, CALL_TIMEOUT_SEC * NS_PER_SEC, event_answered,
			     NULL) == 0) {
		uplink.event_open = true;
		return;
	}
	send_event_later();
}

void uplink_kick(void)
{
	/* one that failed waits for its time */
	if (!uplink.event_open && !uplink.event_at.set)
		deadline_set(&engine_control.deadlines, &uplink.event_at, 0, send_event);
}

/* ---- a server has come ---- */

static void server_came(void)
{
	uplink.servers_seen++;
	uplink.event_delay_ns = AGAIN_MIN_MS * NS_PER_MS;
	if (!uplink.event_open && event_first())
		deadline_set(&engine_control.deadlines, &uplink.event_at, SOCKET_BOUND_MS * NS_PER_MS, send_event);
	if (engine_control.state == ENGINE_RANK_STARTING || engine_control.state == ENGINE_RANK_LEAVING)
		return;
	uplink.notify_wanted = true;
	uplink.notify_delay_ns = AGAIN_MIN_MS * NS_PER_MS;
	if (!uplink.notify_open)
		deadline_set(&engine_control.deadlines, &uplink.notify_at, SOCKET_BOUND_MS * NS_PER_MS, notify);
}

/* Of where there is nobody to tell us: whether the socket is another than at the last look. */
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

static void look_again(struct deadline *deadline);

static void watch_folder(void)
{
	if (uplink.watch_fd >= 0)
		uplink.watch = inotify_add_watch(uplink.watch_fd, engine_control.options->server.socket_dir,
						 IN_CREATE | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR);
	if (uplink.watch < 0)
		deadline_set(&engine_control.deadlines, &uplink.watch_at, LOOK_MS * NS_PER_MS, look_again);
}

static void look_again(struct deadline *deadline)
{
	watch_folder();
	if (socket_is_new())
		server_came();
}

static void folder_changed(void *ctx, uint32_t events)
{
	char buffer[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	const struct inotify_event *event;
	bool came = false, gone = false;
	ssize_t bytes;

	while ((bytes = read(uplink.watch_fd, buffer, sizeof(buffer))) > 0) {
		for (ssize_t at = 0; at < bytes; at += (ssize_t)(sizeof(*event) + event->len)) {
			event = (const struct inotify_event *)(buffer + at);
			if (event->mask & IN_Q_OVERFLOW || (event->mask & (IN_CREATE | IN_MOVED_TO) && event->len &&
							    strcmp(event->name, SERVER_SOCKET) == 0))
				came = true;
			if (event->mask & (IN_IGNORED | IN_MOVE_SELF) && event->wd == uplink.watch)
				gone = true;
		}
	}
	if (gone) {
		(void)inotify_rm_watch(uplink.watch_fd, uplink.watch); /* gone already, if it was removed */
		uplink.watch = -1;
		look_again(NULL);
	}
	if (came)
		server_came();
}

/* ---- open, close ---- */

/* What tells of new servers. Without it they are looked for. */
static void open_watch(void)
{
	uplink.watch_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (uplink.watch_fd >= 0)
		uplink.watch_ready = fd_watch_add(uplink.watch_fd, EPOLLIN, folder_changed, NULL);
	if (uplink.watch_ready)
		return;
	log_info("--socket-dir: cannot be watched, and is looked at every second: %s", strerror(errno));
	if (uplink.watch_fd >= 0)
		close(uplink.watch_fd);
	uplink.watch_fd = -1;
}

int uplink_open(struct fault *why)
{
	struct drpc_client_options options = { .path = uplink.path };
	int error;

	snprintf(uplink.path, sizeof(uplink.path), "%s/%s", engine_control.options->server.socket_dir, SERVER_SOCKET);
	error = drpc_client_create(&options, &uplink.client, why);
	if (error)
		return error;
	uplink.notify_delay_ns = uplink.event_delay_ns = AGAIN_MIN_MS * NS_PER_MS;
	open_watch();
	watch_folder();
	(void)socket_is_new(); /* who is there now is told anyway */
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
	/* those that were under way have set them again */
	deadline_clear(&engine_control.deadlines, &uplink.notify_at);
	deadline_clear(&engine_control.deadlines, &uplink.event_at);
}

void uplink_stats(json_t *object)
{
	json_put(object, "servers_seen", json_integer((json_int_t)uplink.servers_seen));
	json_put(object, "notified", json_integer((json_int_t)uplink.notified_total));
	json_put(object, "calls_failed", json_integer((json_int_t)uplink.calls_failed));
}

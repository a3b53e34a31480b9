/* SPDX-License-Identifier: BSD-2-Clause */
#include "control/helper/client.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/inject/inject.h"
#include "base/text.h"
#include "control/fault/fault.h"
#include "control/helper/client_internal.h"
#include "control/helper/probes.gen.h"

enum { ENDING_SECONDS_MAX = 5 };

static void schedule_turn(struct helper_client *client);

/* Its parts agree with its state. Called where callbacks enter. */
static void check_client(const struct helper_client *client)
{
	const struct helper_process *process = &client->process;
	bool is_up = client->state == HELPER_STARTING || client->state == HELPER_READY;

	must_be_on(client->thread);
	must((client->state == HELPER_DOWN) == (process->pid == 0));
	must((process->pid == 0) == (process->pid_fd < 0));
	must((process->pid == 0) == (process->ends == NULL));
	must(is_up == (process->fd >= 0)); /* an ENDING helper's socket is closed */
	must(is_up == (process->answers != NULL));
	must(process->pid != 0 || process->words.fd < 0); /* no pipe without a process */
	must(client->pause <= client->pause_max);
	must(helper_calls_count(client, HELPER_CALL_SENT) <= HELPER_REQUESTS_MAX);
	/* only a READY helper gets calls, and its reaping fails those that it had */
	must(client->state == HELPER_READY || client->state == HELPER_ENDING ||
	     helper_calls_count(client, HELPER_CALL_SENT) == 0);
	must(client->state != HELPER_READY || client->start_why.error == 0);
}

/* ---- the helper's process ---- */

/* Back-off before the next start. */
static void pause_starting(struct helper_client *client, uint64_t now)
{
	client->pause = min_u64(client->pause_max, client->pause ? 2 * client->pause : client->pause_min);
	client->start_from = now + client->pause;
}

/* Kill the helper for this reason. Its calls fail when it is reaped, since its exit status is part of their fault. */
static void end_helper(struct helper_client *client, enum helper_end why)
{
	uint64_t now = reactor_now();

	must(client->state == HELPER_STARTING || client->state == HELPER_READY);
	client->never_ready = client->state == HELPER_STARTING;
	if (client->never_ready)
		pause_starting(client, now);
	client->end = why;
	client->limit = now + clock_ticks_from_ns(ENDING_SECONDS_MAX * NS_PER_SEC);
	client->stats.hung += why == HELPER_END_HUNG;
	client->stats.died += why == HELPER_END_UNASKED || why == HELPER_END_NONSENSE;
	client->stats.foreign += why == HELPER_END_FOREIGN;
	probe_helper_ended(now, client, client->process.pid, why, helper_calls_count(client, HELPER_CALL_SENT));
	helper_process_kill(client);
	helper_state_move(now, client, HELPER_ENDING);
}

/* The fault for calls that waited for this helper, by the reason and its exit status. */
static void explain_end(const struct helper_client *client, int status, struct fathom_fault *why)
{
	char how[HELPER_PROGRAM_BYTES_MAX + 64];

	if (client->never_ready && (client->end == HELPER_END_HUNG || client->end == HELPER_END_UNASKED)) {
		if (client->end == HELPER_END_HUNG)
			snprintf(how, sizeof(how), "it did not answer the first ping");
		else if (WIFSIGNALED(status))
			snprintf(how, sizeof(how), "it was ended by signal %d", WTERMSIG(status));
		else
			snprintf(how, sizeof(how), "it ended with status %d", WEXITSTATUS(status));
		fill_fault_helper_not_started(why, client->program, how); /* waiting calls fail with it */
		return;
	}
	if (client->end == HELPER_END_FOREIGN) {
		*why = client->start_why;
		return;
	}
	if (client->end == HELPER_END_HUNG)
		snprintf(how, sizeof(how), "%s did not answer", client->program);
	else if (client->end == HELPER_END_NONSENSE)
		snprintf(how, sizeof(how), "%s sent an invalid answer", client->program);
	else if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
		snprintf(how, sizeof(how), "%s was ended by signal %d", client->program, WTERMSIG(status));
	else if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
		snprintf(how, sizeof(how), "%s ended with status %d", client->program, WEXITSTATUS(status));
	else
		snprintf(how, sizeof(how), "%s ended meanwhile", client->program);
	fill_fault_helper_ended(why, how); /* its calls fail with it */
}

/* The helper is reaped. Calls that were not sent wait for the next helper, unless this one never became ready. */
static void on_helper_reaped(struct helper_client *client, int status)
{
	struct fathom_fault why;

	must(client->state == HELPER_ENDING);
	must(client->process.pid == 0);
	explain_end(client, status, &why);
	must(why.error < 0);
	helper_state_move(reactor_now(), client, HELPER_DOWN);
	client->stats.lost += helper_calls_count(client, HELPER_CALL_SENT);
	helper_calls_fail(client, HELPER_CALL_SENT, &why);
	if (client->never_ready)
		client->start_why = why;
	schedule_turn(client);
}

void helper_client_process_gone(void *ctx, uint32_t events)
{
	struct helper_client *client = ctx;
	int status;

	check_client(client);
	if (client->state == HELPER_STARTING || client->state == HELPER_READY) {
		helper_client_readable(client, EPOLLIN); /* first handle the answers that it has sent */
		if (client->state != HELPER_ENDING)
			end_helper(client, HELPER_END_UNASKED);
	}
	if (helper_process_reap(client, false, &status))
		on_helper_reaped(client, status);
}

static void start_helper(struct helper_client *client)
{
	struct helper_request ping = { .operation = HELPER_PING };
	uint8_t frame[HELPER_FRAME_BYTES_MAX];
	size_t bytes = helper_encode_request(&ping, frame);
	uint64_t now = reactor_now();

	helper_state_move(now, client, HELPER_STARTING);
	if (helper_process_start(client, &client->start_why) != 0) {
		pause_starting(client, now);
		helper_state_move(now, client, HELPER_DOWN);
		return;
	}
	client->stats.started++;
	client->limit = now + client->start_limit;
	probe_helper_started(now, client, client->process.pid);
	if (send(client->process.fd, frame, bytes, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)bytes)
		end_helper(client, HELPER_END_UNASKED);
}

/* ---- answers ---- */

static void check_first_ping(struct helper_client *client, const struct helper_reply *reply)
{
	if (client->state != HELPER_STARTING || reply->operation != HELPER_PING || reply->error) {
		end_helper(client, HELPER_END_NONSENSE);
		return;
	}
	if (client->version[0] != '\0' && strcmp(client->version, reply->version) != 0) {
		fill_fault(&client->start_why, -ECONNRESET, "%s has version %s, the server %s: install both of one release",
			   client->program, reply->version, client->version); /* waiting calls fail with it */
		end_helper(client, HELPER_END_FOREIGN);
		return;
	}
	client->pause = 0;
	client->start_from = 0;
	helper_state_move(reactor_now(), client, HELPER_READY);
	schedule_turn(client);
}

static void handle_answer(struct helper_client *client, const uint8_t *frame, size_t bytes)
{
	struct helper_reply reply;
	struct helper_call *call;
	struct fathom_fault why;

	if (helper_decode_reply(frame, bytes, &reply, &why) != 0) {
		end_helper(client, HELPER_END_NONSENSE);
		return;
	}
	if (reply.id == 0) {
		check_first_ping(client, &reply);
		return;
	}
	TAILQ_FOREACH (call, &client->calls, link) {
		if (call->request.id != reply.id || call->state != HELPER_CALL_SENT)
			continue;
		if (reply.operation != call->request.operation) {
			end_helper(client, HELPER_END_NONSENSE);
			return;
		}
		helper_call_finish(call, &reply);
		schedule_turn(client); /* another call can be sent */
		return;
	}
	end_helper(client, HELPER_END_NONSENSE); /* no call has this id */
}

void helper_client_readable(void *ctx, uint32_t events)
{
	struct helper_client *client = ctx;
	uint8_t frame[HELPER_FRAME_BYTES_MAX];

	check_client(client);
	while (client->state == HELPER_STARTING || client->state == HELPER_READY) {
		ssize_t got = recv(client->process.fd, frame, sizeof(frame), MSG_DONTWAIT | MSG_TRUNC);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && errno == EAGAIN)
			return;
		if (got <= 0)
			end_helper(client, HELPER_END_UNASKED);
		else
			handle_answer(client, frame, (size_t)got);
	}
}

/* ---- turns ---- */

static void send_waiting(struct helper_client *client)
{
	uint32_t sent = helper_calls_count(client, HELPER_CALL_SENT);
	uint8_t frame[HELPER_FRAME_BYTES_MAX];
	struct helper_call *call;

	must(client->state == HELPER_READY);
	must(sent <= HELPER_REQUESTS_MAX);
	TAILQ_FOREACH (call, &client->calls, link) {
		struct fathom_fault why;
		size_t bytes;
		int error;

		if (call->state != HELPER_CALL_WAITING)
			continue;
		if (sent == HELPER_REQUESTS_MAX)
			return;
		error = inject(INJECT_HELPER_CALL);
		if (error) {
			fill_fault(&why, error, "no request can be sent to %s: %s", client->program, strerror(-error));
			helper_call_fail(call, &why);
			schedule_turn(client); /* for the others */
			return;
		}
		bytes = helper_encode_request(&call->request, frame);
		if (send(client->process.fd, frame, bytes, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)bytes)
			return; /* it has ended, which its pidfd reports; or the socket is full, and on_tick() retries */
		helper_call_state_move(reactor_now(), call, HELPER_CALL_SENT);
		call->limit = reactor_now() + clock_ticks_from_ns(call->request.timeout_ms * NS_PER_MS) + client->grace;
		sent++;
	}
}

/* The helper exceeded the call's time-out: kill it, and fail the call. */
static void kill_hung_helper(struct helper_client *client, struct helper_call *call)
{
	struct fathom_fault why;

	must(call->state == HELPER_CALL_SENT);
	helper_call_explain_time_out(call, &why);
	end_helper(client, HELPER_END_HUNG);
	client->stats.timed_out++;
	helper_call_fail(call, &why);
}

static int on_tick(void *ctx)
{
	struct helper_client *client = ctx;
	uint64_t now = reactor_now();
	struct helper_call *call;
	int status;

	check_client(client);
	if (client->state == HELPER_STARTING && now >= client->limit)
		end_helper(client, HELPER_END_HUNG);
	else if (client->state == HELPER_READY) {
		TAILQ_FOREACH (call, &client->calls, link) {
			if (call->state == HELPER_CALL_SENT && now >= call->limit) {
				kill_hung_helper(client, call);
				break;
			}
		}
	} else if (client->state == HELPER_ENDING && helper_process_reap(client, false, &status)) {
		on_helper_reaped(client, status);
	}
	schedule_turn(client);
	return 0;
}

static void set_ticker(struct helper_client *client)
{
	bool wanted = !TAILQ_EMPTY(&client->calls) || client->state == HELPER_STARTING || client->state == HELPER_ENDING;

	if (wanted && !client->ticker) {
		client->ticker = poller_register("helper_client", on_tick, client, HELPER_TICK_MS * NS_PER_MS);
		must(client->ticker);
	} else if (!wanted) {
		poller_unregister(&client->ticker);
	}
}

static void run_turn(void *ctx)
{
	struct helper_client *client = ctx;
	uint64_t now = reactor_now();

	must(client->turning);
	client->turning = false;
	if (client->destroyed) {
		must(TAILQ_EMPTY(&client->calls));
		free(client);
		return;
	}
	check_client(client);
	if (client->state == HELPER_DOWN && helper_calls_count(client, HELPER_CALL_WAITING) > 0 &&
	    now >= client->start_from) {
		client->start_why.error = 0;
		start_helper(client);
	}
	if (client->state == HELPER_READY)
		send_waiting(client);
	helper_calls_fail_expired(client, now);
	set_ticker(client);
}

static void schedule_turn(struct helper_client *client)
{
	if (client->turning)
		return;
	client->turning = true;
	thread_send_msg(client->thread, run_turn, client);
}

/* ---- the door ---- */

static uint64_t ticks_or(uint64_t ns, uint64_t otherwise_ns)
{
	return clock_ticks_from_ns(ns ? ns : otherwise_ns);
}

struct helper_client *helper_client_create(const struct helper_client_options *options, struct fathom_fault *why)
{
	struct helper_client *client = calloc(1, sizeof(*client));

	must(thread_self());
	must(options->program);
	if (!client) {
		fill_fault(why, -ENOMEM, "out of memory for the helper's client");
		return NULL;
	}
	if (text_copy(client->program, sizeof(client->program), options->program) != 0 ||
	    text_copy(client->config, sizeof(client->config), options->config ? options->config : "") != 0 ||
	    text_copy(client->version, sizeof(client->version), options->version ? options->version : "") != 0) {
		fill_fault(why, -ENAMETOOLONG, "%s: longer than a path of the helper may be", options->program);
		free(client);
		return NULL;
	}
	trace_object_init(&client->trace, TRACE_OBJECT_HELPER_CLIENT);
	client->thread = thread_self();
	client->process = (struct helper_process){ .pid_fd = -1, .fd = -1 };
	client->said = options->said;
	client->said_ctx = options->said_ctx;
	client->process.words.fd = -1;
	client->grace = ticks_or(options->grace_ns, 2 * NS_PER_SEC);
	client->start_limit = ticks_or(options->start_ns, 5 * NS_PER_SEC);
	client->pause_min = ticks_or(options->pause_min_ns, 100 * NS_PER_MS);
	client->pause_max = ticks_or(options->pause_max_ns, 10 * NS_PER_SEC);
	client->next_id = 1;
	TAILQ_INIT(&client->calls);
	return client;
}

void helper_client_destroy(struct helper_client *client)
{
	struct fathom_fault why;
	int status;

	if (!client)
		return;
	must_be_on(client->thread);
	must(!client->destroyed);
	if (client->state == HELPER_STARTING || client->state == HELPER_READY)
		end_helper(client, HELPER_END_DESTROYED);
	if (client->state == HELPER_ENDING) {
		(void)helper_process_reap(client, true, &status); /* it is killed and has no device open: a short wait */
		helper_state_move(reactor_now(), client, HELPER_DOWN);
	}
	must(client->process.pid == 0);
	fill_fault(&why, -ECANCELED, "the server has closed its helper");
	client->destroyed = true;
	while (!TAILQ_EMPTY(&client->calls))
		helper_call_fail(TAILQ_FIRST(&client->calls), &why);
	poller_unregister(&client->ticker);
	if (!client->turning)
		free(client);
}

void helper_client_submit(struct helper_client *client, const struct helper_request *request, helper_done_fn done,
			  void *ctx)
{
	struct helper_call *call = calloc(1, sizeof(*call));
	uint64_t now = reactor_now();

	must_be_on(client->thread);
	must(!client->destroyed);
	must(done);
	must(request->operation >= HELPER_PING);
	must(request->operation < HELPER_OPERATIONS_END);
	must(call); /* as for messages: a server that cannot allocate so little must end */
	*call = (struct helper_call){ .client = client, .request = *request, .done = done, .ctx = ctx, .began = now };
	call->request.id = client->next_id++;
	must(call->request.id != 0); /* the id of a start's ping */
	if (call->request.timeout_ms == 0 || call->request.timeout_ms > helper_operation_limit_ms(request->operation))
		call->request.timeout_ms = helper_operation_limit_ms(request->operation);
	call->limit = now + clock_ticks_from_ns(call->request.timeout_ms * NS_PER_MS) + client->grace;
	trace_object_init(&call->trace, TRACE_OBJECT_HELPER_CALL);
	TAILQ_INSERT_TAIL(&client->calls, call, link);
	helper_call_state_move(now, call, HELPER_CALL_WAITING);
	probe_helper_call_begin(now, call, helper_call_operation(call),
				trace_intern(request->device[0] != '\0' ? request->device : request->target));
	schedule_turn(client);
}

void helper_client_get_stats(const struct helper_client *client, struct helper_client_stats *stats)
{
	*stats = client->stats;
	stats->waiting = helper_calls_count(client, HELPER_CALL_WAITING);
	stats->sent = helper_calls_count(client, HELPER_CALL_SENT);
	stats->pid = client->process.pid;
}

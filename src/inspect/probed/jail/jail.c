/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * jail - the public functions, and the life of children: start, answers, end. work.h defines the states; orders.c assigns
 * requests to children.
 *
 * The beat poller, which runs only while work is in progress, detects timeouts. It ends requests that would expire before
 * the next beat, so an error comes early by at most one period, never late.
 */
#include "inspect/probed/jail/jail.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/text.h"
#include "inspect/probed/jail/work.h"
#include "base/reactor/reactor.h"

enum {
	CHILDREN_DEFAULT = 4,
	BEATS_PER_TIMEOUT = 16,
	/* a child is replaced after an object above this size, to free its memory */
	KEPT_BYTES_MAX = 1 << 20,
	ROOM_BYTES_DEFAULT = 64 << 20,
	ROOM_BYTES_MIN = 64 << 10
};
static_assert(CHILDREN_DEFAULT > 1, "large objects leave one child to small ones");
static_assert((int)ROOM_BYTES_DEFAULT >= (int)ROOM_BYTES_MIN, "");
static_assert((int)KEPT_BYTES_MAX >= (int)JAIL_SLICE_BYTES, "a child is kept after a small object");

static void handle_parser_answer(void *ctx, uint32_t events);

/* ---- replies ---- */

static void complete_jail_request(struct jail *jail, struct request *request, int error, struct dof_set *set,
				  const struct fathom_fault *why)
{
	bool in_done = jail->in_done;

	must(error <= 0);
	must((error == 0) == (set != NULL));
	jail->in_done = true;
	request->done(request->ctx, error, set, why);
	jail->in_done = in_done;
	free(request);
}

static void complete_all_settled(struct jail *jail)
{
	struct request *request;

	while ((request = TAILQ_FIRST(&jail->settled))) {
		struct fathom_fault why = request->why; /* copy: complete_jail_request() frees the request */

		TAILQ_REMOVE(&jail->settled, request, in_list);
		complete_jail_request(jail, request, why.error, NULL, &why);
	}
}

static void complete_settled(void *ctx)
{
	struct jail *jail = ctx;

	must(jail->settle_pending);
	jail->settle_pending = false;
	if (jail->destroyed)
		free(jail);
	else
		complete_all_settled(jail);
}

void jail_settle(struct jail *jail, struct request *request)
{
	must(request->why.error < 0);
	must(!jail->destroyed);
	TAILQ_INSERT_TAIL(&jail->settled, request, in_list);
	if (!jail->settle_pending)
		thread_send_msg(thread_self(), complete_settled, jail);
	jail->settle_pending = true;
}

/* ---- children ---- */

static void add_ending(struct jail *jail, pid_t pid)
{
	must(pid > 0); /* 0 and -1 would wait for any child */
	if (jail->ending_count == jail->ending_room) {
		uint32_t room = jail->ending_room ? 2 * jail->ending_room : 8;
		pid_t *ending = realloc(jail->ending, room * sizeof(*ending));

		must(ending); /* a child that we cannot reap must not remain, and these are few bytes */
		jail->ending = ending;
		jail->ending_room = room;
	}
	must(jail->ending_count < jail->ending_room);
	jail->ending[jail->ending_count++] = pid;
}

struct request *jail_end_child(struct child *child, enum jail_end why, int *status_ret)
{
	struct request *request = child->request;
	struct jail *jail = child->jail;
	bool has_died = why == JAIL_END_DIED;
	int status = -1;

	must((request != NULL) == (child->state == FILLING || child->state == BUSY));
	must(jail->stats.children > 0);
	must(!request || jail->stats.busy > 0);
	fd_watch_remove(&child->watch);
	if (!jail_process_end(&child->process, has_died, &status))
		add_ending(jail, child->process.pid);
	probe_jail_child_ended(clock_ticks(), child->process.pid, why,
			       has_died && status >= 0 && WIFSIGNALED(status) ? WTERMSIG(status) : 0);
	if (status_ret)
		*status_ret = status;
	TAILQ_REMOVE(&jail->children, child, in_jail);
	jail->stats.children--;
	free(child);
	return request;
}

struct child *jail_start_child(struct jail *jail, struct fathom_fault *why)
{
	struct child *child = calloc(1, sizeof(*child));

	must(!jail->destroyed);
	must(jail->stats.children < jail->options.children_max);
	if (!child) {
		fill_fault(why, -ENOMEM, "cannot start a parser: out of memory");
		return NULL;
	}
	child->jail = jail;
	child->state = STARTING;
	child->deadline = clock_monotonic_ns() + jail->options.timeout_ns;
	if (jail_process_start(jail->options.program, &jail->sizes, &child->process, why) != 0) {
		free(child);
		return NULL;
	}
	child->watch = fd_watch_add(child->process.answers, EPOLLIN, handle_parser_answer, child);
	if (!child->watch) {
		fill_fault(why, -errno, "cannot watch the pipe of a parser: %s", strerror(errno));
		if (!jail_process_end(&child->process, false, NULL))
			add_ending(jail, child->process.pid);
		free(child);
		return NULL;
	}
	TAILQ_INSERT_TAIL(&jail->children, child, in_jail);
	jail->stats.children++;
	jail->stats.children_started++;
	probe_jail_child_started(clock_ticks(), child->process.pid);
	return child;
}

void jail_refuse_waiting(struct jail *jail, const struct fathom_fault *why)
{
	struct request *request;

	while ((request = TAILQ_FIRST(&jail->waiting))) {
		must(jail->stats.waiting > 0);
		TAILQ_REMOVE(&jail->waiting, request, in_list);
		jail->stats.waiting--;
		jail->stats.died++;
		fill_fault(&request->why, -ECHILD, "%s", why->text);
		jail_settle(jail, request);
	}
}

/* ---- answers ---- */

/* The errors of dof_parse(). */
static bool is_parse_error(int error)
{
	return error == -EINVAL || error == -E2BIG || error == -ENOTSUP || error == -EEXIST || error == -ENOMEM;
}

/* Read the set of an answer of `bytes`. The child is untrusted: an invalid length or set is -EPROTO. Also -ENOMEM. */
static int read_set(const struct child *child, uint64_t bytes, struct dof_set *set_ret, struct fathom_fault *why)
{
	const struct jail_sizes *sizes = &child->jail->sizes;
	void *data;
	int rc;

	must(child->state == BUSY);
	if (bytes > sizes->answer_max)
		return fault(why, -EPROTO, "an answer with the invalid length of %" PRIu64 " bytes", bytes);
	data = malloc(max_u64(bytes, 1));
	if (!data)
		return fault(why, -ENOMEM, "out of memory for an answer of %" PRIu64 " bytes", bytes);
	rc = pread(child->process.memory, data, bytes, (off_t)jail_answer_at(sizes->blocks_max)) == (ssize_t)bytes
		     ? dof_unpack(data, bytes, set_ret, why)
		     : fault(why, -EPROTO, "an answer without its data");
	free(data);
	return rc;
}

/* Fail the request of a child that has been ended. */
static void fail_request(struct jail *jail, struct request *request, struct fathom_fault *why)
{
	must(jail->stats.busy > 0);
	must(why->error < 0);
	jail->stats.busy--;
	complete_jail_request(jail, request, why->error, NULL, why);
}

/* The child violated the protocol: end it and fail its request, if any. */
static void end_misbehaving_child(struct child *child, const char *what)
{
	bool was_starting = child->state == STARTING;
	struct jail *jail = child->jail;
	struct request *request = jail_end_child(child, JAIL_END_NONSENSE, NULL);
	struct fathom_fault why;

	jail->stats.nonsense++;
	fill_fault(&why, -EPROTO, "the parser violated the protocol: %s", what);
	if (request)
		fail_request(jail, request, &why);
	else if (was_starting && TAILQ_EMPTY(&jail->children))
		jail_refuse_waiting(jail, &why);
}

static void process_answer(struct child *child, struct jail_answer *answer)
{
	struct jail *jail = child->jail;
	struct request *request = child->request;
	struct fathom_fault why = { 0 };
	struct dof_set set;
	uint64_t now;
	int rc = answer->error;

	must(child->state == BUSY);
	must(request);
	answer->text[sizeof(answer->text) - 1] = '\0';
	if (answer->sequence != child->sequence || (rc && !is_parse_error(rc))) {
		end_misbehaving_child(child, "an unexpected answer");
		return;
	}
	if (rc == 0)
		rc = read_set(child, answer->bytes, &set, &why);
	else
		why.text[text_utf8_copy(why.text, sizeof(why.text) - 1, answer->text, strlen(answer->text))] = '\0';
	if (rc == -EPROTO) {
		end_misbehaving_child(child, why.text);
		return;
	}
	must(jail->stats.busy > 0);
	why.error = rc;
	child->state = IDLE;
	child->request = NULL;
	jail->stats.busy--;
	jail->stats.parsed += rc == 0;
	jail->stats.refused += rc != 0;
	now = clock_ticks();
	probe_jail_parse_done(now, child->process.pid, rc ? 0 : answer->bytes, rc, now - child->given_tick);
	if (jail_input_bytes(&request->input) > KEPT_BYTES_MAX)
		(void)jail_end_child(child, JAIL_END_LARGE, NULL); /* it has none any more */
	complete_jail_request(jail, request, rc, rc ? NULL : &set, &why);
}

/* The first answer of a child: it is confined, or why not. */
static void process_greeting(struct child *child, const struct jail_answer *answer)
{
	struct jail *jail = child->jail;
	struct fathom_fault why;

	must(child->state == STARTING);
	must(!child->request);
	if (answer->sequence == 0 && answer->error == 0) {
		child->state = IDLE;
		return;
	}
	fill_fault(&why, -ECHILD, "%.*s", (int)sizeof(answer->text) - 1, answer->text);
	(void)jail_end_child(child, JAIL_END_STARTING, NULL); /* it had none */
	if (TAILQ_EMPTY(&jail->children))
		jail_refuse_waiting(jail, &why);
}

static void handle_death(struct child *child)
{
	/* an unread order cannot have caused the death: the request is retried with another child */
	bool was_starting = child->state == STARTING;
	bool is_retried = child->state == FILLING ||
			  (child->state == BUSY && jail_process_has_unread_order(&child->process));
	struct jail *jail = child->jail;
	struct request *request;
	struct fathom_fault why;
	int status;

	request = jail_end_child(child, JAIL_END_DIED, &status);
	if (status >= 0 && WIFSIGNALED(status))
		fill_fault(&why, -ECHILD, "the parser died of signal %d (%s)", WTERMSIG(status),
			   strsignal(WTERMSIG(status)));
	else
		fill_fault(&why, -ECHILD, "the parser ended, with status %d", status >= 0 ? WEXITSTATUS(status) : -1);
	if (request && is_retried) {
		must(jail->stats.busy > 0);
		jail->stats.busy--;
		TAILQ_INSERT_HEAD(&jail->waiting, request, in_list);
		jail->stats.waiting++;
	} else if (request) {
		jail->stats.died++;
		fail_request(jail, request, &why);
	} else if (was_starting && TAILQ_EMPTY(&jail->children)) {
		jail_refuse_waiting(jail, &why);
	}
}

static void handle_parser_answer(void *ctx, uint32_t events)
{
	/* one more byte than an answer, to detect excess */
	struct {
		struct jail_answer answer;
		char more;
	} heard;
	struct child *child = ctx;
	struct jail *jail = child->jail;
	ssize_t bytes = read(child->process.answers, &heard, sizeof(heard.answer) + 1);

	if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (bytes <= 0)
		handle_death(child);
	else if (bytes != sizeof(heard.answer))
		end_misbehaving_child(child, "an answer of the wrong length");
	else if (child->state == STARTING)
		process_greeting(child, &heard.answer);
	else if (child->state == BUSY)
		process_answer(child, &heard.answer);
	else if (child->state == FILLING)
		jail_requeue_request(child, true);
	else
		end_misbehaving_child(child, "an answer without an order");
	jail_schedule(jail);
}

/* ---- time ---- */

static bool end_one_expired(struct jail *jail, uint64_t now)
{
	uint64_t timeout_ms = jail->options.timeout_ns / NS_PER_MS;
	struct request *request;
	struct child *child;
	struct fathom_fault why;

	TAILQ_FOREACH (child, &jail->children, in_jail) {
		if (child->state == IDLE || child->deadline > now)
			continue;
		fill_fault(&why, -ETIMEDOUT, "the parser stalled for %" PRIu64 " ms", timeout_ms);
		request = jail_end_child(child, JAIL_END_STALLED, NULL);
		jail->stats.timed_out++;
		if (request)
			fail_request(jail, request, &why);
		return true;
	}
	TAILQ_FOREACH (request, &jail->waiting, in_list) {
		if (request->deadline > now)
			continue;
		must(jail->stats.waiting > 0);
		TAILQ_REMOVE(&jail->waiting, request, in_list);
		jail->stats.waiting--;
		jail->stats.timed_out++;
		fill_fault(&why, -ETIMEDOUT, "no parser was free within %" PRIu64 " ms", timeout_ms);
		complete_jail_request(jail, request, why.error, NULL, &why);
		return true;
	}
	return false;
}

static int check_timeouts(void *ctx)
{
	struct jail *jail = ctx;
	/* also what would expire before the next beat */
	uint64_t now = clock_monotonic_ns() + jail->beat_ns;
	bool any = false;

	while (end_one_expired(jail, now))
		any = true;
	must(jail->ending_count <= jail->ending_room);
	for (uint32_t i = 0; i < jail->ending_count;) {
		if (jail_process_reap(jail->ending[i]))
			jail->ending[i] = jail->ending[--jail->ending_count];
		else
			i++;
	}
	jail_schedule(jail);
	return any;
}

/* ---- public functions ---- */

static void set_options(struct jail *jail, const struct jail_options *options)
{
	struct jail_options *full = &jail->options;

	*full = *options;
	full->children_max = full->children_max ? full->children_max : CHILDREN_DEFAULT;
	full->timeout_ns = full->timeout_ns ? full->timeout_ns : 5 * NS_PER_SEC;
	full->memory_bytes = max_u64(full->memory_bytes ? full->memory_bytes : ROOM_BYTES_DEFAULT, ROOM_BYTES_MIN);
	full->limits.bytes_max = full->limits.bytes_max ? full->limits.bytes_max : DOF_BYTES_MAX;
	full->limits.probes_max = full->limits.probes_max ? full->limits.probes_max : DOF_PROBES_MAX;
	jail->sizes = (struct jail_sizes){ full->limits.bytes_max, round_up(full->memory_bytes, 4096),
					   round_up(full->memory_bytes, 4096) };
	jail->beat_ns = max_u64(full->timeout_ns / BEATS_PER_TIMEOUT, NS_PER_MS);
	jail->beat_ns = min_u64(jail->beat_ns, full->timeout_ns);
	must(jail->beat_ns > 0);
	must(jail->sizes.room > 0 && jail->sizes.answer_max > 0);
}

/* Start the first child, and wait for its first answer. */
static int start_first_child(struct jail *jail, struct fathom_fault *why)
{
	struct child *child = jail_start_child(jail, why);
	int timeout_ms = (int)min_u64(jail->options.timeout_ns / NS_PER_MS + 1, INT32_MAX);
	struct jail_answer answer = { 0 };
	ssize_t bytes;

	if (!child)
		return why->error;
	if (poll(&(struct pollfd){ .fd = child->process.answers, .events = POLLIN }, 1, timeout_ms) <= 0)
		return fault(why, -ETIMEDOUT, "a parser does not start within %d ms", timeout_ms);
	bytes = read(child->process.answers, &answer, sizeof(answer));
	if (bytes != sizeof(answer))
		return fault(why, -ECHILD, "a parser ended immediately after its start");
	if (answer.error)
		return fault(why, -ECHILD, "%.*s", (int)sizeof(answer.text) - 1, answer.text);
	must(child->state == STARTING && !child->request);
	child->state = IDLE;
	return 0;
}

struct jail *jail_create(const struct jail_options *options, struct fathom_fault *why)
{
	struct jail *jail = calloc(1, sizeof(*jail));
	struct fathom_fault unheard;

	why = why ? why : &unheard;
	must(thread_self());
	if (!jail) {
		fill_fault(why, -ENOMEM, "out of memory for the jail");
		return NULL;
	}
	TAILQ_INIT(&jail->children);
	TAILQ_INIT(&jail->waiting);
	TAILQ_INIT(&jail->settled);
	set_options(jail, options);
	jail->beat = poller_register("jail", check_timeouts, jail, jail->beat_ns);
	jail->filler = poller_register("jail_fill", jail_fill, jail, JAIL_TURN_NS);
	if (!jail->beat || !jail->filler)
		fill_fault(why, -ENOMEM, "out of memory for the jail's timers");
	if (!jail->beat || !jail->filler || start_first_child(jail, why) != 0) {
		jail_destroy(jail);
		return NULL;
	}
	poller_pause(jail->beat);
	poller_pause(jail->filler);
	return jail;
}

void jail_destroy(struct jail *jail)
{
	struct fathom_fault why;
	struct child *child;

	if (!jail)
		return;
	must(!jail->in_done);
	must(!jail->destroyed);
	fill_fault(&why, -ECANCELED, "the registry is ending");
	while ((child = TAILQ_FIRST(&jail->children))) {
		struct request *request = jail_end_child(child, JAIL_END_UNNEEDED, NULL);

		if (request)
			complete_jail_request(jail, request, why.error, NULL, &why);
	}
	while (!TAILQ_EMPTY(&jail->waiting)) {
		struct request *request = TAILQ_FIRST(&jail->waiting);

		TAILQ_REMOVE(&jail->waiting, request, in_list);
		complete_jail_request(jail, request, why.error, NULL, &why);
	}
	complete_all_settled(jail);
	must(jail->stats.children == 0);
	poller_unregister(&jail->beat);
	poller_unregister(&jail->filler);
	/* they are killed, so this wait is short; it leaves no zombies */
	for (uint32_t i = 0; i < jail->ending_count; i++)
		(void)!waitpid(jail->ending[i], NULL, 0);
	free(jail->ending);
	jail->destroyed = true;
	if (!jail->settle_pending)
		free(jail);
}

void jail_parse(struct jail *jail, const struct dof_input *input, jail_done_fn done, void *ctx)
{
	struct request *request = calloc(1, sizeof(*request));
	uint64_t bytes_max = jail->options.limits.bytes_max, bytes = 0;

	must(request); /* out of memory aborts, as for a message */
	must(!jail->destroyed);
	must(done);
	*request = (struct request){ .input = *input, .done = done, .ctx = ctx };
	request->deadline = clock_monotonic_ns() + jail->options.timeout_ns;
	for (size_t i = 0; i < DOF_BLOCKS_MAX; i++)
		bytes = input->blocks[i].bytes > bytes_max ? UINT64_MAX / 2 : bytes + input->blocks[i].bytes;
	if (bytes > bytes_max) {
		jail->stats.refused++;
		fill_fault(&request->why, -E2BIG, "more than %" PRIu64 " bytes", bytes_max);
		jail_settle(jail, request);
		return;
	}
	TAILQ_INSERT_TAIL(&jail->waiting, request, in_list);
	jail->stats.waiting++;
	jail_schedule(jail);
}

void jail_get_stats(const struct jail *jail, struct jail_stats *stats)
{
	*stats = jail->stats;
}

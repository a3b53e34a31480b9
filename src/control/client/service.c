/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Call the management service. It is unknown which of the configured hosts runs it.
 *
 *     places: all addresses of the hosts, in turn -> success: done
 *                                                 -> redirect: its addresses become the places
 *                                                 -> unreachable: try the next place
 *     all places tried -> a server was starting, or patience is left: wait, then start again with the hosts
 *                      -> else return the last fault
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "control/client/internal.h"
#include "control/fault/fault.h"
#include "control/status/status.h"

enum { REDIRECTS_MAX = 8 };

#define BACK_OFF_MIN_NS (250 * NS_PER_MS)
#define BACK_OFF_MAX_NS (8 * NS_PER_SEC)
#define READ_NS_MIN (5 * NS_PER_SEC) /* minimum time for one of several servers before the next one is called */

struct service_task {
	struct task task;
	const struct request *request;
	take_fn take;
	void *ctx;
	struct address *addresses; /* of the hosts */
	size_t host_count;
	const char **places;	   /* addresses of the hosts or of `redirect`, with room for both */
	size_t place_count, place; /* `place`: index of the address being called */
	struct status_redirect redirect;
	unsigned int redirects; /* in this round */
	bool starting;		/* a server was starting in this round */
	uint64_t back_off_ns, patience_end_ns;
	struct deadline wait;
	struct fathom_fault last;      /* error 0: none yet */
	struct fathom_fault untrusted; /* from a reachable server, so a better explanation than `last`; error 0: none yet */
};

static void try_places(struct service_task *service);

static struct service_task *service_of(struct task *task)
{
	return container_of(task, struct service_task, task);
}

static void add_place(struct service_task *service, const char *address)
{
	if (!address[0])
		return;
	for (size_t i = 0; i < service->place_count; i++) {
		if (strcmp(service->places[i], address) == 0)
			return;
	}
	service->places[service->place_count++] = address;
}

/* Start a round with the addresses of all hosts. */
static void start_round(struct service_task *service)
{
	service->place_count = service->place = 0;
	service->redirects = 0;
	service->starting = false;
	for (size_t kind = 0; kind < ADDRESSES_MAX; kind++) {
		for (size_t i = 0; i < service->host_count; i++) {
			if (kind < service->addresses[i].count)
				add_place(service, service->addresses[i].text[kind]);
			else if (service->addresses[i].count == 0)
				service->last = service->addresses[i].why;
		}
	}
}

bool result_is_unreached(const struct grpc_result *result)
{
	return result->is_unsent || result->error == -ECONNREFUSED || result->error == -EHOSTUNREACH ||
	       result->error == -ENETUNREACH || result->error == -EADDRNOTAVAIL || result->error == -EAGAIN;
}

bool result_is_starting(const struct grpc_result *result, const struct fathom_fault *why)
{
	static const char *const texts[] = { "raft service unavailable", "leader step-up in progress" };

	if (result->error)
		return false;
	for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
		if (strstr(result->message, texts[i]))
			return true;
	}
	return result->code == GRPC_UNAVAILABLE || why->code == FAULT_NOT_STARTED;
}

static void end_call(struct service_task *service, int error)
{
	struct task *task = &service->task;

	deadline_clear(&task->control->deadlines, &service->wait);
	task_end(task, error);
}

static int explain_unreachable(struct service_task *service)
{
	const struct fathom_fault *reason = service->untrusted.error ? &service->untrusted : &service->last;
	struct task *task = &service->task;
	int error = fault_service_unreachable(&task->why, task->control->hosts_folded, reason->text);

	if (service->untrusted.error)
		fault_resolve(&task->why, "%s", reason->resolution);
	return error;
}

/* End the task with the best explanation. */
static void give_up(struct service_task *service)
{
	struct task *task = &service->task;

	if (task->control->cancelled) {
		end_call(service, task_is_over(task, service->request->name, &task->why));
	} else if (service->last.error && service->host_count > 1 && service->place_count > 1 && !service->starting) {
		end_call(service, explain_unreachable(service));
	} else if (service->last.error) {
		task->why = service->last;
		end_call(service, service->last.error);
	} else {
		end_call(service, task_is_over(task, service->request->name, &task->why));
	}
}

static void start_next_round(struct deadline *deadline)
{
	struct service_task *service = container_of(deadline, struct service_task, wait);

	start_round(service);
	try_places(service);
}

/* No place answered in this round: wait and start another round, or give up. */
static void end_round(struct service_task *service)
{
	struct task *task = &service->task;
	uint64_t now = clock_monotonic_ns(), wait_ns = service->back_off_ns;

	if (!service->starting && now < service->patience_end_ns)
		wait_ns = min_u64(wait_ns, service->patience_end_ns - now); /* the last round starts when patience ends */
	else if (!service->starting)
		wait_ns = UINT64_MAX;
	if (task_left_ns(task) <= wait_ns) {
		give_up(service);
		return;
	}
	control_log(task->control, "%s: no server has answered yet; retry in %.3f s", service->request->name,
		    (double)wait_ns / NS_PER_SEC);
	deadline_set(&task->control->deadlines, &service->wait, wait_ns, start_next_round);
	service->back_off_ns = min_u64(2 * service->back_off_ns, BACK_OFF_MAX_NS);
}

/* Whether the answer is a redirect; then its addresses become the places. */
static bool follow_redirect(struct service_task *service, const struct grpc_result *result)
{
	struct status_redirect redirect;
	char asked[GRPC_ADDRESS_BYTES_MAX];

	if (status_redirect(result, &redirect) < 0)
		return false;
	if (++service->redirects > REDIRECTS_MAX || (!redirect.leader[0] && redirect.replica_count == 0)) {
		service->starting = true; /* no leader now: an election, or a change of the configuration */
		service->place = service->place_count;
		return true;
	}
	snprintf(asked, sizeof(asked), "%s", service->places[service->place]);
	service->redirect = redirect;
	service->place_count = service->place = 0;
	add_place(service, service->redirect.leader);
	for (size_t i = 0; i < redirect.replica_count; i++) {
		if (strcmp(redirect.replicas[i], asked) != 0)
			add_place(service, service->redirect.replicas[i]);
	}
	if (service->place_count == 0)
		service->starting = true; /* it names only itself, but does not run the service */
	return true;
}

static void call_done(void *ctx, const struct grpc_result *result)
{
	struct service_task *service = ctx;
	bool unknown = result->error == -ETIMEDOUT || result->error == -ECONNRESET || result->error == -EPIPE;

	if (result->code == GRPC_OK) {
		service->take(service->ctx, result->response);
		end_call(service, 0);
		return;
	}
	if (service->task.control->cancelled) {
		give_up(service);
		return;
	}
	fault_from_result(result, service->places[service->place], &service->last);
	if (service->last.code == FAULT_NOT_TRUSTED)
		service->untrusted = service->last;
	if (follow_redirect(service, result)) {
		try_places(service);
	} else if (result_is_unreached(result) || (unknown && service->request->again != AGAIN_NEVER)) {
		service->place++;
		try_places(service);
	} else if (result_is_starting(result, &service->last)) {
		service->starting = true;
		service->place++;
		try_places(service);
	} else {
		service->task.why = service->last;
		end_call(service, service->last.error);
	}
}

/* Start the call. Errors: it could not be started; `service->last` has the reason. */
static int start_call(struct service_task *service)
{
	struct task *task = &service->task;
	uint64_t left = task_left_ns(task), time = left;
	size_t others = service->place_count - service->place - 1;
	struct grpc_result unsent = { .code = GRPC_UNAVAILABLE, .is_unsent = true };

	/* limit the time per server, so that a hung server does not use up the time for the others */
	if (service->request->again == AGAIN_READ && others > 0)
		time = min_u64(left, max_u64(READ_NS_MIN + service->request->extra_ns, left / (others + 1)));
	unsent.error = task_call(task, &(struct grpc_request){
					       .address = service->places[service->place],
					       .path = service->request->path,
					       .message = service->request->message,
					       .response = service->request->response,
					       .timeout_ns = time,
					       .done = call_done,
					       .ctx = service,
				       });
	if (unsent.error)
		fault_from_result(&unsent, service->places[service->place], &service->last);
	return unsent.error;
}

static void try_places(struct service_task *service)
{
	for (; service->place < service->place_count; service->place++) {
		if (task_left_ns(&service->task) == 0) {
			give_up(service);
			return;
		}
		if (start_call(service) == 0)
			return;
	}
	if (task_left_ns(&service->task) == 0)
		give_up(service);
	else
		end_round(service);
}

static void begin_service_call(struct task *task)
{
	struct service_task *service = service_of(task);

	start_round(service);
	try_places(service);
}

static void query_progress(struct task *task)
{
	const struct service_task *service = service_of(task);

	if (service->place < service->place_count)
		task_query_progress(task, service->places[service->place], service->request->progress_query,
				    service->request->progress_state);
}

static void stop_service_call(struct task *task)
{
	give_up(service_of(task));
}

int service_call(struct fathom_control *control, const struct request *request, take_fn take, void *ctx,
		 struct fathom_fault *why)
{
	uint64_t now = clock_monotonic_ns();
	struct service_task service = {
		.task = { .control = control,
			  .begin = begin_service_call,
			  .stop = stop_service_call,
			  .on_tick = request->progress_query ? query_progress : NULL,
			  .extra_ns = request->extra_ns,
			  .deadline_ns = now + control->timeout_ns + request->extra_ns },
		.request = request,
		.take = take,
		.ctx = ctx,
		.host_count = host_set_count(control->hosts),
		.back_off_ns = BACK_OFF_MIN_NS,
		.patience_end_ns = now + control->patience_ns,
	};
	int error;

	service.addresses = calloc(service.host_count, sizeof(*service.addresses));
	service.places = calloc(ADDRESSES_MAX * service.host_count + 1 + STATUS_REPLICAS_MAX, sizeof(*service.places));
	must(service.addresses);
	must(service.places);
	error = resolve(control, control->hosts, service.addresses, service.task.deadline_ns, why);
	if (error == 0)
		error = task_run(&service.task, why);
	free(service.places);
	free(service.addresses);
	return error;
}

int service_result(struct fathom_control *control, const struct request *request, take_fn take, void *result, void **ret,
		   struct fathom_fault *why)
{
	int error = service_call(control, request, take, result, why);

	if (error)
		fathom_control_free(result);
	else
		*ret = result;
	return error;
}

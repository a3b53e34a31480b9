/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A request to the management service: who has it is not known, only hosts that may.
 *
 *     places: all addresses of the hosts, in turn -> it answers: done
 *                                                 -> it says who has it: those are the places
 *                                                 -> it is not there: the next
 *     all places tried -> somebody was starting, or there is patience left: wait, and the hosts again
 *                      -> else the last fault
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
#define READ_NS_MIN (5 * NS_PER_SEC) /* given to one of several before another is asked */

struct service_task {
	struct task task;
	const struct request *request;
	take_fn take;
	void *ctx;
	struct address *addresses; /* of the hosts */
	size_t host_count;
	const char **places;	   /* of the hosts, or of `redirect`; room for all of either */
	size_t place_count, place; /* that is asked */
	struct status_redirect redirect;
	unsigned int redirects; /* since the hosts were taken */
	bool starting;		/* somebody was, in this round */
	uint64_t back_off_ns, patience_end_ns;
	struct deadline wait;
	struct fault last;	/* its error is 0: none yet */
	struct fault untrusted; /* likewise, of a server that is there: it explains more than one that is not */
};

static void ask(struct service_task *service);

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

/* Begin a round. */
static void take_hosts(struct service_task *service)
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

bool result_is_starting(const struct grpc_result *result, const struct fault *why)
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

static void end(struct service_task *service, int error)
{
	struct task *task = &service->task;

	deadline_clear(&task->control->deadlines, &service->wait);
	task_end(task, error);
}

static int explain_unreachable(struct service_task *service)
{
	const struct fault *reason = service->untrusted.error ? &service->untrusted : &service->last;
	struct task *task = &service->task;
	int error = fault_service_unreachable(&task->why, task->control->hosts_folded, reason->text);

	if (service->untrusted.error)
		fault_resolve(&task->why, "%s", reason->resolution);
	return error;
}

/* Nothing more is to be tried. */
static void give_up(struct service_task *service)
{
	struct task *task = &service->task;

	if (task->control->cancelled) {
		end(service, task_is_over(task, service->request->name, &task->why));
	} else if (service->last.error && service->host_count > 1 && service->place_count > 1 && !service->starting) {
		end(service, explain_unreachable(service));
	} else if (service->last.error) {
		task->why = service->last;
		end(service, service->last.error);
	} else {
		end(service, task_is_over(task, service->request->name, &task->why));
	}
}

static void waited(struct deadline *deadline)
{
	struct service_task *service = container_of(deadline, struct service_task, wait);

	take_hosts(service);
	ask(service);
}

/* The last of the places was asked in vain. */
static void end_round(struct service_task *service)
{
	struct task *task = &service->task;
	uint64_t now = clock_monotonic_ns(), wait_ns = service->back_off_ns;

	if (!service->starting && now < service->patience_end_ns)
		wait_ns = min_u64(wait_ns, service->patience_end_ns - now); /* and once more at its end */
	else if (!service->starting)
		wait_ns = UINT64_MAX;
	if (task_left_ns(task) <= wait_ns) {
		give_up(service);
		return;
	}
	control_log(task->control, "%s: nobody has it yet; asked again in %.3f s", service->request->name,
		    (double)wait_ns / NS_PER_SEC);
	deadline_set(&task->control->deadlines, &service->wait, wait_ns, waited);
	service->back_off_ns = min_u64(2 * service->back_off_ns, BACK_OFF_MAX_NS);
}

/* Whether the answer sends elsewhere; the places are then those. */
static bool is_sent_elsewhere(struct service_task *service, const struct grpc_result *result)
{
	struct status_redirect redirect;
	char asked[GRPC_ADDRESS_BYTES_MAX];

	if (status_redirect(result, &redirect) < 0)
		return false;
	if (++service->redirects > REDIRECTS_MAX || (!redirect.leader[0] && redirect.replica_count == 0)) {
		service->starting = true; /* there is none now: an election, or a change of the configuration */
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
		service->starting = true; /* it names itself alone, and is none */
	return true;
}

static void answered(void *ctx, const struct grpc_result *result)
{
	struct service_task *service = ctx;
	bool unknown = result->error == -ETIMEDOUT || result->error == -ECONNRESET || result->error == -EPIPE;

	if (result->code == GRPC_OK) {
		service->take(service->ctx, result->response);
		end(service, 0);
		return;
	}
	if (service->task.control->cancelled) {
		give_up(service);
		return;
	}
	fault_from_result(result, service->places[service->place], &service->last);
	if (service->last.code == FAULT_NOT_TRUSTED)
		service->untrusted = service->last;
	if (is_sent_elsewhere(service, result)) {
		ask(service);
	} else if (result_is_unreached(result) || (unknown && service->request->again != AGAIN_NEVER)) {
		service->place++;
		ask(service);
	} else if (result_is_starting(result, &service->last)) {
		service->starting = true;
		service->place++;
		ask(service);
	} else {
		service->task.why = service->last;
		end(service, service->last.error);
	}
}

/* Begin the call. Errors: it could not begin, which `service->last` tells. */
static int call(struct service_task *service)
{
	struct task *task = &service->task;
	uint64_t left = task_left_ns(task), time = left;
	size_t others = service->place_count - service->place - 1;
	struct grpc_result unsent = { .code = GRPC_UNAVAILABLE, .is_unsent = true };

	/* one that hangs does not keep a question from those that do not */
	if (service->request->again == AGAIN_READ && others > 0)
		time = min_u64(left, max_u64(READ_NS_MIN + service->request->extra_ns, left / (others + 1)));
	unsent.error = task_call(task, service->places[service->place], service->request->path, service->request->message,
				 service->request->response, time, answered, service);
	if (unsent.error)
		fault_from_result(&unsent, service->places[service->place], &service->last);
	return unsent.error;
}

static void ask(struct service_task *service)
{
	for (; service->place < service->place_count; service->place++) {
		if (task_left_ns(&service->task) == 0) {
			give_up(service);
			return;
		}
		if (call(service) == 0)
			return;
	}
	if (task_left_ns(&service->task) == 0)
		give_up(service);
	else
		end_round(service);
}

static void begin(struct task *task)
{
	struct service_task *service = service_of(task);

	take_hosts(service);
	ask(service);
}

static void look(struct task *task)
{
	const struct service_task *service = service_of(task);

	if (service->place < service->place_count)
		task_look(task, service->places[service->place], service->request->look, service->request->look_for);
}

static void stop(struct task *task)
{
	give_up(service_of(task));
}

int service_call(struct fathom_control *control, const struct request *request, take_fn take, void *ctx, struct fault *why)
{
	uint64_t now = clock_monotonic_ns();
	struct service_task service = {
		.task = { .control = control,
			  .begin = begin,
			  .stop = stop,
			  .on_tick = request->look ? look : NULL,
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
		   struct fault *why)
{
	int error = service_call(control, request, take, result, why);

	if (error)
		fathom_control_free(result);
	else
		*ret = result;
	return error;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Send one request to all hosts, several at a time, and fold the answers: equal answers and equal errors are in the result
 * once, with the set of their hosts.
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

struct hosts_task;

struct called_host {
	struct hosts_task *run;
	struct address *address;
	size_t place; /* index of the address being called */
	struct host_answer part;
};

struct hosts_task {
	struct task task;
	const struct hosts_request *request;
	struct arena *arena;
	struct called_host *hosts;
	size_t host_count, next, running;
	bool stopped;
};

static void start_hosts(struct hosts_task *run);

static struct hosts_task *hosts_task_of(struct task *task)
{
	return container_of(task, struct hosts_task, task);
}

static void host_is_done(struct called_host *host)
{
	struct hosts_task *run = host->run;

	run->task.done++;
	task_progress(&run->task);
}

static void take_answer(struct called_host *host, ProtobufCMessage *response)
{
	struct host_answer *part = &host->part;

	host->run->request->take(host->run->arena, response, &part->answer);
	part->answered = true;
	part->key_bytes = protobuf_c_message_get_packed_size(response);
	part->key = malloc(part->key_bytes + 1);
	must(part->key);
	must(protobuf_c_message_pack(response, part->key) == part->key_bytes);
}

static int call_host(struct called_host *host);

static void host_call_done(void *ctx, const struct grpc_result *result)
{
	struct called_host *host = ctx;
	struct hosts_task *run = host->run;

	run->running--;
	if (result->code == GRPC_OK) {
		/* the response may be modified: it has no other user and is freed when we return */
		take_answer(host, (ProtobufCMessage *)result->response);
	} else if (run->task.control->cancelled) {
		must(task_is_over(&run->task, run->request->request.name, &host->part.why) < 0);
	} else {
		fault_from_result(result, host->address->text[host->place], &host->part.why);
		if (result_is_unreached(result) && host->place + 1 < host->address->count) {
			host->place++;
			if (call_host(host) == 0)
				return;
		}
	}
	hang_up_host(run->task.control, run->host_count, host->address->text[host->place]);
	host_is_done(host);
	start_hosts(run);
}

void hang_up_host(struct fathom_control *control, size_t host_count, const char *address)
{
	if (host_count > CONNECTIONS_KEPT && control->client)
		grpc_client_hang_up(control->client, address);
}

/* A timer may fire a moment before the deadline: the next host has no time left then, not one that no server could meet. */
#define CALL_NS_MIN NS_PER_MS

static int call_host(struct called_host *host)
{
	struct hosts_task *run = host->run;
	const struct request *request = &run->request->request;

	for (;; host->place++) {
		const char *address = host->address->text[host->place];
		struct grpc_result unsent = { .code = GRPC_UNAVAILABLE, .is_unsent = true };
		uint64_t left = task_left_ns(&run->task);

		if (left < CALL_NS_MIN)
			return task_is_over(&run->task, request->name, &host->part.why);
		unsent.error = task_call(&run->task, &(struct grpc_request){
							     .address = address,
							     .path = request->path,
							     .message = request->message,
							     .response = request->response,
							     .timeout_ns = left,
							     .done = host_call_done,
							     .ctx = host,
						     });
		if (!unsent.error)
			break;
		fault_from_result(&unsent, address, &host->part.why);
		if (host->place + 1 == host->address->count)
			return host->part.why.error;
	}
	run->running++;
	return 0;
}

static void start_hosts(struct hosts_task *run)
{
	while (!run->stopped && run->next < run->host_count && run->running < run->task.control->parallel_max) {
		struct called_host *host = &run->hosts[run->next++];

		if (host->address->count == 0)
			host->part.why = host->address->why;
		else if (call_host(host) == 0)
			continue;
		host_is_done(host);
	}
	if (run->running > 0 || run->task.ended)
		return;
	if (run->task.control->cancelled)
		task_end(&run->task, task_is_over(&run->task, run->request->request.name, &run->task.why));
	else
		task_end(&run->task, 0);
}

static void begin_hosts_task(struct task *task)
{
	start_hosts(hosts_task_of(task));
}

static void stop_hosts_task(struct task *task)
{
	struct hosts_task *run = hosts_task_of(task);

	run->stopped = true;
	start_hosts(run);
}

/* ---- folding ---- */

static uint64_t hash_of(const uint8_t *bytes, size_t count)
{
	uint64_t hash = 0xcbf29ce484222325; /* FNV-1a */

	for (size_t i = 0; i < count; i++)
		hash = (hash ^ bytes[i]) * 0x100000001b3;
	return hash;
}

static bool have_equal_answers(const struct host_answer *a, const struct host_answer *b)
{
	return a->hash == b->hash && a->answered == b->answered && a->why.code == b->why.code &&
	       a->key_bytes == b->key_bytes && (a->key_bytes == 0 || memcmp(a->key, b->key, a->key_bytes) == 0);
}

/* "the server at 10.0.0.1:10001 refused the connection" gives "the server refused the connection". */
void set_error_key(struct host_answer *part, const char *address)
{
	char *text = strdup(part->why.text), *at;
	size_t bytes = strlen(address);

	must(text);
	while (bytes > 0 && (at = strstr(text, address))) {
		char *begin = at - text >= 4 && memcmp(at - 4, " at ", 4) == 0 ? at - 4 : at;

		memmove(begin, at + bytes, strlen(at + bytes) + 1);
	}
	part->key = text;
	part->key_bytes = strlen(text);
}

static const char *fold_hosts(struct arena *arena, const struct host_set *set)
{
	char *text;
	const char *copy;

	must(host_set_fold(set, &text) == 0);
	copy = arena_text(arena, text);
	free(text);
	return copy;
}

/* The hosts of all parts equal to `first`. Build one text first, because each host_set_add() merges the whole set. */
static struct host_set *take_equal_answers(struct host_answer *parts, size_t first, size_t count, size_t *left_out_ret)
{
	struct host_set *set;
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);

	must(out);
	for (size_t i = first; i < count; i++) {
		if (parts[i].taken || !have_equal_answers(&parts[first], &parts[i]))
			continue;
		parts[i].taken = true;
		*left_out_ret += parts[i].answer.left_out;
		fprintf(out, "%s,", parts[i].host);
	}
	must(fclose(out) == 0);
	must(host_set_parse(text, &set, NULL) == 0);
	free(text);
	return set;
}

struct fathom_control_answers *fold_answers(struct arena *arena, struct fathom_control_answers *result,
					    struct host_answer *parts, size_t count)
{
	struct fathom_control_answer *answers = arena_array(arena, struct fathom_control_answer, count);
	struct fathom_control_error *errors = arena_array(arena, struct fathom_control_error, count);

	result->host_count = count;
	result->answers = answers;
	result->errors = errors;
	for (size_t i = 0; i < count; i++)
		parts[i].hash = hash_of(parts[i].key, parts[i].key_bytes);
	for (size_t i = 0; i < count; i++) {
		struct host_set *set;
		size_t left_out = 0;

		if (parts[i].taken)
			continue;
		set = take_equal_answers(parts, i, count, &left_out);
		if (parts[i].answered) {
			struct fathom_control_answer *answer = &answers[result->count++];

			*answer = parts[i].answer;
			answer->hosts = fold_hosts(arena, set);
			answer->host_count = host_set_count(set);
			answer->hash = parts[i].hash;
			answer->left_out = left_out;
		} else {
			struct fathom_control_error *error = &errors[result->error_count++];

			error->why = parts[i].why;
			if (host_set_count(set) > 1)
				snprintf(error->why.text, sizeof(error->why.text), "%s", (const char *)parts[i].key);
			error->hosts = fold_hosts(arena, set);
			error->host_count = host_set_count(set);
		}
		host_set_destroy(set);
	}
	return result;
}

/* ---- the call ---- */

static struct fathom_control_answers *fold_results(struct hosts_task *run, struct fathom_control_answers *result)
{
	struct host_answer *parts = calloc(run->host_count, sizeof(*parts));

	must(parts);
	for (size_t i = 0; i < run->host_count; i++) {
		parts[i] = run->hosts[i].part;
		parts[i].host = run->hosts[i].address->host;
		if (parts[i].answered)
			continue;
		set_error_key(&parts[i], run->hosts[i].address->text[run->hosts[i].place]);
		run->hosts[i].part.key = parts[i].key; /* call_hosts() frees it */
	}
	fold_answers(run->arena, result, parts, run->host_count);
	free(parts);
	return result;
}

int call_hosts(struct fathom_control *control, const struct hosts_request *request, struct fathom_control_answers **ret,
	       struct fathom_fault *why)
{
	size_t count = host_set_count(control->hosts);
	struct fathom_control_answers *result = result_create(sizeof(*result));
	struct address *addresses = calloc(count, sizeof(*addresses));
	struct hosts_task run = {
		.task = { .control = control,
			  .begin = begin_hosts_task,
			  .total = (uint32_t)count,
			  .stop = stop_hosts_task,
			  .deadline_ns = clock_monotonic_ns() + control->timeout_ns },
		.request = request,
		.arena = result_arena(result),
		.hosts = calloc(count, sizeof(*run.hosts)),
		.host_count = count,
	};
	int error;

	must(addresses);
	must(run.hosts);
	for (size_t i = 0; i < count; i++) {
		run.hosts[i].run = &run;
		run.hosts[i].address = &addresses[i];
	}
	error = resolve(control, control->hosts, addresses, run.task.deadline_ns, why);
	if (error == 0)
		error = task_run(&run.task, why);
	if (error == 0)
		*ret = fold_results(&run, result);
	else
		fathom_control_free(result);
	for (size_t i = 0; i < count; i++)
		free(run.hosts[i].part.key);
	free(run.hosts);
	free(addresses);
	return error;
}

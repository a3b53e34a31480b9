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

struct fan;

struct fan_host {
	struct fan *fan;
	struct address *address;
	size_t place; /* index of the address being called */
	struct fan_part part;
};

struct fan {
	struct task task;
	const struct fan_request *request;
	struct arena *arena;
	struct fan_host *hosts;
	size_t host_count, next, running;
	bool stopped;
};

static void start_hosts(struct fan *fan);

static struct fan *fan_of(struct task *task)
{
	return container_of(task, struct fan, task);
}

static void host_is_done(struct fan_host *host)
{
	struct fan *fan = host->fan;

	fan->task.done++;
	task_progress(&fan->task);
}

static void take_answer(struct fan_host *host, ProtobufCMessage *response)
{
	struct fan_part *part = &host->part;

	host->fan->request->take(host->fan->arena, response, &part->answer);
	part->answered = true;
	part->key_bytes = protobuf_c_message_get_packed_size(response);
	part->key = malloc(part->key_bytes + 1);
	must(part->key);
	must(protobuf_c_message_pack(response, part->key) == part->key_bytes);
}

static int call_host(struct fan_host *host);

static void host_call_done(void *ctx, const struct grpc_result *result)
{
	struct fan_host *host = ctx;
	struct fan *fan = host->fan;

	fan->running--;
	if (result->code == GRPC_OK) {
		/* the response may be modified: it has no other user and is freed when we return */
		take_answer(host, (ProtobufCMessage *)result->response);
	} else if (fan->task.control->cancelled) {
		must(task_is_over(&fan->task, fan->request->request.name, &host->part.why) < 0);
	} else {
		fault_from_result(result, host->address->text[host->place], &host->part.why);
		if (result_is_unreached(result) && host->place + 1 < host->address->count) {
			host->place++;
			if (call_host(host) == 0)
				return;
		}
	}
	fan_hang_up(fan->task.control, fan->host_count, host->address->text[host->place]);
	host_is_done(host);
	start_hosts(fan);
}

void fan_hang_up(struct fathom_control *control, size_t host_count, const char *address)
{
	if (host_count > CONNECTIONS_KEPT && control->client)
		grpc_client_hang_up(control->client, address);
}

static int call_host(struct fan_host *host)
{
	struct fan *fan = host->fan;
	const struct request *request = &fan->request->request;

	for (;; host->place++) {
		const char *address = host->address->text[host->place];
		struct grpc_result unsent = { .code = GRPC_UNAVAILABLE, .is_unsent = true };
		uint64_t left = task_left_ns(&fan->task);

		if (left == 0)
			return task_is_over(&fan->task, request->name, &host->part.why);
		unsent.error = task_call(&fan->task, address, request->path, request->message, request->response, left,
					 host_call_done, host);
		if (!unsent.error)
			break;
		fault_from_result(&unsent, address, &host->part.why);
		if (host->place + 1 == host->address->count)
			return host->part.why.error;
	}
	fan->running++;
	return 0;
}

static void start_hosts(struct fan *fan)
{
	while (!fan->stopped && fan->next < fan->host_count && fan->running < fan->task.control->parallel_max) {
		struct fan_host *host = &fan->hosts[fan->next++];

		if (host->address->count == 0)
			host->part.why = host->address->why;
		else if (call_host(host) == 0)
			continue;
		host_is_done(host);
	}
	if (fan->running > 0 || fan->task.ended)
		return;
	if (fan->task.control->cancelled)
		task_end(&fan->task, task_is_over(&fan->task, fan->request->request.name, &fan->task.why));
	else
		task_end(&fan->task, 0);
}

static void begin_fan(struct task *task)
{
	start_hosts(fan_of(task));
}

static void stop_fan(struct task *task)
{
	struct fan *fan = fan_of(task);

	fan->stopped = true;
	start_hosts(fan);
}

/* ---- folding ---- */

static uint64_t hash_of(const uint8_t *bytes, size_t count)
{
	uint64_t hash = 0xcbf29ce484222325; /* FNV-1a */

	for (size_t i = 0; i < count; i++)
		hash = (hash ^ bytes[i]) * 0x100000001b3;
	return hash;
}

static bool are_alike(const struct fan_part *a, const struct fan_part *b)
{
	return a->hash == b->hash && a->answered == b->answered && a->why.code == b->why.code &&
	       a->key_bytes == b->key_bytes && (a->key_bytes == 0 || memcmp(a->key, b->key, a->key_bytes) == 0);
}

/* "the server at 10.0.0.1:10001 refused the connection" gives "the server refused the connection". */
void fan_key_of_error(struct fan_part *part, const char *address)
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
static struct host_set *take_alike(struct fan_part *parts, size_t first, size_t count, size_t *left_out_ret)
{
	struct host_set *set;
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);

	must(out);
	for (size_t i = first; i < count; i++) {
		if (parts[i].taken || !are_alike(&parts[first], &parts[i]))
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

struct fathom_control_answers *fan_fold(struct arena *arena, struct fathom_control_answers *result, struct fan_part *parts,
					size_t count)
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
		set = take_alike(parts, i, count, &left_out);
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

static struct fathom_control_answers *fold_results(struct fan *fan, struct fathom_control_answers *result)
{
	struct fan_part *parts = calloc(fan->host_count, sizeof(*parts));

	must(parts);
	for (size_t i = 0; i < fan->host_count; i++) {
		parts[i] = fan->hosts[i].part;
		parts[i].host = fan->hosts[i].address->host;
		if (parts[i].answered)
			continue;
		fan_key_of_error(&parts[i], fan->hosts[i].address->text[fan->hosts[i].place]);
		fan->hosts[i].part.key = parts[i].key; /* fan_call() frees it */
	}
	fan_fold(fan->arena, result, parts, fan->host_count);
	free(parts);
	return result;
}

int fan_call(struct fathom_control *control, const struct fan_request *request, struct fathom_control_answers **ret,
	     struct fathom_fault *why)
{
	size_t count = host_set_count(control->hosts);
	struct fathom_control_answers *result = result_create(sizeof(*result));
	struct address *addresses = calloc(count, sizeof(*addresses));
	struct fan fan = {
		.task = { .control = control,
			  .begin = begin_fan,
			  .total = (uint32_t)count,
			  .stop = stop_fan,
			  .deadline_ns = clock_monotonic_ns() + control->timeout_ns },
		.request = request,
		.arena = result_arena(result),
		.hosts = calloc(count, sizeof(*fan.hosts)),
		.host_count = count,
	};
	int error;

	must(addresses);
	must(fan.hosts);
	for (size_t i = 0; i < count; i++) {
		fan.hosts[i].fan = &fan;
		fan.hosts[i].address = &addresses[i];
	}
	error = resolve(control, control->hosts, addresses, fan.task.deadline_ns, why);
	if (error == 0)
		error = task_run(&fan.task, why);
	if (error == 0)
		*ret = fold_results(&fan, result);
	else
		fathom_control_free(result);
	for (size_t i = 0; i < count; i++)
		free(fan.hosts[i].part.key);
	free(fan.hosts);
	free(addresses);
	return error;
}

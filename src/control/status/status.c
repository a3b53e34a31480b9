/* SPDX-License-Identifier: BSD-2-Clause */
#include "control/status/status.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/json/json_memory.h"
#include "base/text.h"
#include "control/fault/fault.h"

#define NOT_LEADER_REASON "proto.system.ErrNotLeader"
#define NOT_REPLICA_REASON "proto.system.ErrNotReplica"
#define NO_POOL_REASON "proto.system.ErrPoolNotFound"
#define INFO_DOMAIN "DAOS"

/* An ErrorInfo that borrows its strings. */
struct info {
	Google__Rpc__ErrorInfo message;
	Google__Rpc__ErrorInfo__MetadataEntry entries[FAULT_PAIRS_MAX], *places[FAULT_PAIRS_MAX];
};

static void init_info(struct info *info, const char *reason, const char *domain)
{
	google__rpc__error_info__init(&info->message);
	info->message.reason = (char *)reason;
	info->message.domain = (char *)domain;
	info->message.metadata = info->places;
}

static void add_entry(struct info *info, const char *key, const char *value)
{
	size_t at = info->message.n_metadata++;

	must(key);
	must(value);
	must(at < FAULT_PAIRS_MAX);
	google__rpc__error_info__metadata_entry__init(&info->entries[at]);
	info->entries[at].key = (char *)key;
	info->entries[at].value = (char *)value;
	info->places[at] = &info->entries[at];
}

/*
 * A pool that does not exist is an error of its own in DAOS, with the label in JSON. Its text is that of the fault; the
 * label stands between the quotes.
 */
static void fail_no_pool(struct grpc_call *call, const struct fathom_fault *why)
{
	const char *first = strchr(why->text, '"'), *last = strrchr(why->text, '"');
	struct info info;
	char *pool = NULL;
	json_t *json;
	int error;

	must(first && last > first);
	json_memory_begin();
	json = json_pack("{s:n, s:n, s:s#}", "Rank", "UUID", "Label", first + 1, (int)(last - first - 1));
	pool = json ? json_dumps(json, JSON_COMPACT) : NULL;
	json_decref(json);
	error = json_memory_end(pool);
	init_info(&info, NO_POOL_REASON, INFO_DOMAIN);
	if (!error)
		add_entry(&info, "PoolInfo", pool);
	grpc_fail(call, GRPC_INTERNAL, &info.message, "%s", why->text);
	free(pool);
}

void call_fail(struct grpc_call *call, const struct fathom_fault *why)
{
	struct fault_shown shown;
	struct fault_info from;
	struct info info;
	char message[GRPC_TEXT_BYTES_MAX];

	if (why->code == FAULT_NO_SUCH_POOL) {
		fail_no_pool(call, why);
		return;
	}
	fault_show(why, &shown);
	fault_message(&shown, message, sizeof(message));
	if (shown.code == 0) {
		grpc_fail(call, GRPC_UNKNOWN, NULL, "%s", message);
		return;
	}
	fault_to_info(&shown, &from);
	init_info(&info, from.reason, from.domain);
	for (size_t i = 0; i < from.metadata_count; i++)
		add_entry(&info, from.metadata[i].key, from.metadata[i].value);
	grpc_fail(call, GRPC_INTERNAL, &info.message, "%s", message);
}

/* A local or network failure: the server's answer was not received. */
static int convert_error(const struct grpc_result *result, const char *address, struct fathom_fault *why)
{
	int error;

	must(result->error < 0);
	switch (-result->error) {
	case ECONNREFUSED:
		return fault_refused(why, address);
	case ECONNRESET:
	case EPIPE:
		return fault_closed(why, address);
	case EHOSTUNREACH:
	case ENETUNREACH:
		return fault_no_route(why, address);
	case ETIMEDOUT:
		return fault_timed_out(why, address);
	case EACCES:
		return fault_not_trusted(why, address, result->message);
	default:
		error = fault_call_failed(why, address, result->message[0] ? result->message : strerror(-result->error));
		why->error = result->error;
		return error;
	}
}

static int error_of_code(enum grpc_code code)
{
	static const int errors[] = {
		[GRPC_CANCELLED] = ECANCELED,		[GRPC_INVALID_ARGUMENT] = EINVAL,    [GRPC_NOT_FOUND] = ENOENT,
		[GRPC_ALREADY_EXISTS] = EEXIST,		[GRPC_RESOURCE_EXHAUSTED] = ENOBUFS, [GRPC_UNAVAILABLE] = EAGAIN,
		[GRPC_FAILED_PRECONDITION] = EREMOTEIO,
	};

	return (size_t)code < ARRAY_COUNT(errors) && errors[code] ? -errors[code] : -EREMOTEIO;
}

/* Errors: -ENOENT: the answer does not say that a pool does not exist. */
static int convert_no_pool(const Google__Rpc__ErrorInfo *message, struct fathom_fault *why)
{
	const char *label = "";
	json_t *json = NULL;

	if (strcmp(message->reason, NO_POOL_REASON) != 0)
		return -ENOENT;
	json_memory_begin();
	for (size_t i = 0; i < message->n_metadata && !json; i++) {
		if (strcmp(message->metadata[i]->key, "PoolInfo") == 0)
			json = json_loads(message->metadata[i]->value, JSON_REJECT_DUPLICATES, NULL);
	}
	if (json_string_value(json_object_get(json, "Label")))
		label = json_string_value(json_object_get(json, "Label"));
	fill_fault_no_such_pool(why, label);
	json_decref(json);
	return json_memory_end(true);
}

static int convert_info(const Google__Rpc__ErrorInfo *message, struct fathom_fault *why)
{
	struct fault_info info = { .reason = message->reason, .domain = message->domain };
	struct fault_shown shown;
	int error = convert_no_pool(message, why);

	if (error != -ENOENT)
		return error;
	for (size_t i = 0; i < message->n_metadata && i < FAULT_PAIRS_MAX; i++) {
		info.metadata[i].key = message->metadata[i]->key;
		info.metadata[i].value = message->metadata[i]->value;
		info.metadata_count++;
	}
	error = fault_from_info(&info, &shown);
	must(error || shown.code > 0);
	if (!error)
		fault_from_shown(&shown, why);
	return error;
}

/* The server answered with a status and without an ErrorInfo of ours. */
static int convert_status(const struct grpc_result *result, const char *address, struct fathom_fault *why)
{
	must(result->error == 0); /* the server has answered */
	if (result->code == GRPC_DEADLINE_EXCEEDED)
		return fault_timed_out(why, address);
	if (result->code == GRPC_PERMISSION_DENIED)
		return fault_permission_denied(why, address, result->message);
	if (result->code == GRPC_UNAUTHENTICATED)
		return fault_not_trusted(why, address, result->message);
	if (result->code == GRPC_UNIMPLEMENTED)
		return fault_call_unknown(why, address, result->message);
	if (strstr(result->message, "system is uninitialized"))
		return fault_not_formatted_system(why);
	if (result->message[0])
		return fault(why, error_of_code(result->code), "%s", result->message);
	return fault(why, error_of_code(result->code), "the server at %s answered with gRPC's status %d", address,
		     (int)result->code);
}

void fault_from_result(const struct grpc_result *result, const char *address, struct fathom_fault *why_ret)
{
	int error = 0;

	must(result->code != GRPC_OK);
	memset(why_ret, 0, sizeof(*why_ret));
	if (result->error)
		error = convert_error(result, address, why_ret);
	else if (!result->info || convert_info(result->info, why_ret) < 0)
		error = convert_status(result, address, why_ret);
	maybe(error == 0); /* the answer contained a fault, which is now in `why_ret` */
	must(why_ret->error < 0);
}

/* ---- redirects to the hosts of the management service ---- */

/* "[\"10.0.0.1:10001\"]"; the caller frees it. NULL: out of memory. */
static char *addresses_text(const char *const *addresses, size_t count)
{
	json_t *json;
	char *text;

	json_memory_begin();
	json = json_array();
	for (size_t i = 0; json && i < count; i++) {
		if (json_array_append_new(json, json_string(addresses[i])) < 0) {
			json_decref(json);
			json = NULL;
		}
	}
	text = json ? json_dumps(json, JSON_COMPACT) : NULL;
	json_decref(json);
	if (json_memory_end(text) == 0)
		return text;
	free(text);
	return NULL;
}

void call_fail_not_replica(struct grpc_call *call, const char *const *replicas, size_t replica_count)
{
	char *text = addresses_text(replicas, replica_count);
	struct info info;

	init_info(&info, NOT_REPLICA_REASON, INFO_DOMAIN);
	add_entry(&info, "Replicas", text ? text : "[]");
	grpc_fail(call, GRPC_INTERNAL, &info.message, "this server has no management service (try %s)",
		  text ? text : "the servers of mgmt_svc_replicas");
	free(text);
}

static int read_addresses(const char *text, struct status_redirect *redirect)
{
	json_t *json, *item;
	size_t i;
	int error;

	json_memory_begin();
	json = json_loads(text, 0, NULL);
	error = json_memory_end(json_is_array(json) || json_is_null(json));
	if (error) {
		json_decref(json);
		return error;
	}
	json_array_foreach (json, i, item) {
		const char *address = json_string_value(item);

		if (!address || redirect->replica_count == STATUS_REPLICAS_MAX)
			error = -EBADMSG;
		else if (text_copy(redirect->replicas[redirect->replica_count++], GRPC_ADDRESS_BYTES_MAX, address) < 0)
			error = -EBADMSG;
	}
	json_decref(json);
	must(redirect->replica_count <= STATUS_REPLICAS_MAX);
	return error;
}

int status_redirect(const struct grpc_result *result, struct status_redirect *redirect_ret)
{
	struct status_redirect redirect = { .replica_count = 0 };
	int error = 0;

	if (result->code == GRPC_OK || !result->info ||
	    (strcmp(result->info->reason, NOT_LEADER_REASON) != 0 && strcmp(result->info->reason, NOT_REPLICA_REASON) != 0))
		return -ENOENT;
	for (size_t i = 0; !error && i < result->info->n_metadata; i++) {
		const Google__Rpc__ErrorInfo__MetadataEntry *entry = result->info->metadata[i];

		if (strcmp(entry->key, "Replicas") == 0)
			error = read_addresses(entry->value, &redirect);
		if (strcmp(entry->key, "LeaderHint") == 0 &&
		    text_copy(redirect.leader, sizeof(redirect.leader), entry->value) < 0)
			error = -EBADMSG;
	}
	if (!error)
		*redirect_ret = redirect;
	return error;
}

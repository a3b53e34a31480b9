/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * link - the connection to a target: makes the calls of a sample.
 *
 * Calls about hosts use a separate connection with a short time limit. For them the target sends a message to each of its
 * cores, and does not answer if one of them hangs, while all other calls work. After a timeout these calls are skipped for
 * a few samples.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "cmd/fathom/rpc/client.h"
#include "cmd/fathom/top/top.h"

#define ANSWER_SEC 3.0
#define CORES_ANSWER_SEC 1.0

enum { SAMPLES_SKIPPED = 5 };

struct top_link {
	const char *target;
	char path[TOP_PATH_BYTES];
	struct rpc_client *client;	 /* NULL: lost */
	struct rpc_client *cores_client; /* for calls that need the cores; NULL: not open, or it timed out */
	uint32_t samples_to_skip;	 /* samples for which these calls are still skipped */
};

static int open_rpc_client(const char *path, double timeout_sec, struct rpc_client **client_ret, struct fathom_fault *why)
{
	const struct rpc_client_options options = { .address = path, .port = RPC_PORT_DEFAULT, .timeout_sec = timeout_sec };

	return rpc_client_open(&options, client_ret, why);
}

static void close_link_clients(struct top_link *link)
{
	rpc_client_close(link->client);
	rpc_client_close(link->cores_client);
	link->client = NULL;
	link->cores_client = NULL;
	link->samples_to_skip = 0;
}

/* Connect. A path without a slash gets "./" in front: else it would be taken for an IP address. */
static int connect_to_target(struct top_link *link, struct fathom_fault *why)
{
	char path[TOP_PATH_BYTES], with_slash[TOP_PATH_BYTES + 2];
	struct fathom_fault ignored;
	int rc = top_find_socket(link->target, path, link->path[0] ? &ignored : why);

	/* after a loss the search may fail, because the target has ended: it may be started again at the same path */
	if (rc && !link->path[0])
		return rc;
	if (rc == 0)
		(void)text_copy(link->path, sizeof(link->path), path); /* fits */
	snprintf(with_slash, sizeof(with_slash), "%s%s", strchr(link->path, '/') ? "" : "./", link->path);
	rc = open_rpc_client(with_slash, ANSWER_SEC, &link->client, &ignored);
	if (rc)
		return fault(why, rc, "%s: %s", link->path,
			     rc == -ECONNREFUSED || rc == -ENOENT ? "no engine listens there" : strerror(-rc));
	return 0;
}

int top_link_open(const char *target, struct top_link **link_ret, struct fathom_fault *why)
{
	struct top_link *link = calloc(1, sizeof(*link));
	int rc;

	must(link);
	link->target = target;
	rc = connect_to_target(link, why);
	if (rc) {
		top_link_close(link);
		return rc;
	}
	*link_ret = link;
	return 0;
}

void top_link_close(struct top_link *link)
{
	if (!link)
		return;
	close_link_clients(link);
	free(link);
}

/* Does the target send messages to its cores for this call? */
static bool needs_cores(const char *method)
{
	return strncmp(method, "nvmf_subsystem_get_", strlen("nvmf_subsystem_get_")) == 0 ||
	       strcmp(method, "nvmf_get_stats") == 0;
}

/* Make a call and put its result into the sample. 0: the target answered, or rejected it, which the sample reports. */
static int make_sample_call(struct top_link *link, struct rpc_client *client, struct top_sample *sample, const char *method,
			    const json_t *params, struct fathom_fault *why)
{
	json_t *result = NULL;
	int rc = rpc_client_call(client, method, params, &result, why);
	char text[FAULT_TEXT_BYTES_MAX];

	if (rc == 0) {
		top_sample_answer(sample, result, clock_monotonic_ns());
	} else if (rc == -EREMOTEIO) {
		snprintf(text, sizeof(text), "%s: %.200s", method, rpc_client_error_message(client));
		top_sample_refuse(sample, text);
		rc = 0;
	} else if (rc == -ETIMEDOUT) {
		return fault(why, rc, "%s: %s timed out; is the engine stopped?", link->path, method);
	} else {
		return fault(why, rc, "%s: the connection to the engine is lost (%s)", link->path, strerror(-rc));
	}
	return rc;
}

/* The same for calls that need the cores; a timeout is not an error. */
static int make_cores_call(struct top_link *link, struct top_sample *sample, const char *method, const json_t *params,
			   struct fathom_fault *why)
{
	int rc = 0;

	if (link->samples_to_skip == 0 && !link->cores_client)
		rc = open_rpc_client(link->path, CORES_ANSWER_SEC, &link->cores_client, why);
	if (rc)
		return fault(why, rc, "%s: the connection to the engine is lost (%s)", link->path, strerror(-rc));
	if (link->cores_client)
		rc = make_sample_call(link, link->cores_client, sample, method, params, why);
	if (rc == -ETIMEDOUT) {
		rpc_client_close(link->cores_client);
		link->cores_client = NULL;
		link->samples_to_skip = SAMPLES_SKIPPED;
		rc = 0;
	}
	if (rc == 0 && link->samples_to_skip > 0)
		top_sample_refuse(sample, TOP_CORE_SILENT);
	return rc;
}

static int take_sample(struct top_link *link, uint32_t tabs, struct top_sample **sample_ret, struct fathom_fault *why)
{
	struct top_sample *sample;
	const json_t *params;
	const char *method;
	int rc = link->client ? 0 : connect_to_target(link, why);

	if (rc)
		return rc;
	if (link->samples_to_skip > 0)
		link->samples_to_skip--;
	sample = top_sample_create(tabs);
	while (rc == 0 && top_sample_ask(sample, &method, &params)) {
		if (needs_cores(method))
			rc = make_cores_call(link, sample, method, params, why);
		else
			rc = make_sample_call(link, link->client, sample, method, params, why);
	}
	if (rc) {
		top_sample_release(sample);
		close_link_clients(link);
		return rc;
	}
	*sample_ret = sample;
	return 0;
}

void top_reply_get(struct top_link *link, uint32_t tabs, struct top_reply *reply_ret)
{
	*reply_ret = (struct top_reply){ .sample = NULL };
	if (take_sample(link, tabs, &reply_ret->sample, &reply_ret->why) == 0)
		reply_ret->why = (struct fathom_fault){ .error = 0 }; /* of a call that the target refused */
	must((reply_ret->sample == NULL) == (reply_ret->why.error != 0));
	(void)text_copy(reply_ret->path, sizeof(reply_ret->path), link->path); /* same size */
}

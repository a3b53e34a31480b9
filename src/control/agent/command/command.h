/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * command - calls of a program of this host to its running agent: `fathom volume attach` and `detach`, `fathom-agent stats`
 * and `attachments`. Each runs a reactor for its own time; one call in a process.
 */
#ifndef CONTROL_AGENT_COMMAND_COMMAND_H
#define CONTROL_AGENT_COMMAND_COMMAND_H

#include "control/agent/config/config.h"
#include "rpc/proto/agent.pb-c.h"

/* An attachment; valid during the callback. */
typedef int (*agent_attachment_fn)(void *ctx, const Agent__Attachment *attachment);
/* The callback may return an error, which ends the call. */
typedef int (*agent_counter_fn)(void *ctx, const char *name, uint64_t value, const char *meaning);

struct agent_request {
	const char *name; /* of the volume */
	bool is_temporary, is_forced;
	uint32_t timeout_ms; /* 0: 60,000 */
};

/*
 * Errors (explained) of all: agent_not_running; those of the agent, with their codes; -ETIMEDOUT.
 */
MUST_CHECK int agent_attach(const struct agent_config *config, const struct agent_request *request,
			    agent_attachment_fn take, void *ctx, struct fathom_fault *why);
MUST_CHECK int agent_detach(const struct agent_config *config, const struct agent_request *request,
			    struct fathom_fault *why);
MUST_CHECK int agent_list(const struct agent_config *config, agent_attachment_fn each, void *ctx, struct fathom_fault *why);
MUST_CHECK int agent_statistics(const struct agent_config *config, agent_counter_fn each, void *ctx,
				struct fathom_fault *why);

#endif

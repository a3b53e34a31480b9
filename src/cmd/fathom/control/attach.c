/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom volume attach and detach - requests to the agent of this host, which publishes and connects. */
#include <stdio.h>
#include <stdlib.h>

#include "cmd/fathom/command.h"
#include "cmd/fathom/control/control.h"
#include "control/agent/command/command.h"

enum { MS_PER_S = 1000 };

struct attach_result {
	const struct control_run *run;
	json_t *json;
};

static int take_attachment(void *ctx, const Agent__Attachment *attachment)
{
	struct attach_result *result = ctx;
	const char *path = attachment->link[0] ? attachment->link : attachment->device;

	if (!control_is_json(result->run)) {
		puts(path);
		return 0;
	}
	result->json = json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:b}", "name", attachment->name, "uuid", attachment->uuid,
				 "nqn", attachment->nqn, "device", attachment->device, "link", attachment->link,
				 "size_bytes", (json_int_t)attachment->size_bytes, "temporary", (int)attachment->temporary);
	return 0;
}

/* `is_attach` false: detach. */
static int make_request(struct control_run *run, const struct agent_request *request, bool is_attach)
{
	struct attach_result result = { .run = run };
	struct agent_config config;
	struct fathom_fault why = { 0 };
	int error = agent_config_read(run->values.agent_config, &config, &why);

	if (error)
		return control_fail(run, &why);
	error = is_attach ? agent_attach(&config, request, take_attachment, &result, &why)
			  : agent_detach(&config, request, &why);
	agent_config_free(&config);
	if (error)
		return control_fail(run, &why);
	return control_finish(run, result.json, NULL);
}

int run_volume_attach(struct control_run *run)
{
	const struct agent_request request = {
		.name = run->argv[0],
		.is_temporary = run->values.temporary,
		.timeout_ms = (uint32_t)(run->values.timeout * MS_PER_S),
	};

	return make_request(run, &request, true);
}

int run_volume_detach(struct control_run *run)
{
	const struct agent_request request = {
		.name = run->argv[0],
		.is_forced = run->values.force,
		.timeout_ms = (uint32_t)(run->values.timeout * MS_PER_S),
	};

	return make_request(run, &request, false);
}

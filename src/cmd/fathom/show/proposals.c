/* SPDX-License-Identifier: BSD-2-Clause */
/* Configurations that were generated, as JSON: `fathom config generate`. */
#include "cmd/fathom/show/show.h"
#include "cmd/fathom/show/parts.h"

static json_t *json_host(const struct fathom_control_answer *answer)
{
	return json_string(answer->proposal->text);
}

json_t *json_proposals(const struct fathom_control_answers *answers)
{
	return json_answers(answers, "HostConfigs", "hosts", "config", json_host);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Faults in the server's log: two lines, each with the subject and the fault's code. */
#include <stdio.h>
#include <string.h>

#include "control/fault/fault.h"
#include "control/server/core/core.h"

void server_log_fault(enum log_level level, const char *about, const struct fathom_fault *why)
{
	char prefix[256], text[FAULT_LINES_BYTES_MAX], *rest = text, *line;
	struct fault_shown shown;

	snprintf(prefix, sizeof(prefix), "%s%s", about, about[0] ? ": " : "");
	fault_show(why, &shown);
	fault_print(&shown, prefix, text, sizeof(text));
	while ((line = strsep(&rest, "\n")) && line[0])
		log_line(level, "%s", line);
}

Ctl__ResponseState *server_response_state(const struct fathom_fault *why, Ctl__ResponseStatus status, struct arena *arena)
{
	Ctl__ResponseState *state = arena_message(arena, ctl__response_state, Ctl__ResponseState);
	char text[FAULT_TEXT_BYTES_MAX];
	struct fault_shown shown;

	must(status != CTL__RESPONSE_STATUS__CTL_SUCCESS);
	if (why->error == 0)
		return state;
	fault_show(why, &shown);
	state->status = status;
	state->error = arena_text(arena, fault_message(&shown, text, sizeof(text)));
	state->info = arena_text(arena, shown.resolution);
	return state;
}

const char *server_fault_text(const struct fathom_fault *why, struct arena *arena)
{
	char text[FAULT_TEXT_BYTES_MAX];
	struct fault_shown shown;

	fault_show(why, &shown);
	return arena_format(arena, "%s%s%s", fault_message(&shown, text, sizeof(text)), shown.resolution[0] ? "; " : "",
			    shown.resolution);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* The privileged helper: its client, and a check at the start of the server. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "control/fault/fault.h"
#include "control/server/internal.h"

/* Log a fault of the helper at the start of the server, not only when storage is formatted. */
static void on_helper_pinged(void *ctx, const struct helper_reply *reply, const struct fathom_fault *why)
{
	struct server *server = ctx;
	char path[SERVER_PATH_BYTES], text[FAULT_LINES_BYTES_MAX];
	struct fathom_fault lacking = *why;
	struct fault_shown shown;

	must(reply->error <= 0);
	if (reply->error == -ECANCELED)
		return;
	server_program_path(server, server->config->helper, "fathom-helper", path);
	if (!reply->error && !reply->privileged)
		lacking.error = fault_helper_not_privileged(&lacking, path);
	if (!lacking.error) {
		log_info("the helper %s answers", path);
		return;
	}
	fault_show(&lacking, &shown);
	log_line(server_config_needs_helper(server->config) ? LOG_LEVEL_ERROR : LOG_LEVEL_INFO, "%s%s; %s",
		 server_config_needs_helper(server->config) ? "" : "no engine here needs it, but ",
		 fault_message(&shown, text, sizeof(text)), shown.resolution);
}

void helper_check(struct server_frame *frame)
{
	const struct helper_request ping = { .operation = HELPER_PING };

	must(frame->server.helper);
	helper_client_submit(frame->server.helper, &ping, on_helper_pinged, &frame->server);
}

/* Log a line of the helper without its stamp: "[2026-11-20 19:00:54.286293] ERROR: ...". */
static void log_helper_line(void *ctx, const char *line)
{
	const char *behind = line[0] == '[' ? strstr(line, "] ") : NULL;

	log_warning("helper: %s", behind ? behind + 2 : line);
}

int helper_open(struct server_frame *frame, struct fathom_fault *why)
{
	struct server *server = &frame->server;
	char path[SERVER_PATH_BYTES];
	const struct helper_client_options options = {
		.program = path,
		.version = server->options->version,
		.said = log_helper_line,
	};

	must(!server->helper);
	server_program_path(server, server->config->helper, "fathom-helper", path);
	server->helper = helper_client_create(&options, why);
	return server->helper ? 0 : why->error;
}

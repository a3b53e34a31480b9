/* SPDX-License-Identifier: BSD-2-Clause */
/* options - the command line of fathom-engine. */
#ifndef CMD_ENGINE_OPTIONS_H
#define CMD_ENGINE_OPTIONS_H

#include "cmd/options/daemon.h"
#include "data/engine/engine.h"

/* What the rows of the table fill. */
struct engine_command_line {
	struct engine_options engine;
	struct daemon_options daemon;
};

extern const struct option_table engine_table;

/* ---- server_options.c: of an engine under a server ---- */

/* For rows whose offset is that of engine.server; they store the value in that structure. */
int engine_read_socket_dir(void *to, const char *text, struct fathom_fault *why);
int engine_read_instance(void *to, const char *text, struct fathom_fault *why);
int engine_read_uuid(void *to, const char *text, struct fathom_fault *why);
int engine_read_listen(void *to, const char *text, struct fathom_fault *why);
int engine_read_metrics(void *to, const char *text, struct fathom_fault *why); /* of engine.metrics */
int engine_read_storage(void *to, const char *text, struct fathom_fault *why);
int engine_read_provider(void *to, const char *text, struct fathom_fault *why);
int engine_read_incarnation_above(void *to, const char *text, struct fathom_fault *why);

/* Check the combination of options. 0, or EXIT_USAGE after printing the error. */
MUST_CHECK int engine_check_server_options(const struct engine_server_options *options);

#endif

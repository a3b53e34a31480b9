/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the command line share. */
#ifndef CMD_ENGINE_OPTIONS_H
#define CMD_ENGINE_OPTIONS_H

#include "data/engine/engine.h"

enum { EXIT_USAGE = 2 };

/* Say what is wrong with an option; EXIT_USAGE. */
int bad_argument(const char *option, const char *value, const char *wanted);

/* ---- server_options.c: of an engine under a server ---- */

enum server_option {
	SERVER_OPTION_SOCKET_DIR,
	SERVER_OPTION_INSTANCE,
	SERVER_OPTION_UUID,
	SERVER_OPTION_LISTEN,
	SERVER_OPTION_STORAGE,
	SERVER_OPTION_PROVIDER,
	SERVER_OPTION_INCARNATION_ABOVE,
};

/* 0, or EXIT_USAGE: it was said what is wrong. */
int read_server_option(int option, const char *text, struct engine_server_options *options);
/* Whether they fit together; likewise. */
int check_server_options(const struct engine_server_options *options);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* Declarations shared by the files of the command line. */
#ifndef CMD_ENGINE_OPTIONS_H
#define CMD_ENGINE_OPTIONS_H

#include "data/engine/engine.h"

enum { EXIT_USAGE = 2 };

/* Print that an option has an invalid value. Returns EXIT_USAGE. */
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

/* 0, or EXIT_USAGE after printing the error. */
int read_server_option(int option, const char *text, struct engine_server_options *options);
/* Check the combination of options. 0, or EXIT_USAGE after printing the error. */
int check_server_options(const struct engine_server_options *options);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * refusal_log - one log line for each refused registration, from the socket and from the device.
 *
 * Any user can cause these lines, so their rate is limited. Each limiter serves the users of one remainder of the user
 * id, so that a flood of one user hides the lines of few others.
 *
 * Thread: control.
 */
#ifndef PROBED_REGISTER_REFUSAL_LOG_H
#define PROBED_REGISTER_REFUSAL_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "inspect/probed/register/states.gen.h"

enum { REFUSAL_LINES_AT_ONCE = 20, REFUSAL_USERS = 16 };

struct refusal {
	pid_t pid;
	uid_t uid;
	enum probed_way way;
	const char *module;  /* its name, as the process sent it; may lack the NUL; "": not known */
	size_t module_bytes; /* of the field that holds it */
	int error;
	const char *why;
};

/*
 * Log `refusal`: WARNING; INFO if the process or the daemon ended first. Characters that are not printable become '?'.
 * Borrows all.
 */
void refusal_log(const struct refusal *refusal);

#endif

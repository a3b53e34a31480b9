/* SPDX-License-Identifier: BSD-2-Clause */
/* probe - shared by the sub-commands of `fathom probe`. */
#ifndef CMD_FATHOM_PROBE_PROBE_H
#define CMD_FATHOM_PROBE_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include "cmd/fathom/command.h"

struct probe_request {
	char **targets; /* ids or names of processes; none: all engines */
	int target_count;
	bool all, json;
	bool force; /* an existing `output` is replaced */
	/* of registry */
	const char *socket;	     /* NULL: the default */
	const char *state_directory; /* NULL: request the rows from the daemon */
	bool watch;
	/* of dof */
	bool check;
	/* of run */
	const char *program;	 /* -e; NULL: the first of the targets is a script */
	const char *output;	 /* NULL: standard output */
	uint64_t duration_ns;	 /* 0: until Ctrl-C */
	uint64_t end_timeout_ns; /* for bpftrace to end after its interrupt; 0: the default */
	bool print, verbose;
	char *const *script_args; /* ends with NULL */
};

/* Print "fathom probe: TEXT" and, unless it is NULL, the value in quotes. Returns EXIT_USAGE. */
int probe_complain(const char *text, const char *value);

extern const char probe_page[]; /* docs/probes.md */

/* The sub-commands. They return the exit status. */
int probe_check(const struct probe_request *request);
int probe_dof(const struct probe_request *request);
int probe_list(const struct probe_request *request);
int probe_registry(const struct probe_request *request);
int probe_run(const struct probe_request *request);

#endif

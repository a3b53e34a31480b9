/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * doctor - what `fathom doctor` finds on this host, for the calls of other hosts and for the status page; and what this
 * server knows of itself, which the doctor asks it for.
 *
 *	HostDoctor, status page -> `fathom doctor --json PID` as a child process -> its report -> answers, or the page
 *	`fathom doctor` -> CONDITION -> instances, members, database, events -> its findings about this server
 *
 * One child at a time, for all callers, and with a time limit: after DOCTOR_RUN_SECONDS it is killed. No function here
 * waits. All on the control thread.
 */
#ifndef CONTROL_SERVER_DOCTOR_DOCTOR_H
#define CONTROL_SERVER_DOCTOR_DOCTOR_H

#include <jansson.h>

#include "control/server/core/core.h"
#include "rpc/drpc/drpc.h"

enum {
	DOCTOR_RUN_SECONDS = 25,     /* the doctor itself ends after two looks of seven seconds */
	DOCTOR_FRESH_SECONDS = 5,    /* a report that is so young answers a call */
	DOCTOR_PAGE_SECONDS = 60,    /* the status page gets a new report at most so often, and only while it is open */
	DOCTOR_REPORT_MAX = 4 << 20, /* bytes */
};

/* Errors (explained): -ENOMEM. */
MUST_CHECK int doctor_open(struct server *server, struct fathom_fault *why);
/* The server leaves: kill the child, and answer the waiting calls. Accepts a doctor that is not open. */
void doctor_leave(struct server *server);
/* Accepts a doctor that is not open. */
void doctor_close(struct server *server);

/*
 * The latest report for the status page: an object as `fathom doctor --json` prints it, with "taken_ns". Borrowed until the
 * next turn. NULL: there is none yet. Begins a new look if the report is older than DOCTOR_PAGE_SECONDS.
 */
const json_t *doctor_report_for_page(struct server *server);

/* The dRPC method CONDITION. */
void call_condition(struct drpc_call *call, const ProtobufCMessage *request);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * doctor, internal.
 *
 *	doctor.c	opening, closing; the calls that wait; the status page
 *	run.c		the child process
 *	answer.c	its report as a message
 *	condition.c	what this server knows of itself
 */
#ifndef CONTROL_SERVER_DOCTOR_INTERNAL_H
#define CONTROL_SERVER_DOCTOR_INTERNAL_H

#include "base/list.h"
#include "control/server/doctor/doctor.h"

/* A call that waits for the report. */
struct doctor_caller {
	TAILQ_ENTRY(doctor_caller) link;
	struct grpc_call *call;
};

/* The child process. */
struct doctor_run {
	pid_t pid; /* 0: none */
	int pid_fd, fd;
	struct fd_watch *ends, *says;
	struct deadline due;
	uint8_t *text;
	size_t room, bytes;
	bool is_killed;
};

struct server_doctor {
	struct server *server;
	TAILQ_HEAD(, doctor_caller) callers;
	struct doctor_run run;
	json_t *report;		 /* the latest; NULL: none, and `why` has the reason, or there was no look yet */
	struct fathom_fault why; /* of the latest look; error 0: `report` is its result */
	uint64_t began_ns;	 /* CLOCK_REALTIME of the latest look; 0: there was none */
	uint64_t ended;		 /* tick of its end */
	bool is_leaving;
};

/* ---- run.c ---- */

/* Start the child; run_ended() is called once, later. Errors (explained). */
MUST_CHECK int run_begin(struct server_doctor *doctor, struct fathom_fault *why);
/* Kill the child and forget it: run_ended() is not called. Accepts none. */
void run_cancel(struct server_doctor *doctor);

/* ---- doctor.c ---- */

/* The child has ended: its report (taken), or NULL with `why`. */
void run_ended(struct server_doctor *doctor, json_t *report, const struct fathom_fault *why);

/* ---- answer.c ---- */

const ProtobufCMessage *doctor_answer(const json_t *report, struct arena *arena);

/* ---- devices.c ---- */

/* The devices of this host that report a problem, do not answer, or are gone from below an engine. */
json_t *doctor_devices(const struct server *server);

#endif

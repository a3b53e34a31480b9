/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * doctor - `fathom doctor`: finds what is wrong with an engine, by file:
 *
 *   doctor.c   its options; looks, judges, prints
 *   target.c   a process, a name, a socket or a file -> the process, its trace file and its control socket
 *   answers.c  the source that calls the control socket
 *   bundle.c   the evidence and the report as one archive; reads the evidence of one
 *
 * What is looked at, and the rules, are in inspect/doctor.
 */
#ifndef CMD_FATHOM_DOCTOR_DOCTOR_H
#define CMD_FATHOM_DOCTOR_DOCTOR_H

#include <limits.h>

#include "base/fault.h"
#include "inspect/doctor/doctor.h"

struct doctor_target {
	int32_t pid;		 /* 0: not known, or its number belongs to another process now */
	char trace[PATH_MAX];	 /* "": none was found */
	char socket[PATH_MAX];	 /* "": none was found */
	char no_socket[256];	 /* why */
	char evidence[PATH_MAX]; /* a saved one; "": look */
};

/*
 * Find what `name` names: a process id, the name of a program or of its trace file, a control socket, a trace file, a
 * bundle; NULL: the only engine. Errors (explained): -ENOENT, -EACCES, -EEXIST (several).
 */
MUST_CHECK int doctor_find(const char *name, struct doctor_target *target_ret, struct fathom_fault *why);

/* The source "answers"; `ctx` is a const struct doctor_target *. */
void doctor_look_answers(struct doctor_out *out, const void *ctx);

/*
 * Write the evidence without secrets, the report, and the trace file to the archive `path` (tar). Errors (explained):
 * those of the files.
 */
struct doctor_bundle {
	const json_t *evidence;
	const struct findings *findings;
	const char *title;
	const char *trace; /* path; "": none */
	bool force;	   /* replace a file */
};
MUST_CHECK int doctor_write_bundle(const char *path, const struct doctor_bundle *bundle, struct fathom_fault *why);
/* Read the evidence of an archive, or of its file evidence.json. Errors (explained): -EBADMSG; those of the file. */
MUST_CHECK int doctor_read_bundle(const char *path, json_t **evidence_ret, struct fathom_fault *why);

#endif

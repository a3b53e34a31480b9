/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * doctor - `fathom doctor`: finds what is wrong with an engine, or with a server and its engines, by file:
 *
 *   doctor.c   its options
 *   target.c   a process, a name, a socket or a file -> the process, its trace file and its control socket
 *   find_server.c  the server of this machine, and its configuration
 *   look.c     the sources that are looked at
 *   answers.c  the source that calls the control socket of an engine
 *   server.c   the source that reads the files of a server		service.c   those that read its sockets
 *   report.c   judges and prints
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
	bool is_server;		 /* a fathom-server, with: */
	char configuration[PATH_MAX];
	char core[PATH_MAX]; /* a core file, whose trace is `trace`, too; "": none */
};

/*
 * Find what `name` names: a process id, the name of a program or of its trace file, a control socket, a trace file, a
 * core file, a bundle; NULL: the only engine. Errors (explained): -ENOENT, -EACCES, -EEXIST (several).
 */
MUST_CHECK int doctor_find(const char *name, struct doctor_target *target_ret, struct fathom_fault *why);

/* Find the trace file of its process, if there is one. */
void doctor_find_trace(struct doctor_target *target);

/* Is the process of the target a server? Then fill the rest of the target. */
bool doctor_is_server(struct doctor_target *target);
/*
 * Find the server with this configuration, which need not run; NULL: the only one that runs. Errors: -ENOENT (none runs;
 * not explained); -EEXIST (several), -ENAMETOOLONG, both explained.
 */
MUST_CHECK int doctor_find_server(const char *configuration, struct doctor_target *target_ret, struct fathom_fault *why);
/* Was the process started with a program of this name? */
bool doctor_runs_program(int32_t pid, const char *program);

/* ---- evidence ---- */

/* The source "answers"; `ctx` is a const struct doctor_target *. */
void doctor_look_answers(struct doctor_out *out, const void *ctx);
/* The source "server"; `ctx` is a const struct doctor_target *. */
void doctor_look_server(struct doctor_out *out, const void *ctx);
/* The source "service"; `ctx` is a const char *: the folder of the server's socket. */
void doctor_look_service(struct doctor_out *out, const void *ctx);
/* The source "port"; `ctx` is a const struct doctor_port *. */
struct doctor_port {
	int32_t pid;
	unsigned int port;
};
void doctor_look_port(struct doctor_out *out, const void *ctx);
/* The source "agents" of this machine; `ctx` is not used. */
void doctor_look_agents(struct doctor_out *out, const void *ctx);

/*
 * Look at all sources of an engine, with the certificates of a folder and the recording `past` (NULL: that of a recorder
 * that runs); of a server and its engines. `begin_ns` (monotonic): when the command began. Pair: json_decref().
 */
json_t *doctor_look_engine(const struct doctor_target *target, const char *certificates, const char *past,
			   uint64_t begin_ns);
json_t *doctor_look_host(const struct doctor_target *target, uint64_t begin_ns);

/* ---- the report ---- */

/* Judge the evidence of an engine, or of a server with its engines. Pair: doctor_report_destroy(). */
struct doctor_report *doctor_report_create(const json_t *evidence);
void doctor_report_destroy(struct doctor_report *report);
enum finding_severity doctor_report_worst(const struct doctor_report *report);
/* Check ferror(`to`). */
void doctor_report_print(const struct doctor_report *report, FILE *to);
/* Pair: json_decref(). */
json_t *doctor_report_json(const struct doctor_report *report);

/*
 * Write the evidence without secrets, the report, the trace file, and the report of a crash to the archive `path` (tar).
 * Errors (explained): those of the files.
 */
struct doctor_bundle {
	const json_t *evidence;
	const struct doctor_report *report;
	const char *trace; /* path; "": none */
	bool force;	   /* replace a file */
};
MUST_CHECK int doctor_write_bundle(const char *path, const struct doctor_bundle *bundle, struct fathom_fault *why);
/* Read the evidence of an archive, or of its file evidence.json. Errors (explained): -EBADMSG; those of the file. */
MUST_CHECK int doctor_read_bundle(const char *path, json_t **evidence_ret, struct fathom_fault *why);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * doctor - finds what is wrong with one engine: Fathom's or an SPDK target, alive, stopped or dead; or with a server.
 *
 *   sources -> evidence (one JSON document) -> rules -> findings -> text or JSON
 *
 * By file:
 *
 *   source.c     looks at all sources at the same time, each in a child process with a time limit
 *   process.c    threads.c, program.c, cgroup.c, machine.c, files.c: what the kernel knows of the process, of the
 *                machine, and of the file systems of its open files
 *   certificates.c  when certificates expire
 *   traced.c     traced_*.c: what the trace file has
 *   recording.c  the past in a recording of the trace
 *   crash.c      what a core file has
 *   answers.c    which calls of the control socket to make; the caller makes them
 *   rules*.c     evidence -> findings. Pure
 *   findings.def findings.c  all findings, and their order
 *   print.c      the report
 *   secrets.c    removes secrets from all that leaves the machine
 *
 * A source writes nothing, takes no lock and attaches to nothing: it disturbs no engine. Each may fail, be refused or not
 * return: that is evidence, too. The document is complete: a saved one gives the same findings on another machine.
 *
 * Thread: one; the process must have no other when it looks. Out of memory: the program aborts.
 */
#ifndef INSPECT_DOCTOR_DOCTOR_H
#define INSPECT_DOCTOR_DOCTOR_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "inspect/doctor/findings.h"

enum {
	DOCTOR_LOOK_MS = 1000,	/* the time between two looks at one counter */
	DOCTOR_LIMIT_MS = 7000, /* after this, sources that have not ended are cut off */
	DOCTOR_SOURCES_MAX = 128,
};

/* ---- evidence ---- */

/* Where a source puts what it sees. */
struct doctor_out;

/* Takes `value`; NULL: nothing is put. */
void doctor_put(struct doctor_out *out, const char *key, json_t *value);
/* Say what comes next, for the case that it does not return. */
void doctor_step(struct doctor_out *out, const char *format, ...) PRINTF_LIKE(2, 3);
/* The time since the source began. */
uint64_t doctor_elapsed_ms(const struct doctor_out *out);
/* Wait until DOCTOR_LOOK_MS after `since_ms` of doctor_elapsed_ms(). */
void doctor_wait_look(const struct doctor_out *out, uint64_t since_ms);

struct doctor_paths {
	const char *const *paths;
	size_t count;
};

struct doctor_source {
	const char *name;
	void (*look)(struct doctor_out *out, const void *ctx);
	const void *ctx;
};

/*
 * Look at all sources. Returns { NAME: { KEY: VALUE ... } ... }. A source that did not end within `limit_ms` also has
 * "unfinished": its last step; one that crashed has "crashed".
 */
json_t *doctor_look(const struct doctor_source *sources, size_t count, uint64_t limit_ms);

/* Sources; `ctx` is a const int32_t *: the process id. */
void doctor_look_process(struct doctor_out *out, const void *ctx);
void doctor_look_machine(struct doctor_out *out, const void *ctx);
void doctor_look_files(struct doctor_out *out, const void *ctx);
/* `ctx` is a const struct doctor_paths *: certificates, or folders of them. A path that does not exist is left out. */
void doctor_look_certificates(struct doctor_out *out, const void *ctx);
/* `ctx` is a const struct doctor_paths *: of this machine, whose file systems are looked at as those of open files. */
void doctor_look_folders(struct doctor_out *out, const void *ctx);
/* `ctx` is a const char *: the path of the trace file. */
void doctor_look_trace(struct doctor_out *out, const void *ctx);

/* `ctx` is a const char *: the path of a core file. */
void doctor_look_core(struct doctor_out *out, const void *ctx);
bool doctor_is_core(const char *path);
/* A recording of the engine: of `path`, or (NULL) that of a recorder that runs. `ctx`: a struct doctor_recording. */
struct doctor_recording {
	const char *path, *trace; /* trace "": none */
	const int32_t *pid;
};
void doctor_look_recording(struct doctor_out *out, const void *ctx);

/* The calls of the control socket: call `index`; false: no more. */
struct doctor_call {
	const char *key, *method; /* key: where the result belongs in the evidence */
	bool second;		  /* a second look: DOCTOR_LOOK_MS after the first one */
	bool walks;		  /* an SPDK target sends messages to its cores for it; ours reads counters */
	bool cores;		  /* the target sends messages to its cores for this call: it may not answer if one hangs */
};
MUST_CHECK bool doctor_call_at(uint32_t index, struct doctor_call *call_ret);

/* ---- findings ---- */

/* Apply all rules to `evidence`, and order what they find. Pair: findings_destroy(). */
struct findings *doctor_judge(const json_t *evidence);

/* ---- the report ---- */

/* `title` names the engine. Check ferror(`to`). */
void doctor_print(const struct findings *list, const char *title, FILE *to);
/* { "health", "findings": [ ... ] } Pair: json_decref(). */
json_t *doctor_json(const struct findings *list);
/* "healthy", "degraded", "broken" */
const char *doctor_health(const struct findings *list);

/* A copy of a document without what must not leave the machine: keys, secrets, passwords. */
json_t *doctor_without_secrets(const json_t *document);
/* Overwrite the keys in `text`, of any bytes, by asterisks. A key that begins before `text` is not found. */
void doctor_erase_keys(char *text, size_t bytes);

#endif

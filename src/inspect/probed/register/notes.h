/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * notes - the SDT probes of running processes, registered or not. Each mapped file is read, and parsed in the jail, once.
 */
#ifndef PROBED_REGISTER_NOTES_H
#define PROBED_REGISTER_NOTES_H

#include "inspect/probed/register/internal.h"

struct notes;

/* Reports a probe, with addresses of the process. All is borrowed. */
typedef void (*notes_probe_fn)(void *ctx, const struct stash_process *process, const struct stash_mapping *mapping,
			       const struct dof_provider *provider, const struct dof_probe *probe);
/* The wait is over: call notes_step(). */
typedef void (*notes_wake_fn)(void *ctx);

/*
 * List the probes of process `only`, or (0) of all processes that `uid` may inspect: its own, or all if it is root. NULL:
 * out of memory, or /proc cannot be read.
 */
struct notes *notes_create(struct registry *registry, uid_t uid, pid_t only, notes_probe_fn fn, notes_wake_fn wake,
			   void *ctx);
/* `fn` and `wake` are not called any more. */
void notes_destroy(struct notes *notes);

/* Do some work. WAIT: call it again after `wake`. */
enum notes_step { NOTES_MORE, NOTES_WAIT, NOTES_END };
enum notes_step notes_step(struct notes *notes);

#endif

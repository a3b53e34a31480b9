/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * notes - the SDT probes of running processes, whether they registered or not: their mapped files are read, and what these
 * say is parsed in the jail, each file once.
 */
#ifndef PROBED_REGISTER_NOTES_H
#define PROBED_REGISTER_NOTES_H

#include "inspect/probed/register/internal.h"

struct notes;

/* One probe; its addresses are those in the process. All is borrowed. */
typedef void (*notes_probe_fn)(void *ctx, const struct stash_process *process, const struct stash_mapping *mapping,
			       const struct dof_provider *provider, const struct dof_probe *probe);
/* What was waited for has come: call notes_step(). */
typedef void (*notes_wake_fn)(void *ctx);

/*
 * Of the processes of `uid`, or if that is root of all; `only`: of this one, 0: of all. NULL: out of memory, or /proc
 * cannot be read.
 */
struct notes *notes_create(struct registry *registry, uid_t uid, pid_t only, notes_probe_fn fn, notes_wake_fn wake,
			   void *ctx);
/* Neither function is called any more. */
void notes_destroy(struct notes *notes);

/* Go on for a while. WAIT: until `wake`. */
enum notes_step { NOTES_MORE, NOTES_WAIT, NOTES_END };
enum notes_step notes_step(struct notes *notes);

#endif

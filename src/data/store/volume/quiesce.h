/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * quiesce, internal: holds all I/O of a volume's block device while its data file is exchanged. Control thread.
 *
 * If the I/O in progress does not end within BARRIER_DRAIN_SEC, the start fails, and all I/O goes on.
 */
#ifndef DATA_STORE_VOLUME_QUIESCE_H
#define DATA_STORE_VOLUME_QUIESCE_H

#include "base/fault.h"

struct quiesce;

/* `why`: NULL if nothing is in progress and new I/O waits; else it has failed, and is gone. Called after the start. */
typedef void (*quiesce_done_fn)(void *ctx, const struct fathom_fault *why);

/* Aborts if out of memory. A device that does not exist has no I/O. */
struct quiesce *quiesce_start(const char *device, quiesce_done_fn done, void *ctx);
/* Let the I/O go on, after `done` succeeded. Accepts NULL. */
void quiesce_end(struct quiesce *quiesce);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * quiesce, internal: holds all I/O of a volume's block device while its data file is exchanged. Control thread.
 *
 * If the I/O in progress does not end within BARRIER_DRAIN_SEC, the start fails, and all I/O goes on. While it is held,
 * each channel hears of it again and again for QUIESCE_SEC; BDEV_HOLD_SILENCE_SEC later it lets its I/O go on.
 */
#ifndef DATA_STORE_VOLUME_QUIESCE_H
#define DATA_STORE_VOLUME_QUIESCE_H

#include "base/fault.h"

enum { QUIESCE_SEC = 12 }; /* with the silence shorter than 30 s, after which hosts give a command up */

struct quiesce;

/* `why`: NULL if nothing is in progress and new I/O waits; else it has failed, and is gone. Called after the start. */
typedef void (*quiesce_done_fn)(void *ctx, const struct fathom_fault *why);

/* Aborts if out of memory. A device that does not exist has no I/O. */
struct quiesce *quiesce_start(const char *device, quiesce_done_fn done, void *ctx);
/*
 * Ask, after `done` of the start succeeded, whether all I/O still waits. If a channel has let its I/O go on, `done` fails,
 * and the quiesce is gone. Else the I/O waits for long enough to exchange the file in the callback.
 */
void quiesce_confirm(struct quiesce *quiesce, quiesce_done_fn done, void *ctx);
/* Let the I/O go on, after `done` succeeded. Accepts NULL. */
void quiesce_end(struct quiesce *quiesce);

#endif

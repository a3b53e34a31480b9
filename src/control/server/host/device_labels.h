/* SPDX-License-Identifier: BSD-2-Clause */
/* device_labels - reads, through the helper, the labels of devices that the server's user may not read. */
#ifndef CONTROL_SERVER_HOST_DEVICE_LABELS_H
#define CONTROL_SERVER_HOST_DEVICE_LABELS_H

#include "control/server/core/core.h"
#include "control/storage/storage.h"

/*
 * `done` is always called, later; `scan` and `why` are lent until then. `why` is then the first fault of the helper; a
 * device that was not read keeps its signature_error. On the control thread.
 */
void device_labels_read(struct server *server, struct storage_scan *scan, struct fathom_fault *why, void (*done)(void *ctx),
			void *ctx);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads the labels of devices that the server's user may not read, through the helper and as far as its list of devices
 * allows. Only devices that are not in use are read; the others cannot be free anyway. The time-out is short, so that a
 * device that hangs does not block the scan.
 */
#include "control/server/host/device_labels.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum { READ_TIMEOUT_MS = 3000 };

struct label_read {
	struct label_reads *reads;
	size_t device; /* its place in the scan */
};

struct label_reads {
	struct server *server;
	struct storage_scan *scan;
	struct fathom_fault *why;
	void (*done)(void *ctx);
	void *ctx;
	size_t left;
	struct label_read parts[];
};

static bool is_not_read(const struct storage_device *device)
{
	return (device->signature_error == -EACCES || device->signature_error == -EPERM) && !device->use_error &&
	       storage_use(device) == STORAGE_USE_UNREADABLE;
}

static void finish_label_reads(void *ctx)
{
	struct label_reads *reads = ctx;

	must(reads->left == 0);
	reads->done(reads->ctx);
	free(reads);
}

static void on_label_read(void *ctx, const struct helper_reply *reply, const struct fathom_fault *why)
{
	struct label_read *part = ctx;
	struct label_reads *reads = part->reads;
	struct storage_device *device = &reads->scan->devices[part->device];

	must(reads->left > 0);
	must(part->device < reads->scan->count);
	must(reads->left <= reads->scan->count);
	must(reply->error <= 0);
	if (reply->error == 0) {
		device->signature = reply->signature;
		device->signature_error = 0;
	} else if (!reads->why->error) {
		*reads->why = *why;
	}
	if (--reads->left == 0)
		finish_label_reads(reads);
}

void device_labels_read(struct server *server, struct storage_scan *scan, struct fathom_fault *why, void (*done)(void *ctx),
			void *ctx)
{
	struct label_reads *reads = calloc(1, sizeof(*reads) + scan->count * sizeof(reads->parts[0]));
	size_t count = 0;

	must(reads);
	*why = (struct fathom_fault){ 0 };
	*reads = (struct label_reads){ .server = server, .scan = scan, .why = why, .done = done, .ctx = ctx };
	for (size_t i = 0; i < scan->count; i++) {
		if (is_not_read(&scan->devices[i]))
			reads->parts[count++] = (struct label_read){ .reads = reads, .device = i };
	}
	must(count <= scan->count);
	reads->left = count;
	if (count == 0)
		thread_send_msg(thread_self(), finish_label_reads, reads);
	for (size_t i = 0; i < count; i++) { /* on_label_read() is never called from within the submission */
		struct helper_request request = { .operation = HELPER_READ_LABEL, .timeout_ms = READ_TIMEOUT_MS };

		must(text_copy(request.device, sizeof(request.device), scan->devices[reads->parts[i].device].path) == 0);
		helper_client_submit(server->helper, &request, on_label_read, &reads->parts[i]);
	}
}

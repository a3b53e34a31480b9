/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads the labels of devices that the server's user may not read, through the helper and as far as its list of devices
 * allows. Only devices that are not in use are read; the others cannot be free anyway. The time-out is short, so that a
 * device that hangs does not block the scan.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "control/server/core/core.h"

enum { LOOK_MS = 3000 };

struct look {
	struct unread *unread;
	size_t device; /* its place in the scan */
};

struct unread {
	struct server *server;
	struct storage_scan *scan;
	struct fathom_fault *why;
	void (*done)(void *ctx);
	void *ctx;
	size_t left;
	struct look looks[];
};

static bool is_unread(const struct storage_device *device)
{
	return (device->signature_error == -EACCES || device->signature_error == -EPERM) && !device->use_error &&
	       storage_use(device) == STORAGE_USE_UNREADABLE;
}

static void finish_reading(void *ctx)
{
	struct unread *unread = ctx;

	unread->done(unread->ctx);
	free(unread);
}

static void on_label_read(void *ctx, const struct helper_reply *reply, const struct fathom_fault *why)
{
	struct look *look = ctx;
	struct unread *unread = look->unread;
	struct storage_device *device = &unread->scan->devices[look->device];

	if (reply->error == 0) {
		device->signature = reply->signature;
		device->signature_error = 0;
	} else if (!unread->why->error) {
		*unread->why = *why;
	}
	if (--unread->left == 0)
		finish_reading(unread);
}

void server_read_unread(struct server *server, struct storage_scan *scan, struct fathom_fault *why, void (*done)(void *ctx),
			void *ctx)
{
	struct unread *unread = calloc(1, sizeof(*unread) + scan->count * sizeof(unread->looks[0]));
	size_t count = 0;

	must(unread);
	*why = (struct fathom_fault){ 0 };
	*unread = (struct unread){ .server = server, .scan = scan, .why = why, .done = done, .ctx = ctx };
	for (size_t i = 0; i < scan->count; i++) {
		if (is_unread(&scan->devices[i]))
			unread->looks[count++] = (struct look){ .unread = unread, .device = i };
	}
	unread->left = count;
	if (count == 0)
		thread_send_msg(thread_self(), finish_reading, unread);
	for (size_t i = 0; i < count; i++) { /* on_label_read() is never called from within the submission */
		struct helper_request request = { .operation = HELPER_READ_LABEL, .timeout_ms = LOOK_MS };

		must(text_copy(request.device, sizeof(request.device), scan->devices[unread->looks[i].device].path) == 0);
		helper_client_submit(server->helper, &request, on_label_read, &unread->looks[i]);
	}
}

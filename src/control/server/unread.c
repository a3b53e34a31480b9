/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What devices hold that the server may not read: the helper looks, where its list lets it. Only at those that nobody
 * uses, for of the others it is known enough, and with a short time, so that one that hangs does not hold up a scan.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "control/server/internal.h"

enum { LOOK_MS = 3000 };

struct look {
	struct unread *unread;
	size_t device; /* its place in the scan */
};

struct unread {
	struct server *server;
	struct storage_scan *scan;
	struct fault *why;
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

static void end(void *ctx)
{
	struct unread *unread = ctx;

	unread->done(unread->ctx);
	free(unread);
}

static void looked(void *ctx, const struct helper_reply *reply, const struct fault *why)
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
		end(unread);
}

void server_read_unread(struct server *server, struct storage_scan *scan, struct fault *why, void (*done)(void *ctx),
			void *ctx)
{
	struct unread *unread = calloc(1, sizeof(*unread) + scan->count * sizeof(unread->looks[0]));
	size_t count = 0;

	must(unread);
	*why = (struct fault){ 0 };
	*unread = (struct unread){ .server = server, .scan = scan, .why = why, .done = done, .ctx = ctx };
	for (size_t i = 0; i < scan->count; i++) {
		if (is_unread(&scan->devices[i]))
			unread->looks[count++] = (struct look){ .unread = unread, .device = i };
	}
	unread->left = count;
	if (count == 0)
		thread_send_msg(thread_self(), end, unread);
	for (size_t i = 0; i < count; i++) { /* answers come later, none from within */
		struct helper_request request = { .operation = HELPER_READ_LABEL, .timeout_ms = LOOK_MS };

		must(text_copy(request.device, sizeof(request.device), scan->devices[unread->looks[i].device].path) == 0);
		helper_client_submit(server->helper, &request, looked, &unread->looks[i]);
	}
}

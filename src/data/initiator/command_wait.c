/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * command_wait - wait in poll(2) for one step of connecting, or for one command. A step that has had no answer for a
 * second is reported to the program.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "data/initiator/internal.h"
#include "data/nvme/status.h"

struct wait {
	bool done;
	struct fathom_completion completion;
};

static void on_done(void *ctx, const struct fathom_completion *completion)
{
	struct wait *wait = ctx;

	must(!wait->done);
	wait->completion = *completion;
	wait->done = true;
}

void controller_report_waiting(const struct fathom_connect_options *options, const char *what)
{
	char text[512];

	if (!options->waiting)
		return;
	snprintf(text, sizeof(text), "%.128s port %.64s %.256s", options->address, options->service, what);
	options->waiting(options->waiting_ctx, text);
}

/*
 * Poll until `*done` (NULL: until ICResp has come). `what` goes into `why`. On a time-out the connection is lost: a later
 * completion would write into the stack frame of the caller.
 */
static int wait_for(const struct fathom_connect_options *options, struct fathom_qpair *qpair, const bool *done,
		    const char *what, struct fathom_fault *why)
{
	uint64_t begin = clock_monotonic_ns(), until = begin + options->connect_timeout_ms * NS_PER_MS;
	uint64_t report = begin + CONTROLLER_WAITING_MS * NS_PER_MS;
	char text[128];

	while (done ? !*done : qpair->phase != QPAIR_RUNNING) {
		int error = fathom_qpair_poll(qpair);
		uint64_t now;

		if (error < 0)
			return fault(why, error, "%s: %s", what, qpair->fault.text);
		if (error > 0 || (!done && qpair->phase == QPAIR_RUNNING))
			continue;
		now = clock_monotonic_ns();
		if (now >= until) {
			qpair_lose(qpair, -ETIMEDOUT, "no answer for %u ms", options->connect_timeout_ms);
			continue;
		}
		if (now >= report) {
			snprintf(text, sizeof(text),
				 done ? "has not answered yet: %s" : "accepted the connection; waiting for %s", what);
			controller_report_waiting(options, text);
			report = UINT64_MAX;
		}
		fathom_qpair_wait(qpair, (int)min_u64((min_u64(until, report) - now) / NS_PER_MS + 1, INT32_MAX));
	}
	return 0;
}

int controller_run(const struct fathom_controller *controller, struct fathom_qpair *qpair,
		   struct controller_command *command, struct fathom_fault *why, struct fathom_completion *completion_ret)
{
	struct iovec iov = { .iov_base = command->data, .iov_len = command->data_bytes };
	struct wait wait = { .done = false };
	int error = qpair_submit(qpair, &command->nvme, &iov, command->data_bytes > 0, on_done, &wait);

	if (error)
		return fault(why, error, "%s: %s", command->name,
			     error == -ENOTCONN ? qpair->fault.text : strerror(-error));
	error = wait_for(&controller->options, qpair, &wait.done, command->name, why);
	if (error)
		return error;
	*completion_ret = wait.completion;
	return 0;
}

int controller_admin(struct fathom_controller *controller, struct controller_command *command, struct fathom_fault *why,
		     uint64_t *result_ret)
{
	struct fathom_completion completion;
	char text[128];
	int error = controller_run(controller, controller->admin, command, why, &completion);

	if (error)
		return error;
	if (completion.error || completion.status) {
		error = completion.status == NVME_SC_INVALID_NAMESPACE ? -ENOENT : -EIO;
		return fault(why, error, "%s: %s", command->name, fathom_completion_text(&completion, text, sizeof(text)));
	}
	if (result_ret)
		*result_ret = completion.result;
	return 0;
}

int controller_wait_icresp(const struct fathom_controller *controller, struct fathom_qpair *qpair, struct fathom_fault *why)
{
	const struct fathom_connect_options *options = &controller->options;
	int error = wait_for(options, qpair, NULL, "ICResp", why);

	if (error == -ETIMEDOUT)
		return fault(
			why, error,
			"%s port %s accepted the connection but sent no ICResp within %u.%u s; is it an NVMe/TCP port?",
			controller->address, controller->service, options->connect_timeout_ms / 1000,
			options->connect_timeout_ms % 1000 / 100);
	if (error == -ECONNRESET || error == -EPIPE)
		return fault(
			why, error,
			"%s port %s accepted the connection and closed it before ICResp: it refuses this host, or is no "
			"NVMe/TCP port",
			controller->address, controller->service);
	if (error)
		return fault(why, error, "%s port %s accepted the connection, but: %s", controller->address,
			     controller->service, qpair->fault.text);
	return 0;
}

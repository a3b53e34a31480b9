/* SPDX-License-Identifier: BSD-2-Clause */
/* run - runs a reactor for the time of one command, and ends it with the command's result. */
#include <string.h>

#include "control/fault/fault.h"
#include "control/server/command/internal.h"

static struct {
	bool is_running, has_ended;
	int error;
	void (*close_clients)(void);
} command;

static void stop_reactor(void *ctx)
{
	must(command.has_ended);
	command.close_clients();
	reactors_request_stop();
}

void command_end(int error, void (*close_clients)(void))
{
	must(command.is_running);
	must(!command.has_ended);
	must(error <= 0);
	command.has_ended = true;
	command.error = error;
	command.close_clients = close_clients;
	thread_send_msg(thread_self(), stop_reactor, NULL);
}

int command_run(thread_fn start, struct fathom_fault *why)
{
	const struct reactor_options reactors = { .spin_ns = 0 };
	int error = reactors_start(&reactors);

	must(!command.is_running);
	if (error)
		return fault(why, error, "the reactor cannot start: %s", strerror(-error));
	command.is_running = true;
	thread_send_msg(thread_control(), start, NULL);
	reactors_run();
	must(command.has_ended);
	reactors_stop();
	return command.error;
}

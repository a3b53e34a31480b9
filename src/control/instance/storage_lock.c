/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Each engine holds a lock (flock) on the folder of its storage while it lives. The kernel releases the lock after it has
 * freed the engine's memory, rings and files: shortly after a SIGKILL, sometimes after the pid is gone. So a held lock is
 * checked again:
 *
 *	the holder lives		5 times in a second: it may have been killed just now
 *	the holder ends, or is unknown	for 15 s
 */
#include <errno.h>
#include <fcntl.h>

#include "base/clock.h"
#include "base/text.h"
#include "control/fault/fault.h"
#include "control/instance/internal.h"
#include "control/instance/probes.gen.h"

int instance_check_free(struct instance *instance, void (*again)(struct deadline *), struct fathom_fault *why)
{
	struct provider *os = instance->options.os;
	char holder[PROVIDER_HOLDER_BYTES];
	int fd = os->calls->open(os, instance->options.mount, O_RDONLY | O_DIRECTORY, 0, false), error;
	uint32_t tries_max = INSTANCE_RELEASE_TRIES_MAX;
	uint64_t pid = 0;

	must(instance->state == INSTANCE_CHECKING || instance->state == INSTANCE_FORMATTING);
	if (fd < 0)
		return 0; /* no file, no lock */
	error = os->calls->lock(os, fd);
	if (error == -EWOULDBLOCK)
		provider_lock_holder(os, fd, holder);
	os->calls->close_fd(os, fd);
	if (error != -EWOULDBLOCK)
		return 0;
	if (text_parse_u64(holder, 10, INT32_MAX, &pid) == 0 && instance_process_lives(os, pid))
		tries_max = INSTANCE_TRIES_MAX;
	probe_instance_storage_taken(reactor_now(), instance, (int32_t)pid, ++instance->tries, tries_max);
	if (instance->tries >= tries_max)
		return fault_storage_taken(why, instance->options.index, instance->options.mount, holder);
	deadline_set(&instance->deadlines, &instance->again, INSTANCE_AGAIN_MS * NS_PER_MS, again);
	return -EAGAIN;
}
